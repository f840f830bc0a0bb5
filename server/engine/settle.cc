// Complete, fail, release: accepted only by the token that owns the job.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "server/engine/error.h"
#include "server/engine/job_state.h"
#include "server/engine/policy.h"
#include "server/engine/refusals.h"
#include "storage/records.h"

namespace stint::engine {

using storage::JobKey;
using storage::Read;

namespace {

SettleResult FromAnswer(const record::SettleAnswer& answer) {
  SettleResult result;
  result.kind = static_cast<SettleKind>(answer.kind());
  result.state = static_cast<JobState>(answer.state());
  result.end_reason = static_cast<EndReason>(answer.end_reason());
  result.retry_delay_ms = answer.retry_delay_ms();
  result.next_attempt = answer.next_attempt();
  return result;
}

JobEvent ReleaseEvent(ReleaseReason reason) {
  switch (reason) {
    case ReleaseReason::kNone:
      return JobEvent::kReleased;
    case ReleaseReason::kShutdown:
      return JobEvent::kReleasedForShutdown;
    case ReleaseReason::kKindUnknown:
      break;
  }
  return JobEvent::kReleasedKindUnknown;
}

SettleResult Refusal(const SettleItem& item, absl::Status status) {
  SettleResult result;
  result.kind = item.kind;
  result.status = std::move(status);
  return result;
}

}  // namespace

Result Engine::Handle(const SettleCommand& command, const Now& now) {
  // Everything any item needs is read before the first of them changes anything.
  Reads reads;
  for (const SettleItem& item : command.items) {
    QueueState* queue = nullptr;
    JobRow row;
    reads.Add(FindJob(item.job, &queue, &row));
  }
  if (reads.unknown) return Result::NeedsRows();
  SettleReply reply;
  reply.results.reserve(command.items.size());
  for (const SettleItem& item : command.items) reply.results.push_back(SettleOne(item, now));
  return Result::Done(std::move(reply));
}

SettleResult Engine::SettleOne(const SettleItem& item, const Now& now) {
  QueueState* queue = nullptr;
  JobRow row;
  switch (FindJob(item.job, &queue, &row)) {
    case Read::kFound:
      break;
    case Read::kCorrupt:
    case Read::kUnknown:  // all rows were fetched
      return Refusal(item, JobUnreadable(item.job));
    case Read::kAbsent:
      if (const auto answer = RepeatRemoved(queue, item)) return *answer;
      return Refusal(item, JobNotFound(item.job));
  }
  if (row.state.owner_token() != 0 && row.state.owner_token() == item.token &&
      Allows(static_cast<JobState>(row.state.state()), Event::kSettle)) {
    return Accept(queue, &row, item, now);
  }
  const record::SettleAnswer& last = row.state.settle();
  if (last.token() == item.token && last.kind() == static_cast<int32_t>(item.kind)) {
    return FromAnswer(last);
  }
  // The id may have been given to another job since.
  if (const auto answer = RepeatRemoved(queue, item)) return *answer;
  return RefuseSettle(*queue, row, item);
}

std::optional<SettleResult> Engine::RepeatRemoved(const QueueState* queue,
                                                  const SettleItem& item) const {
  if (queue == nullptr) return std::nullopt;
  const record::SettleAnswer* answer = removed_.Find(queue->id, item.job.job_id, item.token);
  if (answer == nullptr || answer->kind() != static_cast<int32_t>(item.kind)) return std::nullopt;
  return FromAnswer(*answer);
}

SettleResult Engine::RefuseSettle(const QueueState& queue, const JobRow& row,
                                  const SettleItem& item) {
  Note(queue, JobEvent::kStaleToken);
  const int32_t attempt = 1 + row.state.total_failures() + row.state.total_losses();
  const auto state = static_cast<JobState>(row.state.state());
  std::string holder = row.state.owner_token() == 0 ? "nobody"
                       : row.state.worker().empty() ? "an anonymous worker"
                                                    : "worker " + row.state.worker();
  return Refusal(item,
                 MakeError(Reason::kLeaseLost,
                           absl::StrCat("token ", item.token, " does not own ", JobName(item.job),
                                        " (any more): it is ", JobStateName(state), " in attempt ",
                                        attempt, ", held by ", holder, "; stop working on it"),
                           {{"job", JobName(item.job)},
                            {"queue", queue.record.name()},
                            {"state", std::string(JobStateName(state))},
                            {"attempt", absl::StrCat(attempt)},
                            {"worker", row.state.worker()}}));
}

void Engine::NoteSettle(const QueueState& queue, const record::JobState& before, const Now& now) {
  if (before.state() != storage::kStateLeased) Note(queue, JobEvent::kLateSettle);
  NoteTime(queue, JobTime::kRun, now.broker_ms - before.granted_ms());
}

SettleResult Engine::Accept(QueueState* queue, JobRow* row, const SettleItem& item,
                            const Now& now) {
  record::JobState after =
      row->state.state() == storage::kStateLeased ? row->state : TakeBackLapse(row->state);
  NoteSettle(*queue, row->state, now);
  const bool cancel = after.cancel_requested();
  if (item.release_reason != ReleaseReason::kKindUnknown) after.set_kind_releases(0);

  SettleResult result;
  result.kind = item.kind;
  EndReason reason = EndReason::kNone;
  switch (item.kind) {
    case SettleKind::kComplete:
      reason = EndReason::kCompleted;
      after.set_consecutive_losses(0);
      break;
    case SettleKind::kFail:
      AddAttempt(after, AttemptOutcome::kFailed, item.error, now, &after);
      after.set_last_error(item.error);
      result.retry_delay_ms = ChargeFailure(*queue, *row, item.delay_ms, now, &after, &reason);
      if (cancel) {
        reason = EndReason::kCancelledByClient;
      } else if (item.no_retry) {
        reason = EndReason::kRejectedByWorker;
      }
      break;
    case SettleKind::kRelease: {
      Note(*queue, ReleaseEvent(item.release_reason));
      int64_t delay = item.delay_ms.value_or(0);
      if (item.release_reason == ReleaseReason::kKindUnknown) {
        after.set_kind_releases(after.kind_releases() + 1);
        delay = item.delay_ms.value_or(KindReleaseDelayMs(after.kind_releases()));
      }
      if (cancel) {
        reason = EndReason::kCancelledByClient;
        break;
      }
      ClearOwner(&after);
      after.set_state(delay > 0 ? storage::kStateDelayed : storage::kStateReady);
      if (delay > 0) {
        after.set_due_ms(now.broker_ms + delay);
        after.set_ready_ms(after.due_ms());
      }
      break;
    }
  }

  const bool ends = reason != EndReason::kNone;
  record::SettleAnswer* answer = after.mutable_settle();
  answer->set_token(item.token);
  answer->set_kind(static_cast<int32_t>(item.kind));
  answer->set_end_reason(static_cast<int32_t>(reason));
  answer->set_retry_delay_ms(ends ? 0 : result.retry_delay_ms);
  answer->set_next_attempt(ends ? 0 : 1 + after.total_failures() + after.total_losses());
  if (ends) {
    answer->set_state(static_cast<int32_t>(reason == EndReason::kCompleted ? JobState::kCompleted
                                           : reason == EndReason::kCancelledByClient
                                               ? JobState::kCancelled
                                               : JobState::kDead));
    result = FromAnswer(*answer);
    const absl::string_view kept_result =
        reason == EndReason::kCompleted ? absl::string_view(item.result) : absl::string_view();
    End(queue, row, std::move(after), reason, kept_result, now);
  } else {
    answer->set_state(after.state());
    result = FromAnswer(*answer);
    Move(queue, row, std::move(after), now);
  }
  return result;
}

}  // namespace stint::engine
