// WorkerService, QueueService and AdminService of the fake broker.
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "stint/v1/admin_service.grpc.pb.h"
#include "stint/v1/queue_service.grpc.pb.h"
#include "stint/v1/worker_service.grpc.pb.h"
#include "tests/support/fake_broker_core.h"

namespace stint::testing {
namespace {

// A parked call looks this often whether its caller is still there.
constexpr int kStepsPerSecond = 200;
constexpr std::chrono::milliseconds kStep(1000 / kStepsPerSecond);

class WorkerServiceImpl final : public v1::WorkerService::Service {
 public:
  explicit WorkerServiceImpl(FakeCore* core) : core_(*core) {}

  grpc::Status LeaseJobs(grpc::ServerContext* context, const v1::LeaseJobsRequest* request,
                         v1::LeaseJobsResponse* response) override {
    bool parked = false;
    const bool keyed = !request->worker().empty() && !request->request_id().empty();
    const std::string key = absl::StrCat(request->worker(), "/", request->request_id());
    int sending = 0;
    const grpc::Status status = core_.Handle(context, "LeaseJobs", *request, [&] {
      sending = ++core_.sendings[key];
      core_.TryLease(*request, response);
      parked = response->leases().empty();
      return grpc::Status::OK;
    });
    if (!status.ok() || !parked) return status;
    std::unique_lock<std::mutex> lock(core_.mutex);
    int steps = static_cast<int>(kStepsPerSecond * WaitSeconds(request->wait()));
    // It takes no notice of callers that have gone, as the broker may not have yet: who asks
    // again under the same id ends the sending before, and has to.
    const auto newest = [&] { return !keyed || core_.sendings[key] == sending; };
    while (response->leases().empty() && !core_.stopping && !core_.down && newest() &&
           steps-- > 0) {
      core_.changed.wait_for(lock, kStep);
      if (newest()) core_.TryLease(*request, response);
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
        FakeCore::StoredJob* const stored = core_.Find(item.job());
        if (stored != nullptr && item.has_progress()) stored->job.set_progress(item.progress());
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
  FakeCore& core_;
};

class QueueServiceImpl final : public v1::QueueService::Service {
 public:
  explicit QueueServiceImpl(FakeCore* core) : core_(*core) {}

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
          const FakeCore::StoredJob* const stored = core_.Find(name);
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
      return MakeGrpcStatus(QueueNotFound(id));
    }
    apply(&found->second);
    return grpc::Status::OK;
  }

  FakeCore& core_;
};

class AdminServiceImpl final : public v1::AdminService::Service {
 public:
  explicit AdminServiceImpl(FakeCore* core) : core_(*core) {}

  grpc::Status GetServerInfo(grpc::ServerContext* context, const v1::GetServerInfoRequest* request,
                             v1::GetServerInfoResponse* response) override {
    return core_.Handle(context, "GetServerInfo", *request, [&] {
      response->set_version("0.1.0");
      response->set_store("memory");
      // A second passes from one call to the next.
      core_.broker_time_ms += 1000;
      response->set_broker_time_ms(core_.broker_time_ms);
      response->set_max_payload_bytes(static_cast<int64_t>(FakeBroker::kMaxPayloadBytes));
      response->set_queues(static_cast<int64_t>(core_.queues.size()));
      response->set_draining(core_.draining);
      return grpc::Status::OK;
    });
  }

  // Whoever holds a lease.
  grpc::Status ListWorkers(grpc::ServerContext* context, const v1::ListWorkersRequest* request,
                           v1::ListWorkersResponse* response) override {
    return core_.Handle(context, "ListWorkers", *request, [&] {
      std::map<std::string, int64_t> leases;
      for (const auto& [name, stored] : core_.jobs) {
        if (stored.job.state() == v1::JOB_STATE_LEASED) ++leases[stored.job.holder().worker()];
      }
      for (const auto& [id, count] : leases) {
        v1::Worker* const worker = response->add_workers();
        worker->set_name("workers/" + id);
        worker->set_leases(count);
      }
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
  FakeCore& core_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeWorkerService(FakeCore* core) {
  return std::make_unique<WorkerServiceImpl>(core);
}

std::unique_ptr<grpc::Service> MakeQueueService(FakeCore* core) {
  return std::make_unique<QueueServiceImpl>(core);
}

std::unique_ptr<grpc::Service> MakeAdminService(FakeCore* core) {
  return std::make_unique<AdminServiceImpl>(core);
}

}  // namespace stint::testing
