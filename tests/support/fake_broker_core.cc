#include "tests/support/fake_broker_core.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "google/rpc/error_details.pb.h"

namespace stint::testing {
namespace {

Refusal LeaseLost() {
  return {
      absl::StatusCode::kFailedPrecondition, "LEASE_LOST", "the token is not the owner's", {}, {}};
}

}  // namespace

google::rpc::Status MakeRpcStatus(const Refusal& refusal) {
  google::rpc::Status rpc;
  rpc.set_code(static_cast<int>(refusal.code));
  rpc.set_message(refusal.message);
  if (!refusal.reason.empty()) {
    google::rpc::ErrorInfo info;
    info.set_reason(refusal.reason);
    info.set_domain("stint.dev");
    rpc.add_details()->PackFrom(info);
  }
  if (!refusal.violations.empty()) {
    google::rpc::BadRequest bad;
    for (const auto& [field, description] : refusal.violations) {
      auto* violation = bad.add_field_violations();
      violation->set_field(field);
      violation->set_description(description);
    }
    rpc.add_details()->PackFrom(bad);
  }
  if (refusal.retry_delay > absl::ZeroDuration()) {
    google::rpc::RetryInfo retry;
    absl::Duration rest = refusal.retry_delay;
    retry.mutable_retry_delay()->set_seconds(absl::IDivDuration(rest, absl::Seconds(1), &rest));
    retry.mutable_retry_delay()->set_nanos(static_cast<int>(absl::ToInt64Nanoseconds(rest)));
    rpc.add_details()->PackFrom(retry);
  }
  return rpc;
}

grpc::Status MakeGrpcStatus(const google::rpc::Status& rpc) {
  return grpc::Status(static_cast<grpc::StatusCode>(rpc.code()), rpc.message(),
                      rpc.details_size() > 0 ? rpc.SerializeAsString() : "");
}

Refusal NotFound(absl::string_view what) {
  return {absl::StatusCode::kNotFound, "JOB_NOT_FOUND", absl::StrCat("no job ", what), {}, {}};
}

Refusal WrongState() {
  return {absl::StatusCode::kFailedPrecondition, "WRONG_STATE", "the job has ended", {}, {}};
}

Refusal TooLarge(absl::string_view field, size_t bytes) {
  return {absl::StatusCode::kInvalidArgument,
          "INVALID_REQUEST",
          "invalid fields",
          {},
          {{std::string(field),
            absl::StrCat("is ", bytes, " bytes, the limit is ", FakeBroker::kMaxPayloadBytes)}}};
}

double WaitSeconds(const google::protobuf::Duration& wait) {
  return static_cast<double>(wait.seconds()) + wait.nanos() * 1e-9;
}

bool IsLive(v1::JobState state) {
  return state != v1::JOB_STATE_COMPLETED && state != v1::JOB_STATE_CANCELLED &&
         state != v1::JOB_STATE_DEAD;
}

std::string QueueOf(absl::string_view name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  return parts.size() == 4 ? parts[1] : "";
}

grpc::Status MakeGrpcStatus(const Refusal& refusal) {
  return MakeGrpcStatus(MakeRpcStatus(refusal));
}

Refusal QueueNotFound(absl::string_view queue) {
  return {absl::StatusCode::kNotFound, "QUEUE_NOT_FOUND", absl::StrCat("no queue ", queue), {}, {}};
}

v1::Queue* FakeCore::TouchQueue(const std::string& queue) {
  v1::Queue& row = queues[queue];
  row.set_name("queues/" + queue);
  if (row.etag().empty()) row.set_etag("1");
  return &row;
}

std::string FakeCore::Add(const std::string& queue, const v1::JobSpec& spec, std::string id) {
  TouchQueue(queue);
  if (id.empty()) id = absl::StrCat("j", next_job++);
  const std::string name = absl::StrCat("queues/", queue, "/jobs/", id);
  StoredJob& stored = jobs[name];
  stored.job.set_name(name);
  *stored.job.mutable_spec() = spec;
  if (!stored.job.spec().has_priority()) stored.job.mutable_spec()->set_priority(5);
  stored.job.set_state(spec.has_delay() || spec.has_due_time() ? v1::JOB_STATE_DELAYED
                                                               : v1::JOB_STATE_READY);
  stored.job.set_attempt(1);
  order.push_back(name);
  changed.notify_all();
  return name;
}

FakeCore::StoredJob* FakeCore::Find(const std::string& name) {
  const auto found = jobs.find(name);
  return found == jobs.end() ? nullptr : &found->second;
}

int FakeCore::CountIn(absl::string_view queue, v1::JobState state) const {
  int count = 0;
  for (const auto& [name, stored] : jobs) {
    if (stored.job.state() == state && QueueOf(name) == queue) ++count;
  }
  return count;
}

void FakeCore::FillStats(const std::string& queue, v1::QueueStats* stats) const {
  stats->set_ready(CountIn(queue, v1::JOB_STATE_READY));
  stats->set_delayed(CountIn(queue, v1::JOB_STATE_DELAYED));
  stats->set_leased(CountIn(queue, v1::JOB_STATE_LEASED));
  stats->set_completed(CountIn(queue, v1::JOB_STATE_COMPLETED));
  stats->set_cancelled(CountIn(queue, v1::JOB_STATE_CANCELLED));
  stats->set_dead(CountIn(queue, v1::JOB_STATE_DEAD));
}

v1::Lease FakeCore::Grant(StoredJob* stored, const v1::LeaseJobsRequest& request) {
  stored->token = next_token++;
  stored->job.set_state(v1::JOB_STATE_LEASED);
  stored->job.mutable_holder()->set_worker(request.worker());
  stored->job.mutable_holder()->set_token(stored->token);
  *stored->job.mutable_holder()->mutable_lease_duration() = request.lease_duration();
  int leased = 0;
  for (const auto& [name, other] : jobs) {
    if (other.job.state() == v1::JOB_STATE_LEASED) ++leased;
  }
  most_leased = std::max(most_leased, leased);
  return MakeLease(*stored);
}

v1::Lease FakeCore::MakeLease(const StoredJob& stored) {
  const v1::JobSpec& spec = stored.job.spec();
  v1::Lease lease;
  lease.set_job(stored.job.name());
  lease.set_token(stored.token);
  lease.set_attempt(stored.job.attempt());
  lease.set_kind(spec.kind());
  lease.set_payload(spec.payload());
  lease.set_content_type(spec.content_type());
  *lease.mutable_headers() = spec.headers();
  *lease.mutable_labels() = spec.labels();
  lease.set_priority(spec.priority());
  *lease.mutable_lease_duration() = stored.job.holder().lease_duration();
  const int64_t ms = lease.lease_duration().seconds() * 1000 / 3;
  lease.mutable_heartbeat_interval()->set_seconds(ms / 1000);
  lease.mutable_heartbeat_interval()->set_nanos(static_cast<int>(ms % 1000) * 1'000'000);
  return lease;
}

void FakeCore::TryLease(const v1::LeaseJobsRequest& request, v1::LeaseJobsResponse* response) {
  const std::string key = absl::StrCat(request.worker(), "/", request.request_id());
  const bool keyed = !request.worker().empty() && !request.request_id().empty();
  if (keyed && grants.count(key) > 0) {
    for (const auto& [name, granted] : grants[key]) {
      const StoredJob* const stored = Find(name);
      if (stored != nullptr && stored->token == granted)
        *response->add_leases() = MakeLease(*stored);
    }
    if (response->leases_size() > 0) return;
  }
  for (const std::string& queue : request.queues()) {
    if (queues.count(queue) > 0 && queues[queue].paused()) continue;
    for (const std::string& name : order) {
      if (response->leases_size() >= std::max(request.max_jobs(), 1)) return;
      StoredJob* const stored = Find(name);
      if (stored == nullptr || stored->job.state() != v1::JOB_STATE_READY) continue;
      if (QueueOf(name) != queue) continue;
      *response->add_leases() = Grant(stored, request);
      if (keyed) grants[key].emplace_back(name, stored->token);
    }
  }
}

void FakeCore::Settle(const v1::SettleItem& item, v1::SettleResult* result) {
  const auto& [name, settle_token] =
      item.has_complete() ? std::make_pair(item.complete().job(), item.complete().token())
      : item.has_fail()   ? std::make_pair(item.fail().job(), item.fail().token())
                          : std::make_pair(item.release().job(), item.release().token());
  StoredJob* const stored = Find(name);
  if (stored == nullptr) {
    *result->mutable_error() = MakeRpcStatus(NotFound(name));
    return;
  }
  if (stored->settled_token == settle_token) {
    *result = stored->settled_answer;
    return;
  }
  if (stored->token != settle_token) {
    *result->mutable_error() = MakeRpcStatus(LeaseLost());
    return;
  }
  if (item.has_complete() && item.complete().result().size() > FakeBroker::kMaxPayloadBytes) {
    *result->mutable_error() = MakeRpcStatus(TooLarge("result", item.complete().result().size()));
    return;
  }
  ApplySettle(item, stored, result);
  stored->token = 0;
  stored->job.clear_holder();
  stored->settled_token = settle_token;
  stored->settled_answer = *result;
  changed.notify_all();
}

void FakeCore::ApplySettle(const v1::SettleItem& item, StoredJob* stored,
                           v1::SettleResult* result) {
  v1::Job& job = stored->job;
  if (item.has_complete()) {
    job.set_state(v1::JOB_STATE_COMPLETED);
    job.set_end_reason(v1::END_REASON_COMPLETED);
    job.set_result(item.complete().result());
    result->mutable_complete()->set_state(job.state());
  } else if (item.has_fail()) {
    job.set_failures(job.failures() + 1);
    job.set_last_error(item.fail().error());
    if (job.cancel_requested()) {
      job.set_state(v1::JOB_STATE_CANCELLED);
    } else if (item.fail().no_retry()) {
      job.set_state(v1::JOB_STATE_DEAD);
      job.set_end_reason(v1::END_REASON_REJECTED_BY_WORKER);
    } else {
      job.set_state(v1::JOB_STATE_DELAYED);
      job.set_attempt(job.attempt() + 1);
      result->mutable_fail()->set_next_attempt(job.attempt());
      *result->mutable_fail()->mutable_retry_delay() = item.fail().retry_after();
    }
    result->mutable_fail()->set_state(job.state());
    result->mutable_fail()->set_end_reason(job.end_reason());
  } else {
    // A job given back as unknown waits, so that it is not leased again at once.
    const bool waits =
        item.release().has_delay() || item.release().reason() == v1::RELEASE_REASON_KIND_UNKNOWN;
    job.set_state(job.cancel_requested() ? v1::JOB_STATE_CANCELLED
                  : waits                ? v1::JOB_STATE_DELAYED
                                         : v1::JOB_STATE_READY);
    result->mutable_release()->set_state(job.state());
  }
}

}  // namespace stint::testing
