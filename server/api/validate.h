// Checks of whole requests: what can be told without looking at the state. Each function
// finds everything that is wrong at once (INVALID_REQUEST with one violation a field) or
// returns OK; only checked requests go on to convert.h. Thread-safe: functions without state.
#ifndef STINT_SERVER_API_VALIDATE_H_
#define STINT_SERVER_API_VALIDATE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "server/engine/limits.h"
#include "stint/v1/admin_service.pb.h"
#include "stint/v1/job_service.pb.h"
#include "stint/v1/queue_service.pb.h"
#include "stint/v1/worker_service.pb.h"

namespace stint::api {

// The limits that are settings.
struct EdgeLimits {
  size_t max_payload_bytes = engine::kDefaultMaxPayloadBytes;
  size_t max_call_bytes = engine::kDefaultMaxCallBytes;
};

// JobService.
absl::Status Validate(const v1::EnqueueJobRequest& request, const EdgeLimits& limits);
absl::Status Validate(const v1::BatchEnqueueJobsRequest& request, const EdgeLimits& limits);
absl::Status Validate(const v1::GetJobRequest& request);
// The page token is checked when it is opened (page_token.h).
absl::Status Validate(const v1::ListJobsRequest& request);
absl::Status Validate(const v1::WaitJobRequest& request);
absl::Status Validate(const v1::CancelJobRequest& request);
absl::Status Validate(const v1::RedriveJobRequest& request);
absl::Status Validate(const v1::DeleteJobRequest& request);
absl::Status Validate(const v1::UpdateJobRequest& request);
// The page token as with ListJobs.
absl::Status Validate(const v1::BatchCancelJobsRequest& request);
absl::Status Validate(const v1::BatchRedriveJobsRequest& request);
absl::Status Validate(const v1::BatchDeleteJobsRequest& request);

// WorkerService.
absl::Status Validate(const v1::LeaseJobsRequest& request);
absl::Status Validate(const v1::HeartbeatRequest& request);
absl::Status Validate(const v1::CompleteJobRequest& request, const EdgeLimits& limits);
absl::Status Validate(const v1::FailJobRequest& request);
absl::Status Validate(const v1::ReleaseJobRequest& request);
// The number of items only: each item is accepted or refused alone, by the next.
absl::Status Validate(const v1::SettleJobsRequest& request);
absl::Status Validate(const v1::SettleItem& item, const EdgeLimits& limits);
// A message as a whole, hello and credit included; its operations are checked each alone.
absl::Status Validate(const v1::StreamJobsRequest& message, bool first);
absl::Status Validate(const v1::StreamHeartbeat& heartbeat);

// AdminService.
absl::Status Validate(const v1::ListWorkersRequest& request);
absl::Status Validate(const v1::DrainWorkerRequest& request);

// QueueService.
absl::Status Validate(const v1::CreateQueueRequest& request);
absl::Status Validate(const v1::GetQueueRequest& request);
absl::Status Validate(const v1::ListQueuesRequest& request);
absl::Status Validate(const v1::UpdateQueueRequest& request);
absl::Status Validate(const v1::DeleteQueueRequest& request);
absl::Status Validate(const v1::PauseQueueRequest& request);
absl::Status Validate(const v1::ResumeQueueRequest& request);
absl::Status Validate(const v1::PurgeQueueRequest& request);
absl::Status Validate(const v1::GetQueueStatsRequest& request);

}  // namespace stint::api

#endif  // STINT_SERVER_API_VALIDATE_H_
