#include "client/cpp/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cpp/backoff.h"
#include "client/cpp/proto_time.h"
#include "client/cpp/random_id.h"
#include "client/cpp/status.h"
#include "google/protobuf/wrappers.pb.h"
#include "sync/mutex.h"

namespace stint::client {
namespace {

// What the broker waits when the request does not say (job_service.proto, worker_service.proto).
constexpr absl::Duration kDefaultWait = absl::Seconds(20);
constexpr absl::Duration kLongestWait = absl::Seconds(60);
// A failed try that took longer than this had reached the broker (see connection.cc).
constexpr absl::Duration kLongestConnect = absl::Seconds(5);
// The least deadline of a try, however little is left of a limit.
constexpr absl::Duration kLeastDeadline = absl::Seconds(1);

template <typename Request>
absl::Duration WaitOf(const Request& request) {
  return request.has_wait() ? ToAbsl(request.wait()) : kDefaultWait;
}

}  // namespace

std::string JobName(absl::string_view queue, absl::string_view job) {
  return absl::StrCat("queues/", queue, "/jobs/", job);
}

bool HasEnded(v1::JobState state) {
  return state == v1::JOB_STATE_COMPLETED || state == v1::JOB_STATE_CANCELLED ||
         state == v1::JOB_STATE_DEAD;
}

Client::Client(std::shared_ptr<Connection> connection, Clock* clock)
    : connection_(std::move(connection)), clock_(clock == nullptr ? Clock::System() : clock) {}

absl::Status Client::Repeat(const char* method, const google::protobuf::MessageLite& request,
                            google::protobuf::MessageLite* response, const CallOptions& options,
                            absl::Duration wait) {
  absl::Duration end = clock_->Now() + options.total;
  Backoff backoff;
  absl::Duration deadline = options.deadline;
  while (true) {
    const absl::Duration began = clock_->Now();
    const absl::Status status = connection_->Call(method, request, response, deadline + wait);
    if (!IsSafeToRepeat(status)) return status;
    const absl::Duration now = clock_->Now();
    const absl::Duration reached = std::max(now - began - kLongestConnect, absl::ZeroDuration());
    if (options.total > absl::ZeroDuration()) end += std::min(reached, wait);
    const absl::Duration again =
        now + backoff.Next(RetryDelay(status).value_or(absl::ZeroDuration()));
    if (again >= end) return status;
    if (options.on_repeat) options.on_repeat(status);
    Mutex mutex;
    Condition never;
    const MutexLock lock(mutex);
    while (clock_->Now() < again) clock_->Wait(never, mutex, again);
    deadline = std::min(options.deadline, end - clock_->Now());
  }
}

template <typename Response, typename Request>
absl::StatusOr<Response> Client::Send(const char* method, const Request& request,
                                      const CallOptions& options, absl::Duration wait) {
  Response response;
  const absl::Status status = Repeat(method, request, &response, options, wait);
  if (!status.ok()) return status;
  return response;
}

template <typename Response, typename Request>
absl::StatusOr<Response> Client::SendWithId(const char* method, Request request,
                                            const CallOptions& options, absl::Duration wait) {
  if (request.request_id().empty()) request.set_request_id(RandomId());
  return Send<Response>(method, request, options, wait);
}

absl::StatusOr<v1::EnqueueJobResponse> Client::EnqueueJob(v1::EnqueueJobRequest request,
                                                          const CallOptions& options) {
  return SendWithId<v1::EnqueueJobResponse>("/stint.v1.JobService/EnqueueJob", std::move(request),
                                            options);
}

absl::StatusOr<v1::BatchEnqueueJobsResponse> Client::BatchEnqueueJobs(
    v1::BatchEnqueueJobsRequest request, const CallOptions& options) {
  return SendWithId<v1::BatchEnqueueJobsResponse>("/stint.v1.JobService/BatchEnqueueJobs",
                                                  std::move(request), options);
}

absl::StatusOr<v1::GetJobResponse> Client::GetJob(const v1::GetJobRequest& request,
                                                  const CallOptions& options) {
  return Send<v1::GetJobResponse>("/stint.v1.JobService/GetJob", request, options);
}

absl::StatusOr<v1::ListJobsResponse> Client::ListJobs(const v1::ListJobsRequest& request,
                                                      const CallOptions& options) {
  return Send<v1::ListJobsResponse>("/stint.v1.JobService/ListJobs", request, options);
}

absl::StatusOr<v1::CancelJobResponse> Client::CancelJob(v1::CancelJobRequest request,
                                                        const CallOptions& options) {
  return SendWithId<v1::CancelJobResponse>("/stint.v1.JobService/CancelJob", std::move(request),
                                           options);
}

absl::StatusOr<v1::RedriveJobResponse> Client::RedriveJob(v1::RedriveJobRequest request,
                                                          const CallOptions& options) {
  return SendWithId<v1::RedriveJobResponse>("/stint.v1.JobService/RedriveJob", std::move(request),
                                            options);
}

absl::StatusOr<v1::DeleteJobResponse> Client::DeleteJob(v1::DeleteJobRequest request,
                                                        const CallOptions& options) {
  return SendWithId<v1::DeleteJobResponse>("/stint.v1.JobService/DeleteJob", std::move(request),
                                           options);
}

absl::StatusOr<v1::UpdateJobResponse> Client::UpdateJob(v1::UpdateJobRequest request,
                                                        const CallOptions& options) {
  return SendWithId<v1::UpdateJobResponse>("/stint.v1.JobService/UpdateJob", std::move(request),
                                           options);
}

absl::StatusOr<v1::BatchCancelJobsResponse> Client::BatchCancelJobs(
    v1::BatchCancelJobsRequest request, const CallOptions& options) {
  return SendWithId<v1::BatchCancelJobsResponse>("/stint.v1.JobService/BatchCancelJobs",
                                                 std::move(request), options);
}

absl::StatusOr<v1::BatchRedriveJobsResponse> Client::BatchRedriveJobs(
    v1::BatchRedriveJobsRequest request, const CallOptions& options) {
  return SendWithId<v1::BatchRedriveJobsResponse>("/stint.v1.JobService/BatchRedriveJobs",
                                                  std::move(request), options);
}

absl::StatusOr<v1::BatchDeleteJobsResponse> Client::BatchDeleteJobs(
    v1::BatchDeleteJobsRequest request, const CallOptions& options) {
  return SendWithId<v1::BatchDeleteJobsResponse>("/stint.v1.JobService/BatchDeleteJobs",
                                                 std::move(request), options);
}

absl::StatusOr<v1::WaitJobResponse> Client::WaitJob(const v1::WaitJobRequest& request,
                                                    const CallOptions& options) {
  return Send<v1::WaitJobResponse>("/stint.v1.JobService/WaitJob", request, options,
                                   WaitOf(request));
}

absl::StatusOr<v1::Job> Client::AwaitJob(absl::string_view job, absl::Duration limit,
                                         const CallOptions& options) {
  const absl::Duration end = clock_->Now() + limit;
  v1::WaitJobRequest request;
  request.set_job(std::string(job));
  while (true) {
    const absl::Duration rest = std::max(end - clock_->Now(), absl::ZeroDuration());
    *request.mutable_wait() = ToProto(std::min(rest, kLongestWait));
    CallOptions within = options;
    within.total = std::min(options.total, rest);
    within.deadline = std::min(options.deadline, std::max(rest, kLeastDeadline));
    absl::StatusOr<v1::WaitJobResponse> answer = WaitJob(request, within);
    // Not to be taken for the answer that the job has not ended.
    if (absl::IsDeadlineExceeded(answer.status())) {
      return absl::UnavailableError(answer.status().message());
    }
    if (!answer.ok()) return answer.status();
    if (HasEnded(answer->job().state())) return std::move(*answer->mutable_job());
    if (clock_->Now() >= end) {
      return absl::DeadlineExceededError(
          absl::StrCat(job, " has not ended within ", absl::FormatDuration(limit), ": it is ",
                       absl::StripPrefix(v1::JobState_Name(answer->job().state()), "JOB_STATE_")));
    }
  }
}

absl::StatusOr<v1::CreateQueueResponse> Client::CreateQueue(v1::CreateQueueRequest request,
                                                            const CallOptions& options) {
  return SendWithId<v1::CreateQueueResponse>("/stint.v1.QueueService/CreateQueue",
                                             std::move(request), options);
}

absl::StatusOr<v1::GetQueueResponse> Client::GetQueue(const v1::GetQueueRequest& request,
                                                      const CallOptions& options) {
  return Send<v1::GetQueueResponse>("/stint.v1.QueueService/GetQueue", request, options);
}

absl::StatusOr<v1::ListQueuesResponse> Client::ListQueues(const v1::ListQueuesRequest& request,
                                                          const CallOptions& options) {
  return Send<v1::ListQueuesResponse>("/stint.v1.QueueService/ListQueues", request, options);
}

absl::StatusOr<v1::UpdateQueueResponse> Client::UpdateQueue(v1::UpdateQueueRequest request,
                                                            const CallOptions& options) {
  return SendWithId<v1::UpdateQueueResponse>("/stint.v1.QueueService/UpdateQueue",
                                             std::move(request), options);
}

absl::StatusOr<v1::DeleteQueueResponse> Client::DeleteQueue(v1::DeleteQueueRequest request,
                                                            const CallOptions& options) {
  return SendWithId<v1::DeleteQueueResponse>("/stint.v1.QueueService/DeleteQueue",
                                             std::move(request), options);
}

absl::StatusOr<v1::PauseQueueResponse> Client::PauseQueue(v1::PauseQueueRequest request,
                                                          const CallOptions& options) {
  return SendWithId<v1::PauseQueueResponse>("/stint.v1.QueueService/PauseQueue", std::move(request),
                                            options);
}

absl::StatusOr<v1::ResumeQueueResponse> Client::ResumeQueue(v1::ResumeQueueRequest request,
                                                            const CallOptions& options) {
  return SendWithId<v1::ResumeQueueResponse>("/stint.v1.QueueService/ResumeQueue",
                                             std::move(request), options);
}

absl::StatusOr<v1::PurgeQueueResponse> Client::PurgeQueue(v1::PurgeQueueRequest request,
                                                          const CallOptions& options) {
  return SendWithId<v1::PurgeQueueResponse>("/stint.v1.QueueService/PurgeQueue", std::move(request),
                                            options);
}

absl::StatusOr<v1::GetQueueStatsResponse> Client::GetQueueStats(
    const v1::GetQueueStatsRequest& request, const CallOptions& options) {
  return Send<v1::GetQueueStatsResponse>("/stint.v1.QueueService/GetQueueStats", request, options);
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo(const CallOptions& options) {
  return Send<v1::GetServerInfoResponse>("/stint.v1.AdminService/GetServerInfo",
                                         v1::GetServerInfoRequest(), options);
}

absl::StatusOr<v1::DrainServerResponse> Client::DrainServer(const CallOptions& options) {
  return Send<v1::DrainServerResponse>("/stint.v1.AdminService/DrainServer",
                                       v1::DrainServerRequest(), options);
}

absl::StatusOr<v1::ListWorkersResponse> Client::ListWorkers(const v1::ListWorkersRequest& request,
                                                            const CallOptions& options) {
  return Send<v1::ListWorkersResponse>("/stint.v1.AdminService/ListWorkers", request, options);
}

// Asking twice is asking once.
absl::StatusOr<v1::DrainWorkerResponse> Client::DrainWorker(const v1::DrainWorkerRequest& request,
                                                            const CallOptions& options) {
  return Send<v1::DrainWorkerResponse>("/stint.v1.AdminService/DrainWorker", request, options);
}

absl::StatusOr<HealthStatus> Client::CheckHealth(const CallOptions& options) {
  // grpc.health.v1: the request's field 1 is a string, the answer's field 1 an enum. The
  // wrapper types have the same encoding, so that its proto need not be carried along.
  absl::StatusOr<google::protobuf::Int32Value> answer = Send<google::protobuf::Int32Value>(
      "/grpc.health.v1.Health/Check", google::protobuf::StringValue(), options);
  if (!answer.ok()) return answer.status();
  switch (answer->value()) {
    case 1:
      return HealthStatus::kServing;
    case 2:
      return HealthStatus::kNotServing;
    case 3:
      return HealthStatus::kServiceUnknown;
    default:
      return HealthStatus::kUnknown;
  }
}

absl::StatusOr<v1::LeaseJobsResponse> Client::LeaseJobs(v1::LeaseJobsRequest request,
                                                        const CallOptions& options) {
  const char* const method = "/stint.v1.WorkerService/LeaseJobs";
  const absl::Duration wait = WaitOf(request);
  if (request.worker().empty()) {
    CallOptions once = options;
    once.total = absl::ZeroDuration();
    return Send<v1::LeaseJobsResponse>(method, request, once, wait);
  }
  return SendWithId<v1::LeaseJobsResponse>(method, std::move(request), options, wait);
}

absl::StatusOr<v1::HeartbeatResponse> Client::Heartbeat(const v1::HeartbeatRequest& request,
                                                        const CallOptions& options) {
  return Send<v1::HeartbeatResponse>("/stint.v1.WorkerService/Heartbeat", request, options);
}

absl::StatusOr<v1::CompleteJobResponse> Client::CompleteJob(const v1::CompleteJobRequest& request,
                                                            const CallOptions& options) {
  return Send<v1::CompleteJobResponse>("/stint.v1.WorkerService/CompleteJob", request, options);
}

absl::StatusOr<v1::FailJobResponse> Client::FailJob(const v1::FailJobRequest& request,
                                                    const CallOptions& options) {
  return Send<v1::FailJobResponse>("/stint.v1.WorkerService/FailJob", request, options);
}

absl::StatusOr<v1::ReleaseJobResponse> Client::ReleaseJob(const v1::ReleaseJobRequest& request,
                                                          const CallOptions& options) {
  return Send<v1::ReleaseJobResponse>("/stint.v1.WorkerService/ReleaseJob", request, options);
}

absl::StatusOr<v1::SettleJobsResponse> Client::SettleJobs(const v1::SettleJobsRequest& request,
                                                          const CallOptions& options) {
  return Send<v1::SettleJobsResponse>("/stint.v1.WorkerService/SettleJobs", request, options);
}

}  // namespace stint::client
