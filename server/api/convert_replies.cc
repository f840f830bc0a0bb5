#include <utility>

#include "absl/strings/str_cat.h"
#include "server/api/convert.h"
#include "server/api/error_details.h"
#include "server/api/names.h"
#include "server/api/settings_records.h"
#include "server/api/time_values.h"
#include "server/engine/limits.h"

namespace stint::api {
namespace {

v1::AttemptRecord ToAttempt(const record::AttemptRecord& record) {
  v1::AttemptRecord attempt;
  attempt.set_attempt(record.attempt());
  attempt.set_outcome(static_cast<v1::AttemptOutcome>(record.outcome()));
  attempt.set_worker(record.worker());
  attempt.set_error(record.error());
  *attempt.mutable_end_time() = TimestampOfMillis(record.end_wall_ms());
  return attempt;
}

// A time in broker time, as the wall clock showed it when the job was enqueued; off by as
// much as that clock has been set since.
google::protobuf::Timestamp WallTimeOf(const record::JobRecord& record, int64_t broker_ms) {
  return TimestampOfMillis(broker_ms - record.create_ms() + record.create_wall_ms());
}

// The values in force: of an update, else of the job, else of its queue.
void FillBudgets(const record::JobRecord& record, const record::JobState& state,
                 const record::QueueSettings& settings, v1::JobSpec* spec) {
  spec->set_max_attempts(engine::kDefaultMaxAttempts);
  spec->set_max_losses(engine::kDefaultMaxLosses);
  BudgetsFromRecord(settings, spec);
  BudgetsFromRecord(record, spec);
  if (state.has_max_attempts()) spec->set_max_attempts(state.max_attempts());
  if (state.has_max_losses()) spec->set_max_losses(state.max_losses());
}

void FillSpec(record::JobRecord&& record, const record::JobState& state,
              const record::QueueSettings& settings, bool full, v1::JobSpec* spec) {
  FillBudgets(record, state, settings, spec);
  if (record.has_expiry_wall_ms()) {
    *spec->mutable_expire_time() = TimestampOfMillis(record.expiry_wall_ms());
  } else if (record.has_expiry_ms()) {
    *spec->mutable_expire_time() = WallTimeOf(record, record.expiry_ms());
  }
  if (state.has_due_wall_ms()) {
    *spec->mutable_due_time() = TimestampOfMillis(state.due_wall_ms());
  } else if (state.state() == v1::JOB_STATE_DELAYED) {
    *spec->mutable_due_time() = WallTimeOf(record, state.due_ms());
  }
  spec->set_priority(state.priority());
  spec->set_kind(std::move(*record.mutable_kind()));
  spec->set_content_type(std::move(*record.mutable_content_type()));
  spec->mutable_labels()->swap(*record.mutable_labels());
  if (full) {
    spec->set_payload(std::move(*record.mutable_payload()));
    spec->mutable_headers()->swap(*record.mutable_headers());
  }
}

void FillHolder(const record::JobState& state, v1::Job* job) {
  if (state.owner_token() == 0) return;
  v1::JobHolder* holder = job->mutable_holder();
  holder->set_worker(state.worker());
  holder->set_token(state.owner_token());
  *holder->mutable_grant_time() = TimestampOfMillis(state.granted_wall_ms());
  *holder->mutable_lease_duration() = DurationOfMillis(state.lease_duration_ms());
}

v1::Job MakeJob(const std::string& queue, const std::string& job_id, record::JobRecord&& record,
                record::JobState&& state, std::string&& result,
                const record::QueueSettings& settings, v1::JobView view) {
  const bool full = view == v1::JOB_VIEW_FULL;
  v1::Job job;
  job.set_name(JobName(queue, job_id));
  job.set_state(static_cast<v1::JobState>(state.state()));
  job.set_end_reason(static_cast<v1::EndReason>(state.end_reason()));
  job.set_attempt(1 + state.total_failures() + state.total_losses());
  job.set_failures(state.failures());
  job.set_consecutive_losses(state.consecutive_losses());
  *job.mutable_create_time() = TimestampOfMillis(record.create_wall_ms());
  *job.mutable_update_time() = TimestampOfMillis(
      state.update_wall_ms() == 0 ? record.create_wall_ms() : state.update_wall_ms());
  if (state.end_wall_ms() != 0) *job.mutable_end_time() = TimestampOfMillis(state.end_wall_ms());
  FillHolder(state, &job);
  job.set_cancel_requested(state.cancel_requested());
  if (full) job.set_result(std::move(result));
  job.set_last_error(std::move(*state.mutable_last_error()));
  for (const record::AttemptRecord& attempt : state.attempts()) {
    *job.add_attempts() = ToAttempt(attempt);
  }
  job.set_size_bytes(record.size_bytes());
  FillSpec(std::move(record), state, settings, full, job.mutable_spec());
  return job;
}

}  // namespace

v1::EnqueueJobResponse ToEnqueueResponse(const std::string& queue, const engine::EnqueuedJob& job) {
  v1::EnqueueJobResponse response;
  response.set_job(JobName(queue, job.job_id));
  response.set_state(static_cast<v1::JobState>(job.state));
  return response;
}

void ToResults(const google::protobuf::RepeatedPtrField<v1::HeartbeatItem>& items,
               const engine::HeartbeatReply& reply,
               google::protobuf::RepeatedPtrField<v1::HeartbeatResult>* results) {
  results->Reserve(items.size());
  for (int i = 0; i < items.size(); ++i) {
    v1::HeartbeatResult* result = results->Add();
    result->set_job(items[i].job());
    result->set_token(items[i].token());
    result->set_status(static_cast<v1::LeaseStatus>(reply.statuses[static_cast<size_t>(i)]));
  }
}

v1::SettleResult ToSettleResult(const engine::SettleResult& settled) {
  v1::SettleResult result;
  if (!settled.status.ok()) {
    *result.mutable_error() = ToItemStatus(settled.status);
    return result;
  }
  switch (settled.kind) {
    case engine::SettleKind::kComplete:
      *result.mutable_complete() = ToCompleteResponse(settled);
      break;
    case engine::SettleKind::kFail:
      *result.mutable_fail() = ToFailResponse(settled);
      break;
    case engine::SettleKind::kRelease:
      *result.mutable_release() = ToReleaseResponse(settled);
      break;
  }
  return result;
}

v1::Job ToJob(engine::JobSnapshot&& job, const record::QueueSettings& settings, v1::JobView view) {
  return MakeJob(job.queue, job.job_id, std::move(job.record), std::move(job.state),
                 std::move(job.result), settings, view);
}

v1::Job ToJob(const std::string& queue, storage::StoredJob&& job,
              const record::QueueSettings& settings, v1::JobView view) {
  return MakeJob(queue, job.job_id, std::move(job.record), std::move(job.state),
                 std::move(job.result), settings, view);
}

v1::Lease ToLease(engine::GrantedLease&& granted) {
  record::JobRecord& record = granted.job.record;
  const record::JobState& state = granted.job.state;
  v1::Lease lease;
  lease.set_job(JobName(granted.job.queue, granted.job.job_id));
  lease.set_token(granted.token);
  lease.set_attempt(1 + state.total_failures() + state.total_losses());
  lease.set_kind(std::move(*record.mutable_kind()));
  lease.set_payload(std::move(*record.mutable_payload()));
  lease.set_content_type(std::move(*record.mutable_content_type()));
  lease.mutable_headers()->swap(*record.mutable_headers());
  lease.mutable_labels()->swap(*record.mutable_labels());
  lease.set_priority(state.priority());
  *lease.mutable_lease_duration() = DurationOfMillis(granted.lease_ms);
  *lease.mutable_heartbeat_interval() = DurationOfMillis(granted.lease_ms / 3);
  if (granted.run_limit_ms > 0) {
    *lease.mutable_run_limit() = DurationOfMillis(granted.run_limit_ms);
  }
  *lease.mutable_create_time() = TimestampOfMillis(record.create_wall_ms());
  lease.set_failures(state.failures());
  lease.set_max_attempts(granted.max_attempts);
  if (!state.attempts().empty()) {
    *lease.mutable_last_attempt() = ToAttempt(*state.attempts().rbegin());
  }
  return lease;
}

v1::Queue ToQueue(const record::QueueRecord& record) {
  v1::Queue queue;
  queue.set_name(QueueName(record.name()));
  *queue.mutable_settings() = SettingsFromRecord(record.settings());
  queue.set_paused(record.paused());
  queue.set_draining(record.draining());
  *queue.mutable_create_time() = TimestampOfMillis(record.create_wall_ms());
  queue.set_etag(absl::StrCat(record.version()));
  return queue;
}

v1::QueueStats ToStats(const record::QueueCounters& counters) {
  v1::QueueStats stats;
  stats.set_ready(counters.ready());
  stats.set_delayed(counters.delayed());
  stats.set_held(counters.held());
  stats.set_leased(counters.leased());
  stats.set_completed(counters.completed());
  stats.set_cancelled(counters.cancelled());
  stats.set_dead(counters.dead());
  stats.set_live_bytes(counters.waiting_bytes() + counters.leased_bytes());
  stats.set_ended_bytes(counters.finished_bytes() + counters.dead_bytes());
  return stats;
}

v1::CompleteJobResponse ToCompleteResponse(const engine::SettleResult& result) {
  v1::CompleteJobResponse response;
  response.set_state(static_cast<v1::JobState>(result.state));
  return response;
}

v1::FailJobResponse ToFailResponse(const engine::SettleResult& result) {
  v1::FailJobResponse response;
  response.set_state(static_cast<v1::JobState>(result.state));
  response.set_end_reason(static_cast<v1::EndReason>(result.end_reason));
  if (result.end_reason == engine::EndReason::kNone) {
    *response.mutable_retry_delay() = DurationOfMillis(result.retry_delay_ms);
    response.set_next_attempt(result.next_attempt);
  }
  return response;
}

v1::ReleaseJobResponse ToReleaseResponse(const engine::SettleResult& result) {
  v1::ReleaseJobResponse response;
  response.set_state(static_cast<v1::JobState>(result.state));
  return response;
}

}  // namespace stint::api
