#include "absl/strings/str_cat.h"
#include "server/api/checks.h"
#include "server/api/validate.h"
#include "server/engine/error.h"

namespace stint::api {
namespace {

void CheckComplete(const v1::CompleteJobRequest& request, const EdgeLimits& limits,
                   Violations* violations) {
  CheckJobName("job", request.job(), violations);
  CheckToken("token", request.token(), violations);
  CheckBytes("result", request.result().size(), limits.max_payload_bytes, violations);
}

void CheckFail(const v1::FailJobRequest& request, Violations* violations) {
  CheckJobName("job", request.job(), violations);
  CheckToken("token", request.token(), violations);
  if (request.has_retry_after()) {
    CheckDuration("retry_after", request.retry_after(), 0, engine::kMaxDelayMs, violations);
  }
}

void CheckRelease(const v1::ReleaseJobRequest& request, Violations* violations) {
  CheckJobName("job", request.job(), violations);
  CheckToken("token", request.token(), violations);
  if (request.has_delay()) {
    CheckDuration("delay", request.delay(), 0, engine::kMaxDelayMs, violations);
  }
  if (!v1::ReleaseReason_IsValid(request.reason())) {
    violations->Add(
        "reason", absl::StrCat("must be a ReleaseReason, is ", static_cast<int>(request.reason())));
  }
}

}  // namespace

absl::Status Validate(const v1::LeaseJobsRequest& request) {
  Violations violations;
  const size_t count = static_cast<size_t>(request.queues_size());
  CheckCount("queues", count, 1, engine::kMaxLeaseQueues, &violations);
  if (count <= engine::kMaxLeaseQueues) {
    for (int i = 0; i < request.queues_size(); ++i) {
      CheckId(absl::StrCat("queues[", i, "]"), request.queues(i), &violations);
    }
  }
  // 0 is "unset" here and below.
  if (request.max_jobs() != 0) {
    CheckRange("max_jobs", int64_t{request.max_jobs()}, 1, engine::kMaxLeaseJobs, &violations);
  }
  if (request.has_lease_duration()) {
    CheckDuration("lease_duration", request.lease_duration(), engine::kMinLeaseMs,
                  engine::kMaxLeaseMs, &violations);
  }
  if (request.has_wait()) {
    CheckDuration("wait", request.wait(), 0, engine::kMaxWaitMs, &violations);
  }
  CheckOptionalId("worker", request.worker(), &violations);
  CheckRequestId(request.request_id(), &violations);
  if (!request.request_id().empty() && request.worker().empty()) {
    violations.Add("worker", "is required with request_id");
  }
  if (request.max_reply_bytes() != 0) {
    CheckRange("max_reply_bytes", request.max_reply_bytes(), engine::kMinReplyBytes,
               engine::kLargestReplyBytes, &violations);
  }
  return violations.ToStatus();
}

absl::Status Validate(const v1::HeartbeatRequest& request) {
  Violations violations;
  CheckOptionalId("worker", request.worker(), &violations);
  const size_t count = static_cast<size_t>(request.leases_size());
  CheckCount("leases", count, 0, engine::kMaxHeartbeatItems, &violations);
  if (count <= engine::kMaxHeartbeatItems) {
    for (int i = 0; i < request.leases_size(); ++i) {
      CheckJobName(absl::StrCat("leases[", i, "].job"), request.leases(i).job(), &violations);
      CheckToken(absl::StrCat("leases[", i, "].token"), request.leases(i).token(), &violations);
      CheckBytes(absl::StrCat("leases[", i, "].progress"), request.leases(i).progress().size(),
                 engine::kMaxProgressBytes, &violations);
    }
  }
  return violations.ToStatus();
}

absl::Status Validate(const v1::CompleteJobRequest& request, const EdgeLimits& limits) {
  Violations violations;
  CheckComplete(request, limits, &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::FailJobRequest& request) {
  Violations violations;
  CheckFail(request, &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::ReleaseJobRequest& request) {
  Violations violations;
  CheckRelease(request, &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::SettleJobsRequest& request) {
  Violations violations;
  CheckCount("items", static_cast<size_t>(request.items_size()), 1, engine::kMaxBatchItems,
             &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::SettleItem& item, const EdgeLimits& limits) {
  Violations violations;
  switch (item.settle_case()) {
    case v1::SettleItem::kComplete:
      CheckComplete(item.complete(), limits, &violations);
      break;
    case v1::SettleItem::kFail:
      CheckFail(item.fail(), &violations);
      break;
    case v1::SettleItem::kRelease:
      CheckRelease(item.release(), &violations);
      break;
    case v1::SettleItem::SETTLE_NOT_SET:
      violations.Add("settle", "is required: complete, fail or release");
      break;
  }
  return violations.ToStatus();
}

}  // namespace stint::api
