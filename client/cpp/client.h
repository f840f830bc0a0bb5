// Calls of the broker, one method for each, for producers, operators and hand-made workers.
// A program that works on jobs uses worker.h instead.
//
//   auto connection = Connection::Open(ConnectionOptions::FromEnvironment());
//   Client client(*connection);
//   stint::v1::EnqueueJobRequest request;
//   request.set_queue("email");
//   request.mutable_job()->set_payload("hello");
//   absl::StatusOr<stint::v1::EnqueueJobResponse> answer = client.EnqueueJob(request);
//
// Each call that changes something gets a random `request_id` unless the caller set one, so
// that it is safe to repeat. A call that could not be delivered, met an overloaded broker or
// ran into its deadline is repeated until `CallOptions::total` is over; the broker's RetryInfo
// is obeyed. Every other refusal is returned at once. See status.h for reading errors.
//
// What it does not do: it keeps nothing between calls and starts no thread.
//
// Thread rule: any thread, also at the same time.
#ifndef STINT_CLIENT_CPP_CLIENT_H_
#define STINT_CLIENT_CPP_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/clock.h"
#include "client/cpp/connection.h"
#include "stint/v1/admin_service.pb.h"
#include "stint/v1/job_service.pb.h"
#include "stint/v1/queue_service.pb.h"
#include "stint/v1/worker_service.pb.h"

namespace stint::client {

struct CallOptions {
  // Deadline of one try. Calls that wait at the broker (LeaseJobs, WaitJob) get what they
  // wait on top.
  absl::Duration deadline = absl::Seconds(10);
  // How long tries go on; no try starts after it and none runs beyond it. Zero: one try. Time
  // in which a call waited at the broker is not counted.
  absl::Duration total = absl::Seconds(30);
  // Told before a failed try is repeated: why it failed.
  std::function<void(const absl::Status&)> on_repeat;
};

// What grpc.health.v1 says of the broker.
enum class HealthStatus { kUnknown, kServing, kNotServing, kServiceUnknown };

// `queues/{queue}/jobs/{job}`.
std::string JobName(absl::string_view queue, absl::string_view job);

// True for COMPLETED, CANCELLED and DEAD.
bool HasEnded(v1::JobState state);

class Client {
 public:
  // `clock` null: the machine's.
  explicit Client(std::shared_ptr<Connection> connection, Clock* clock = nullptr);

  // JobService.
  absl::StatusOr<v1::EnqueueJobResponse> EnqueueJob(v1::EnqueueJobRequest request,
                                                    const CallOptions& options = {});
  absl::StatusOr<v1::BatchEnqueueJobsResponse> BatchEnqueueJobs(v1::BatchEnqueueJobsRequest request,
                                                                const CallOptions& options = {});
  absl::StatusOr<v1::GetJobResponse> GetJob(const v1::GetJobRequest& request,
                                            const CallOptions& options = {});
  absl::StatusOr<v1::ListJobsResponse> ListJobs(const v1::ListJobsRequest& request,
                                                const CallOptions& options = {});
  absl::StatusOr<v1::WaitJobResponse> WaitJob(const v1::WaitJobRequest& request,
                                              const CallOptions& options = {});
  absl::StatusOr<v1::CancelJobResponse> CancelJob(v1::CancelJobRequest request,
                                                  const CallOptions& options = {});
  absl::StatusOr<v1::RedriveJobResponse> RedriveJob(v1::RedriveJobRequest request,
                                                    const CallOptions& options = {});
  absl::StatusOr<v1::DeleteJobResponse> DeleteJob(v1::DeleteJobRequest request,
                                                  const CallOptions& options = {});
  absl::StatusOr<v1::UpdateJobResponse> UpdateJob(v1::UpdateJobRequest request,
                                                  const CallOptions& options = {});
  // One step each; see BatchResult for how to go on. Each step takes a request id of its own.
  absl::StatusOr<v1::BatchCancelJobsResponse> BatchCancelJobs(v1::BatchCancelJobsRequest request,
                                                              const CallOptions& options = {});
  absl::StatusOr<v1::BatchRedriveJobsResponse> BatchRedriveJobs(v1::BatchRedriveJobsRequest request,
                                                                const CallOptions& options = {});
  absl::StatusOr<v1::BatchDeleteJobsResponse> BatchDeleteJobs(v1::BatchDeleteJobsRequest request,
                                                              const CallOptions& options = {});

  // Waits until the job has ended, by as many WaitJob calls as it takes, at most `limit`, which
  // may be infinite. DEADLINE_EXCEEDED when the broker says that it has not ended by then;
  // UNAVAILABLE when no broker answers for `options.total`, or within `limit` if that is less.
  absl::StatusOr<v1::Job> AwaitJob(absl::string_view job, absl::Duration limit,
                                   const CallOptions& options = {});

  // QueueService.
  absl::StatusOr<v1::CreateQueueResponse> CreateQueue(v1::CreateQueueRequest request,
                                                      const CallOptions& options = {});
  absl::StatusOr<v1::GetQueueResponse> GetQueue(const v1::GetQueueRequest& request,
                                                const CallOptions& options = {});
  absl::StatusOr<v1::ListQueuesResponse> ListQueues(const v1::ListQueuesRequest& request,
                                                    const CallOptions& options = {});
  absl::StatusOr<v1::UpdateQueueResponse> UpdateQueue(v1::UpdateQueueRequest request,
                                                      const CallOptions& options = {});
  absl::StatusOr<v1::DeleteQueueResponse> DeleteQueue(v1::DeleteQueueRequest request,
                                                      const CallOptions& options = {});
  absl::StatusOr<v1::PauseQueueResponse> PauseQueue(v1::PauseQueueRequest request,
                                                    const CallOptions& options = {});
  absl::StatusOr<v1::ResumeQueueResponse> ResumeQueue(v1::ResumeQueueRequest request,
                                                      const CallOptions& options = {});
  absl::StatusOr<v1::PurgeQueueResponse> PurgeQueue(v1::PurgeQueueRequest request,
                                                    const CallOptions& options = {});
  absl::StatusOr<v1::GetQueueStatsResponse> GetQueueStats(const v1::GetQueueStatsRequest& request,
                                                          const CallOptions& options = {});

  // AdminService and health.
  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const CallOptions& options = {});
  absl::StatusOr<v1::DrainServerResponse> DrainServer(const CallOptions& options = {});
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers(const v1::ListWorkersRequest& request,
                                                      const CallOptions& options = {});
  absl::StatusOr<v1::DrainWorkerResponse> DrainWorker(const v1::DrainWorkerRequest& request,
                                                      const CallOptions& options = {});
  absl::StatusOr<HealthStatus> CheckHealth(const CallOptions& options = {});

  // WorkerService, for workers made by hand. A lease without `worker` is asked for once and
  // not repeated: an answer lost on the way could not be found again.
  absl::StatusOr<v1::LeaseJobsResponse> LeaseJobs(v1::LeaseJobsRequest request,
                                                  const CallOptions& options = {});
  absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const v1::HeartbeatRequest& request,
                                                  const CallOptions& options = {});
  absl::StatusOr<v1::CompleteJobResponse> CompleteJob(const v1::CompleteJobRequest& request,
                                                      const CallOptions& options = {});
  absl::StatusOr<v1::FailJobResponse> FailJob(const v1::FailJobRequest& request,
                                              const CallOptions& options = {});
  absl::StatusOr<v1::ReleaseJobResponse> ReleaseJob(const v1::ReleaseJobRequest& request,
                                                    const CallOptions& options = {});
  absl::StatusOr<v1::SettleJobsResponse> SettleJobs(const v1::SettleJobsRequest& request,
                                                    const CallOptions& options = {});

 private:
  template <typename Response, typename Request>
  absl::StatusOr<Response> Send(const char* method, const Request& request,
                                const CallOptions& options,
                                absl::Duration wait = absl::ZeroDuration());
  template <typename Response, typename Request>
  absl::StatusOr<Response> SendWithId(const char* method, Request request,
                                      const CallOptions& options,
                                      absl::Duration wait = absl::ZeroDuration());
  // `wait`: how long the call may wait at the broker.
  absl::Status Repeat(const char* method, const google::protobuf::MessageLite& request,
                      google::protobuf::MessageLite* response, const CallOptions& options,
                      absl::Duration wait);

  std::shared_ptr<Connection> connection_;
  Clock* clock_;
};

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_CLIENT_H_
