// How a worker talks to the broker: by unary calls (UnaryLink) or over one stream (StreamLink).
// The worker's threads do not know which; each call waits for its answer.
// Thread rule: any thread; one call of each kind at a time.
#ifndef STINT_CLIENT_CPP_WORKER_LINK_H_
#define STINT_CLIENT_CPP_WORKER_LINK_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/connection.h"
#include "stint/v1/worker_service.pb.h"

namespace stint::client {

class WorkerLink {
 public:
  virtual ~WorkerLink() = default;

  // Waits up to `request.wait` for up to `max_jobs` jobs. Repeated after a failure with the same
  // request it brings what the lost answer may have held. A wait of zero brings what the broker has
  // granted to this worker and not delivered yet; by unary calls, if there is no such thing,
  // whatever is ready.
  virtual absl::Status Lease(const v1::LeaseJobsRequest& request, v1::LeaseJobsResponse* response,
                             absl::Duration deadline, CallCanceller* canceller) = 0;
  virtual absl::Status Heartbeat(const v1::HeartbeatRequest& request,
                                 v1::HeartbeatResponse* response, absl::Duration deadline,
                                 CallCanceller* canceller) = 0;
  virtual absl::Status Settle(const v1::SettleJobsRequest& request,
                              v1::SettleJobsResponse* response, absl::Duration deadline,
                              CallCanceller* canceller) = 0;
  // Whether jobs may come, or have come, that no Lease has brought. One with a wait of zero brings
  // them and ends that.
  virtual bool JobsMayCome() = 0;
  // The worker has settled everything and leaves; waits a moment for it to be known.
  virtual void Leave() = 0;
};

class UnaryLink final : public WorkerLink {
 public:
  explicit UnaryLink(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  absl::Status Lease(const v1::LeaseJobsRequest& request, v1::LeaseJobsResponse* response,
                     absl::Duration deadline, CallCanceller* canceller) override {
    return connection_->Call("/stint.v1.WorkerService/LeaseJobs", request, response, deadline,
                             canceller);
  }
  // Not answered in time: the next one goes over another connection.
  absl::Status Heartbeat(const v1::HeartbeatRequest& request, v1::HeartbeatResponse* response,
                         absl::Duration deadline, CallCanceller* canceller) override {
    const int64_t channel = connection_->channel();
    absl::Status status = connection_->Call("/stint.v1.WorkerService/Heartbeat", request, response,
                                            deadline, canceller);
    if (absl::IsDeadlineExceeded(status)) connection_->ReplaceChannel(channel);
    return status;
  }
  absl::Status Settle(const v1::SettleJobsRequest& request, v1::SettleJobsResponse* response,
                      absl::Duration deadline, CallCanceller* canceller) override {
    return connection_->Call("/stint.v1.WorkerService/SettleJobs", request, response, deadline,
                             canceller);
  }
  bool JobsMayCome() override { return false; }
  void Leave() override {}

 private:
  const std::shared_ptr<Connection> connection_;
};

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_WORKER_LINK_H_
