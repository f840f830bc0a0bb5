// JobService of the fake broker.
#include <algorithm>
#include <chrono>
#include <functional>

#include "absl/strings/numbers.h"
#include "stint/v1/job_service.grpc.pb.h"
#include "tests/support/fake_broker_core.h"

namespace stint::testing {
namespace {

// A parked call looks this often whether its caller is still there.
constexpr int kStepsPerSecond = 200;
constexpr std::chrono::milliseconds kStep(1000 / kStepsPerSecond);

class JobServiceImpl final : public v1::JobService::Service {
 public:
  explicit JobServiceImpl(FakeCore* core) : core_(*core) {}

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
      if (core_.queues.count(request->queue()) == 0)
        return MakeGrpcStatus(QueueNotFound(request->queue()));
      size_t at = 0;
      if (!request->page_token().empty() && !absl::SimpleAtoi(request->page_token(), &at)) at = 0;
      const int page = request->page_size() > 0 ? request->page_size() : 100;
      for (; at < core_.order.size() && response->jobs_size() < page; ++at) {
        const FakeCore::StoredJob* const stored = core_.Find(core_.order[at]);
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
    int steps = static_cast<int>(kStepsPerSecond * WaitSeconds(request->wait()));
    while (!core_.stopping && !context->IsCancelled() &&
           Copy(request->job(), response->mutable_job()).ok() && IsLive(response->job().state()) &&
           steps-- > 0) {
      core_.changed.wait_for(lock, kStep);
    }
    return grpc::Status::OK;
  }

  grpc::Status CancelJob(grpc::ServerContext* context, const v1::CancelJobRequest* request,
                         v1::CancelJobResponse* response) override {
    return core_.Handle(context, "CancelJob", *request, [&] {
      FakeCore::StoredJob* const stored = core_.Find(request->job());
      if (stored == nullptr) return MakeGrpcStatus(NotFound(request->job()));
      if (!IsLive(stored->job.state())) return MakeGrpcStatus(WrongState());
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
      FakeCore::StoredJob* const stored = core_.Find(request->job());
      if (stored == nullptr) return MakeGrpcStatus(NotFound(request->job()));
      if (stored->job.state() != v1::JOB_STATE_DEAD) {
        return MakeGrpcStatus(WrongState());
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
        return MakeGrpcStatus(NotFound(request->job()));
      }
      return grpc::Status::OK;
    });
  }

  grpc::Status UpdateJob(grpc::ServerContext* context, const v1::UpdateJobRequest* request,
                         v1::UpdateJobResponse* response) override {
    return core_.Handle(context, "UpdateJob", *request, [&] {
      FakeCore::StoredJob* const stored = core_.Find(request->job());
      if (stored == nullptr) return MakeGrpcStatus(NotFound(request->job()));
      stored->job.mutable_spec()->MergeFrom(request->spec());
      *response->mutable_job() = stored->job;
      return grpc::Status::OK;
    });
  }

  grpc::Status BatchCancelJobs(grpc::ServerContext* context,
                               const v1::BatchCancelJobsRequest* request,
                               v1::BatchCancelJobsResponse* response) override {
    return core_.Handle(context, "BatchCancelJobs", *request, [&] {
      return ChangeMatching(
          *request, v1::JOB_STATE_READY, response->mutable_result(),
          [](FakeCore::StoredJob* stored) { stored->job.set_state(v1::JOB_STATE_CANCELLED); });
    });
  }

  grpc::Status BatchRedriveJobs(grpc::ServerContext* context,
                                const v1::BatchRedriveJobsRequest* request,
                                v1::BatchRedriveJobsResponse* response) override {
    return core_.Handle(context, "BatchRedriveJobs", *request, [&] {
      return ChangeMatching(
          *request, v1::JOB_STATE_DEAD, response->mutable_result(),
          [](FakeCore::StoredJob* stored) { stored->job.set_state(v1::JOB_STATE_READY); });
    });
  }

  grpc::Status BatchDeleteJobs(grpc::ServerContext* context,
                               const v1::BatchDeleteJobsRequest* request,
                               v1::BatchDeleteJobsResponse* response) override {
    return core_.Handle(context, "BatchDeleteJobs", *request, [&] {
      return ChangeMatching(*request, v1::JOB_STATE_COMPLETED, response->mutable_result(),
                            [this](FakeCore::StoredJob* stored) {
                              core_.jobs.erase(std::string(stored->job.name()));
                            });
    });
  }

 private:
  // A step of a batch call: jobs in the order of enqueueing, in the filter's states, or else in
  // `state`. Page tokens are positions.
  template <typename Request>
  grpc::Status ChangeMatching(const Request& request, v1::JobState state, v1::BatchResult* result,
                              const std::function<void(FakeCore::StoredJob*)>& change) {
    if (core_.queues.count(request.queue()) == 0) {
      return MakeGrpcStatus(QueueNotFound(request.queue()));
    }
    v1::ListJobsRequest filter;
    filter.set_queue(request.queue());
    for (const int given : request.filter().states()) {
      filter.add_states(static_cast<v1::JobState>(given));
    }
    if (filter.states().empty()) filter.add_states(state);
    if (request.filter().has_kind()) filter.set_kind(request.filter().kind());
    size_t at = 0;
    if (!request.page_token().empty() && !absl::SimpleAtoi(request.page_token(), &at)) at = 0;
    const int limit = request.limit() > 0 ? request.limit() : 1000;
    for (; at < core_.order.size() && result->matched() < limit; ++at) {
      FakeCore::StoredJob* const stored = core_.Find(core_.order[at]);
      if (stored == nullptr || !Matches(filter, stored->job)) continue;
      result->set_matched(result->matched() + 1);
      result->set_changed(result->changed() + 1);
      if (!request.dry_run()) change(stored);
    }
    if (at < core_.order.size()) result->set_next_page_token(absl::StrCat(at));
    return grpc::Status::OK;
  }

  grpc::Status Enqueue(const std::string& queue, const v1::JobSpec& spec, const std::string& id,
                       v1::EnqueueJobResponse* response) {
    if (spec.payload().size() > FakeBroker::kMaxPayloadBytes) {
      return MakeGrpcStatus(TooLarge("job.payload", spec.payload().size()));
    }
    const std::string wanted = absl::StrCat("queues/", queue, "/jobs/", id);
    if (!id.empty() && core_.jobs.count(wanted) > 0) {
      return MakeGrpcStatus(
          Refusal{absl::StatusCode::kAlreadyExists, "JOB_EXISTS", wanted + " exists", {}, {}});
    }
    response->set_job(core_.Add(queue, spec, id));
    response->set_state(core_.jobs[response->job()].job.state());
    return grpc::Status::OK;
  }

  grpc::Status Copy(const std::string& name, v1::Job* job) {
    const FakeCore::StoredJob* const stored = core_.Find(name);
    if (stored == nullptr) return MakeGrpcStatus(NotFound(name));
    *job = stored->job;
    return grpc::Status::OK;
  }

  static bool Matches(const v1::ListJobsRequest& request, const v1::Job& job) {
    if (QueueOf(job.name()) != request.queue()) return false;
    if (request.has_kind() && job.spec().kind() != request.kind()) return false;
    if (request.states().empty()) return true;
    return std::find(request.states().begin(), request.states().end(), job.state()) !=
           request.states().end();
  }

  FakeCore& core_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeJobService(FakeCore* core) {
  return std::make_unique<JobServiceImpl>(core);
}

}  // namespace stint::testing
