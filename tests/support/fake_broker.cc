#include "tests/support/fake_broker.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "stint/v1/admin_service.grpc.pb.h"
#include "stint/v1/job_service.grpc.pb.h"
#include "stint/v1/queue_service.grpc.pb.h"
#include "stint/v1/worker_service.grpc.pb.h"

namespace stint::testing {
namespace {

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

Refusal LeaseLost() {
  return {
      absl::StatusCode::kFailedPrecondition, "LEASE_LOST", "the token is not the owner's", {}, {}};
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

bool IsLive(v1::JobState state) {
  return state != v1::JOB_STATE_COMPLETED && state != v1::JOB_STATE_CANCELLED &&
         state != v1::JOB_STATE_DEAD;
}

std::string QueueOf(absl::string_view name) {
  const std::vector<std::string> parts = absl::StrSplit(name, '/');
  return parts.size() == 4 ? parts[1] : "";
}

}  // namespace

class FakeBroker::Core {
 public:
  struct StoredJob {
    v1::Job job;
    int64_t token = 0;                // of the owner; 0: none
    int64_t settled_token = 0;        // of the last settle
    v1::SettleResult settled_answer;  // and what it was told
    v1::LeaseStatus verdict = v1::LEASE_STATUS_UNSPECIFIED;
  };
  struct Script {
    std::vector<Refusal> refusals;
    int lose = 0;
  };

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::map<std::string, StoredJob> jobs;
  std::vector<std::string> order;  // job names as enqueued
  std::map<std::string, v1::Queue> queues;
  std::map<std::string, std::string> answers;  // by method and request id
  std::map<std::string, std::vector<std::pair<std::string, int64_t>>> grants;
  std::map<std::string, Script> scripts;
  std::map<std::string, std::vector<std::string>> requests;
  std::string token;
  bool down = false;
  bool stopping = false;
  bool draining = false;
  int64_t next_token = 1'000'000;
  int64_t next_job = 1;
  int most_leased = 0;
  absl::Duration interval;

  // Runs `apply` under the mutex, unless the script says otherwise.
  template <typename Request>
  grpc::Status Handle(grpc::ServerContext* context, const std::string& method,
                      const Request& request, const std::function<grpc::Status()>& apply) {
    std::unique_lock<std::mutex> lock(mutex);
    requests[method].push_back(request.SerializeAsString());
    changed.notify_all();
    if (down || stopping) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "down");
    if (!token.empty()) {
      const auto sent = context->client_metadata().find("authorization");
      if (sent == context->client_metadata().end() ||
          absl::string_view(sent->second.data(), sent->second.size()) != "Bearer " + token) {
        return MakeGrpcStatus(MakeRpcStatus(
            {absl::StatusCode::kUnauthenticated, "UNAUTHENTICATED", "wrong token", {}, {}}));
      }
    }
    Script& script = scripts[method];
    if (!script.refusals.empty()) {
      const Refusal refusal = script.refusals.front();
      script.refusals.erase(script.refusals.begin());
      return MakeGrpcStatus(MakeRpcStatus(refusal));
    }
    const bool lose = script.lose > 0;
    if (lose) --script.lose;
    const grpc::Status status = apply();
    changed.notify_all();
    if (lose) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the answer was lost");
    return status;
  }

  // The stored answer of a repeated call, or `apply`'s.
  template <typename Request, typename Response>
  grpc::Status Once(const std::string& method, const Request& request, Response* response,
                    const std::function<grpc::Status()>& apply) {
    const std::string key = absl::StrCat(method, "/", request.request_id());
    const auto stored = answers.find(key);
    if (!request.request_id().empty() && stored != answers.end()) {
      response->ParseFromString(stored->second);
      return grpc::Status::OK;
    }
    const grpc::Status status = apply();
    if (status.ok()) answers[key] = response->SerializeAsString();
    return status;
  }

  v1::Queue* TouchQueue(const std::string& queue) {
    v1::Queue& row = queues[queue];
    row.set_name("queues/" + queue);
    if (row.etag().empty()) row.set_etag("1");
    return &row;
  }

  std::string Add(const std::string& queue, const v1::JobSpec& spec, std::string id) {
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

  StoredJob* Find(const std::string& name) {
    const auto found = jobs.find(name);
    return found == jobs.end() ? nullptr : &found->second;
  }

  int CountIn(absl::string_view queue, v1::JobState state) const {
    int count = 0;
    for (const auto& [name, stored] : jobs) {
      if (stored.job.state() == state && QueueOf(name) == queue) ++count;
    }
    return count;
  }

  void FillStats(const std::string& queue, v1::QueueStats* stats) const {
    stats->set_ready(CountIn(queue, v1::JOB_STATE_READY));
    stats->set_delayed(CountIn(queue, v1::JOB_STATE_DELAYED));
    stats->set_leased(CountIn(queue, v1::JOB_STATE_LEASED));
    stats->set_completed(CountIn(queue, v1::JOB_STATE_COMPLETED));
    stats->set_cancelled(CountIn(queue, v1::JOB_STATE_CANCELLED));
    stats->set_dead(CountIn(queue, v1::JOB_STATE_DEAD));
  }

  v1::Lease Grant(StoredJob* stored, const v1::LeaseJobsRequest& request) {
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

  static v1::Lease MakeLease(const StoredJob& stored) {
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

  // Fills `response` with leases that `request` was given before, or can be given now.
  void TryLease(const v1::LeaseJobsRequest& request, v1::LeaseJobsResponse* response) {
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

  // Applies one settle. Fills `result`; an error stands in it.
  void Settle(const v1::SettleItem& item, v1::SettleResult* result) {
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
    if (item.has_complete() && item.complete().result().size() > kMaxPayloadBytes) {
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

  static void ApplySettle(const v1::SettleItem& item, StoredJob* stored, v1::SettleResult* result) {
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
};

class FakeBroker::JobServiceImpl final : public v1::JobService::Service {
 public:
  explicit JobServiceImpl(Core* core) : core_(*core) {}

  grpc::Status EnqueueJob(grpc::ServerContext* context, const v1::EnqueueJobRequest* request,
                          v1::EnqueueJobResponse* response) override {
    return core_.Handle(context, "EnqueueJob", *request, [&] {
      return core_.Once("EnqueueJob", *request, response, [&] {
        return Enqueue(request->queue(), request->job(), request->job_id(), response);
      });
    });
  }

  grpc::Status BatchEnqueueJobs(grpc::ServerContext* context,
                                const v1::BatchEnqueueJobsRequest* request,
                                v1::BatchEnqueueJobsResponse* response) override {
    return core_.Handle(context, "BatchEnqueueJobs", *request, [&] {
      return core_.Once("BatchEnqueueJobs", *request, response, [&] {
        for (const v1::BatchEnqueueItem& item : request->items()) {
          const grpc::Status status =
              Enqueue(request->queue(), item.job(), item.job_id(), response->add_results());
          if (!status.ok()) return status;
        }
        return grpc::Status::OK;
      });
    });
  }

  grpc::Status GetJob(grpc::ServerContext* context, const v1::GetJobRequest* request,
                      v1::GetJobResponse* response) override {
    return core_.Handle(context, "GetJob", *request,
                        [&] { return Copy(request->job(), response->mutable_job()); });
  }

  // Page tokens are positions in the order of enqueueing.
  grpc::Status ListJobs(grpc::ServerContext* context, const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    return core_.Handle(context, "ListJobs", *request, [&] {
      if (core_.queues.count(request->queue()) == 0) return NoQueue(request->queue());
      size_t at = 0;
      if (!request->page_token().empty() && !absl::SimpleAtoi(request->page_token(), &at)) at = 0;
      const int page = request->page_size() > 0 ? request->page_size() : 100;
      for (; at < core_.order.size() && response->jobs_size() < page; ++at) {
        const Core::StoredJob* const stored = core_.Find(core_.order[at]);
        if (stored == nullptr || !Matches(*request, stored->job)) continue;
        *response->add_jobs() = stored->job;
      }
      if (at < core_.order.size()) response->set_next_page_token(absl::StrCat(at));
      return grpc::Status::OK;
    });
  }

  grpc::Status WaitJob(grpc::ServerContext* context, const v1::WaitJobRequest* request,
                       v1::WaitJobResponse* response) override {
    const grpc::Status status = core_.Handle(context, "WaitJob", *request, [&] {
      return Copy(request->job(), response->mutable_job());
    });
    if (!status.ok()) return status;
    std::unique_lock<std::mutex> lock(core_.mutex);
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(request->wait().seconds());
    while (!core_.stopping && !context->IsCancelled() &&
           Copy(request->job(), response->mutable_job()).ok() && IsLive(response->job().state()) &&
           std::chrono::steady_clock::now() < end) {
      core_.changed.wait_for(lock, std::chrono::milliseconds(5));
    }
    return grpc::Status::OK;
  }

  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override {
    return core_.Handle(context, "CancelJob", *request, [&] {
      Core::StoredJob* const stored = core_.Find(request->job());
      if (stored == nullptr) return MakeGrpcStatus(MakeRpcStatus(NotFound(request->job())));
      if (!IsLive(stored->job.state())) return MakeGrpcStatus(MakeRpcStatus(WrongState()));
      if (stored->job.state() == v1::JOB_STATE_LEASED) {
        stored->job.set_cancel_requested(true);
        stored->verdict = v1::LEASE_STATUS_CANCEL_REQUESTED;
      } else {
        stored->job.set_state(v1::JOB_STATE_CANCELLED);
      }
      response->set_state(stored->job.state());
      return grpc::Status::OK;
    });
  }

  grpc::Status RedriveJob(grpc::ServerContext* context, const v1::RedriveJobRequest* request,
                          v1::RedriveJobResponse* response) override {
    return core_.Handle(context, "RedriveJob", *request, [&] {
      Core::StoredJob* const stored = core_.Find(request->job());
      if (stored == nullptr) return MakeGrpcStatus(MakeRpcStatus(NotFound(request->job())));
      if (stored->job.state() != v1::JOB_STATE_DEAD) {
        return MakeGrpcStatus(MakeRpcStatus(WrongState()));
      }
      stored->job.set_state(v1::JOB_STATE_READY);
      response->set_state(v1::JOB_STATE_READY);
      return grpc::Status::OK;
    });
  }

  grpc::Status DeleteJob(grpc::ServerContext* context, const v1::DeleteJobRequest* request,
                         v1::DeleteJobResponse*) override {
    return core_.Handle(context, "DeleteJob", *request, [&] {
      if (core_.jobs.erase(request->job()) == 0) {
        return MakeGrpcStatus(MakeRpcStatus(NotFound(request->job())));
      }
      return grpc::Status::OK;
    });
  }

  grpc::Status UpdateJob(grpc::ServerContext* context, const v1::UpdateJobRequest* request,
                         v1::UpdateJobResponse* response) override {
    return core_.Handle(context, "UpdateJob", *request, [&] {
      Core::StoredJob* const stored = core_.Find(request->job());
      if (stored == nullptr) return MakeGrpcStatus(MakeRpcStatus(NotFound(request->job())));
      stored->job.mutable_spec()->MergeFrom(request->spec());
      *response->mutable_job() = stored->job;
      return grpc::Status::OK;
    });
  }

 private:
  grpc::Status Enqueue(const std::string& queue, const v1::JobSpec& spec, const std::string& id,
                       v1::EnqueueJobResponse* response) {
    if (spec.payload().size() > kMaxPayloadBytes) {
      return MakeGrpcStatus(MakeRpcStatus(TooLarge("job.payload", spec.payload().size())));
    }
    const std::string wanted = absl::StrCat("queues/", queue, "/jobs/", id);
    if (!id.empty() && core_.jobs.count(wanted) > 0) {
      return MakeGrpcStatus(MakeRpcStatus(
          {absl::StatusCode::kAlreadyExists, "JOB_EXISTS", wanted + " exists", {}, {}}));
    }
    response->set_job(core_.Add(queue, spec, id));
    response->set_state(core_.jobs[response->job()].job.state());
    return grpc::Status::OK;
  }

  grpc::Status Copy(const std::string& name, v1::Job* job) {
    const Core::StoredJob* const stored = core_.Find(name);
    if (stored == nullptr) return MakeGrpcStatus(MakeRpcStatus(NotFound(name)));
    *job = stored->job;
    return grpc::Status::OK;
  }

  static grpc::Status NoQueue(const std::string& queue) {
    return MakeGrpcStatus(MakeRpcStatus(
        {absl::StatusCode::kNotFound, "QUEUE_NOT_FOUND", "no queue " + queue, {}, {}}));
  }

  static bool Matches(const v1::ListJobsRequest& request, const v1::Job& job) {
    if (QueueOf(job.name()) != request.queue()) return false;
    if (request.has_kind() && job.spec().kind() != request.kind()) return false;
    if (request.states().empty()) return true;
    return std::find(request.states().begin(), request.states().end(), job.state()) !=
           request.states().end();
  }

  Core& core_;
};

class FakeBroker::WorkerServiceImpl final : public v1::WorkerService::Service {
 public:
  explicit WorkerServiceImpl(Core* core) : core_(*core) {}

  grpc::Status LeaseJobs(grpc::ServerContext* context, const v1::LeaseJobsRequest* request,
                         v1::LeaseJobsResponse* response) override {
    bool parked = false;
    const grpc::Status status = core_.Handle(context, "LeaseJobs", *request, [&] {
      core_.TryLease(*request, response);
      parked = response->leases().empty();
      return grpc::Status::OK;
    });
    if (!status.ok() || !parked) return status;
    std::unique_lock<std::mutex> lock(core_.mutex);
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(request->wait().seconds());
    while (response->leases().empty() && !core_.stopping && !core_.down &&
           !context->IsCancelled() && std::chrono::steady_clock::now() < end) {
      core_.changed.wait_for(lock, std::chrono::milliseconds(5));
      if (!context->IsCancelled()) core_.TryLease(*request, response);
    }
    core_.changed.notify_all();
    if (core_.down) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "down");
    return grpc::Status::OK;
  }

  grpc::Status Heartbeat(grpc::ServerContext* context, const v1::HeartbeatRequest* request,
                         v1::HeartbeatResponse* response) override {
    return core_.Handle(context, "Heartbeat", *request, [&] {
      for (const v1::HeartbeatItem& item : request->leases()) {
        v1::HeartbeatResult* const result = response->add_results();
        result->set_job(item.job());
        result->set_token(item.token());
        const Core::StoredJob* const stored = core_.Find(item.job());
        if (stored == nullptr || stored->token != item.token()) {
          result->set_status(v1::LEASE_STATUS_LOST);
        } else if (stored->verdict != v1::LEASE_STATUS_UNSPECIFIED) {
          result->set_status(stored->verdict);
        } else {
          result->set_status(v1::LEASE_STATUS_RENEWED);
        }
      }
      if (core_.interval > absl::ZeroDuration()) {
        const int64_t ms = absl::ToInt64Milliseconds(core_.interval);
        response->mutable_next_interval()->set_seconds(ms / 1000);
        response->mutable_next_interval()->set_nanos(static_cast<int>(ms % 1000) * 1'000'000);
      }
      return grpc::Status::OK;
    });
  }

  grpc::Status CompleteJob(grpc::ServerContext* context, const v1::CompleteJobRequest* request,
                           v1::CompleteJobResponse* response) override {
    return core_.Handle(context, "CompleteJob", *request, [&] {
      v1::SettleItem item;
      *item.mutable_complete() = *request;
      v1::SettleResult result;
      core_.Settle(item, &result);
      *response = result.complete();
      return MakeGrpcStatus(result.error());
    });
  }

  grpc::Status FailJob(grpc::ServerContext* context, const v1::FailJobRequest* request,
                       v1::FailJobResponse* response) override {
    return core_.Handle(context, "FailJob", *request, [&] {
      v1::SettleItem item;
      *item.mutable_fail() = *request;
      v1::SettleResult result;
      core_.Settle(item, &result);
      *response = result.fail();
      return MakeGrpcStatus(result.error());
    });
  }

  grpc::Status ReleaseJob(grpc::ServerContext* context, const v1::ReleaseJobRequest* request,
                          v1::ReleaseJobResponse* response) override {
    return core_.Handle(context, "ReleaseJob", *request, [&] {
      v1::SettleItem item;
      *item.mutable_release() = *request;
      v1::SettleResult result;
      core_.Settle(item, &result);
      *response = result.release();
      return MakeGrpcStatus(result.error());
    });
  }

  grpc::Status SettleJobs(grpc::ServerContext* context, const v1::SettleJobsRequest* request,
                          v1::SettleJobsResponse* response) override {
    return core_.Handle(context, "SettleJobs", *request, [&] {
      for (const v1::SettleItem& item : request->items()) {
        core_.Settle(item, response->add_results());
      }
      return grpc::Status::OK;
    });
  }

 private:
  Core& core_;
};

class FakeBroker::QueueServiceImpl final : public v1::QueueService::Service {
 public:
  explicit QueueServiceImpl(Core* core) : core_(*core) {}

  grpc::Status CreateQueue(grpc::ServerContext* context, const v1::CreateQueueRequest* request,
                           v1::CreateQueueResponse* response) override {
    return core_.Handle(context, "CreateQueue", *request, [&] {
      v1::Queue* const queue = core_.TouchQueue(request->queue());
      *queue->mutable_settings() = request->settings();
      *response->mutable_queue() = *queue;
      return grpc::Status::OK;
    });
  }

  grpc::Status GetQueue(grpc::ServerContext* context, const v1::GetQueueRequest* request,
                        v1::GetQueueResponse* response) override {
    return core_.Handle(context, "GetQueue", *request, [&] {
      return With(request->queue(), [&](v1::Queue* queue) { *response->mutable_queue() = *queue; });
    });
  }

  grpc::Status ListQueues(grpc::ServerContext* context, const v1::ListQueuesRequest* request,
                          v1::ListQueuesResponse* response) override {
    return core_.Handle(context, "ListQueues", *request, [&] {
      for (const auto& [id, queue] : core_.queues) {
        if (id.rfind(request->prefix(), 0) != 0) continue;
        *response->add_queues() = queue;
        if (request->with_stats()) core_.FillStats(id, response->add_stats());
      }
      return grpc::Status::OK;
    });
  }

  grpc::Status UpdateQueue(grpc::ServerContext* context, const v1::UpdateQueueRequest* request,
                           v1::UpdateQueueResponse* response) override {
    return core_.Handle(context, "UpdateQueue", *request, [&] {
      return With(request->queue(), [&](v1::Queue* queue) {
        queue->mutable_settings()->MergeFrom(request->settings());
        for (const std::string& path : request->update_mask().paths()) {
          if (path == "draining") queue->set_draining(request->draining());
        }
        *response->mutable_queue() = *queue;
      });
    });
  }

  grpc::Status DeleteQueue(grpc::ServerContext* context, const v1::DeleteQueueRequest* request,
                           v1::DeleteQueueResponse*) override {
    return core_.Handle(context, "DeleteQueue", *request, [&] {
      return With(request->queue(), [&](v1::Queue*) { core_.queues.erase(request->queue()); });
    });
  }

  grpc::Status PauseQueue(grpc::ServerContext* context, const v1::PauseQueueRequest* request,
                          v1::PauseQueueResponse* response) override {
    return core_.Handle(context, "PauseQueue", *request, [&] {
      core_.TouchQueue(request->queue())->set_paused(true);
      *response->mutable_queue() = core_.queues[request->queue()];
      return grpc::Status::OK;
    });
  }

  grpc::Status ResumeQueue(grpc::ServerContext* context, const v1::ResumeQueueRequest* request,
                           v1::ResumeQueueResponse* response) override {
    return core_.Handle(context, "ResumeQueue", *request, [&] {
      return With(request->queue(), [&](v1::Queue* queue) {
        queue->set_paused(false);
        *response->mutable_queue() = *queue;
      });
    });
  }

  grpc::Status PurgeQueue(grpc::ServerContext* context, const v1::PurgeQueueRequest* request,
                          v1::PurgeQueueResponse* response) override {
    return core_.Handle(context, "PurgeQueue", *request, [&] {
      return With(request->queue(), [&](v1::Queue*) {
        for (const std::string& name : core_.order) {
          const Core::StoredJob* const stored = core_.Find(name);
          if (stored == nullptr || QueueOf(name) != request->queue()) continue;
          if (stored->job.state() != v1::JOB_STATE_READY) continue;
          core_.jobs.erase(name);
          response->set_purged(response->purged() + 1);
        }
      });
    });
  }

  grpc::Status GetQueueStats(grpc::ServerContext* context, const v1::GetQueueStatsRequest* request,
                             v1::GetQueueStatsResponse* response) override {
    return core_.Handle(context, "GetQueueStats", *request, [&] {
      return With(request->queue(), [&](v1::Queue*) {
        core_.FillStats(request->queue(), response->mutable_stats());
      });
    });
  }

 private:
  grpc::Status With(const std::string& id, const std::function<void(v1::Queue*)>& apply) {
    const auto found = core_.queues.find(id);
    if (found == core_.queues.end()) {
      return MakeGrpcStatus(MakeRpcStatus(
          {absl::StatusCode::kNotFound, "QUEUE_NOT_FOUND", "no queue " + id, {}, {}}));
    }
    apply(&found->second);
    return grpc::Status::OK;
  }

  Core& core_;
};

class FakeBroker::AdminServiceImpl final : public v1::AdminService::Service {
 public:
  explicit AdminServiceImpl(Core* core) : core_(*core) {}

  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override {
    return core_.Handle(context, "GetServerInfo", *request, [&] {
      response->set_version("0.1.0");
      response->set_store("memory");
      response->set_max_payload_bytes(static_cast<int64_t>(kMaxPayloadBytes));
      response->set_queues(static_cast<int64_t>(core_.queues.size()));
      response->set_draining(core_.draining);
      return grpc::Status::OK;
    });
  }

  grpc::Status DrainServer(grpc::ServerContext* context, const v1::DrainServerRequest* request,
                           v1::DrainServerResponse*) override {
    return core_.Handle(context, "DrainServer", *request, [&] {
      core_.draining = true;
      return grpc::Status::OK;
    });
  }

 private:
  Core& core_;
};

struct FakeBroker::Services {
  explicit Services(Core* core) : jobs(core), workers(core), queues(core), admin(core) {}

  JobServiceImpl jobs;
  WorkerServiceImpl workers;
  QueueServiceImpl queues;
  AdminServiceImpl admin;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

FakeBroker::FakeBroker()
    : core_(std::make_unique<Core>()), services_(std::make_unique<Services>(core_.get())) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &services_->port);
  builder.RegisterService(&services_->jobs);
  builder.RegisterService(&services_->workers);
  builder.RegisterService(&services_->queues);
  builder.RegisterService(&services_->admin);
  services_->server = builder.BuildAndStart();
}

FakeBroker::~FakeBroker() {
  {
    const std::lock_guard<std::mutex> lock(core_->mutex);
    core_->stopping = true;
    core_->changed.notify_all();
  }
  services_->server->Shutdown(std::chrono::system_clock::now());
}

std::string FakeBroker::address() const { return absl::StrCat("127.0.0.1:", services_->port); }

void FakeBroker::Refuse(absl::string_view method, const Refusal& refusal, int count) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  std::vector<Refusal>& refusals = core_->scripts[std::string(method)].refusals;
  refusals.insert(refusals.end(), static_cast<size_t>(count), refusal);
}

void FakeBroker::LoseAnswers(absl::string_view method, int count) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->scripts[std::string(method)].lose += count;
}

void FakeBroker::SetDown(bool down) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->down = down;
  core_->changed.notify_all();
}

void FakeBroker::RequireToken(absl::string_view token) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->token = std::string(token);
}

int FakeBroker::Calls(absl::string_view method) const {
  return static_cast<int>(RawRequests(method).size());
}

void FakeBroker::WaitForCalls(absl::string_view method, int count) const {
  std::unique_lock<std::mutex> lock(core_->mutex);
  core_->changed.wait(lock, [&] {
    return core_->requests[std::string(method)].size() >= static_cast<size_t>(count);
  });
}

std::vector<std::string> FakeBroker::RawRequests(absl::string_view method) const {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->requests[std::string(method)];
}

std::string FakeBroker::AddJob(absl::string_view queue, const v1::JobSpec& spec) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->Add(std::string(queue), spec, "");
}

std::string FakeBroker::AddJob(absl::string_view queue, absl::string_view payload) {
  v1::JobSpec spec;
  spec.set_payload(std::string(payload));
  return AddJob(queue, spec);
}

v1::Job FakeBroker::GetJob(absl::string_view name) const {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  const Core::StoredJob* const stored = core_->Find(std::string(name));
  return stored == nullptr ? v1::Job() : stored->job;
}

void FakeBroker::WaitForState(absl::string_view name, v1::JobState state) const {
  std::unique_lock<std::mutex> lock(core_->mutex);
  core_->changed.wait(lock, [&] {
    const Core::StoredJob* const stored = core_->Find(std::string(name));
    return stored != nullptr && stored->job.state() == state;
  });
}

void FakeBroker::WaitForCount(absl::string_view queue, v1::JobState state, int count) const {
  std::unique_lock<std::mutex> lock(core_->mutex);
  core_->changed.wait(lock, [&] { return core_->CountIn(queue, state) == count; });
}

int FakeBroker::Count(absl::string_view queue, v1::JobState state) const {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->CountIn(queue, state);
}

int FakeBroker::MostLeased() const {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->most_leased;
}

void FakeBroker::TakeOver(absl::string_view name) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  Core::StoredJob& stored = core_->jobs[std::string(name)];
  stored.token = core_->next_token++;
  stored.job.mutable_holder()->set_worker("another");
  stored.job.set_attempt(stored.job.attempt() + 1);
}

void FakeBroker::SetVerdict(absl::string_view name, v1::LeaseStatus status) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->jobs[std::string(name)].verdict = status;
}

void FakeBroker::SetHeartbeatInterval(absl::Duration interval) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->interval = interval;
}

}  // namespace stint::testing
