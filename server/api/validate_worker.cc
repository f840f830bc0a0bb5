#include "absl/strings/str_cat.h"
#include "server/api/checks.h"
#include "server/api/names.h"
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

// Of LeaseJobs and of a hello.
void CheckQueues(absl::string_view field,
                 const google::protobuf::RepeatedPtrField<std::string>& queues, size_t min,
                 Violations* violations) {
  const size_t count = static_cast<size_t>(queues.size());
  CheckCount(field, count, min, engine::kMaxLeaseQueues, violations);
  if (count > engine::kMaxLeaseQueues) return;
  for (int i = 0; i < queues.size(); ++i) {
    CheckId(absl::StrCat(field, "[", i, "]"), queues[i], violations);
  }
}

// Of Heartbeat, a stream's heartbeat and a hello.
void CheckLeases(absl::string_view field,
                 const google::protobuf::RepeatedPtrField<v1::HeartbeatItem>& leases,
                 Violations* violations) {
  const size_t count = static_cast<size_t>(leases.size());
  CheckCount(field, count, 0, engine::kMaxHeartbeatItems, violations);
  if (count > engine::kMaxHeartbeatItems) return;
  for (int i = 0; i < leases.size(); ++i) {
    CheckJobName(absl::StrCat(field, "[", i, "].job"), leases[i].job(), violations);
    CheckToken(absl::StrCat(field, "[", i, "].token"), leases[i].token(), violations);
    CheckBytes(absl::StrCat(field, "[", i, "].progress"), leases[i].progress().size(),
               engine::kMaxProgressBytes, violations);
  }
}

void CheckHello(const v1::Hello& hello, Violations* violations) {
  CheckId("hello.worker", hello.worker(), violations);
  CheckQueues("hello.queues", hello.queues(), 0, violations);
  if (hello.has_lease_duration()) {
    CheckDuration("hello.lease_duration", hello.lease_duration(), engine::kMinLeaseMs,
                  engine::kMaxLeaseMs, violations);
  }
  CheckBytes("hello.version", hello.version().size(), engine::kMaxWorkerVersionBytes, violations);
  CheckCount("hello.kinds", static_cast<size_t>(hello.kinds_size()), 0, engine::kMaxWorkerKinds,
             violations);
  for (int i = 0; i < hello.kinds_size(); ++i) {
    CheckBytes(absl::StrCat("hello.kinds[", i, "]"), hello.kinds(i).size(), engine::kMaxKindBytes,
               violations);
  }
  CheckLeases("hello.held", hello.held(), violations);
  if (hello.previous_session() < 0) {
    violations->Add("hello.previous_session", "must be a session's number, or 0");
  }
  if (hello.has_stream_loss_grace()) {
    CheckDuration("hello.stream_loss_grace", hello.stream_loss_grace(), 0,
                  engine::kMaxStreamLossGraceMs, violations);
  }
  if (hello.max_reply_bytes() != 0) {
    CheckRange("hello.max_reply_bytes", hello.max_reply_bytes(), engine::kMinReplyBytes,
               engine::kLargestReplyBytes, violations);
  }
}

}  // namespace

absl::Status Validate(const v1::LeaseJobsRequest& request) {
  Violations violations;
  CheckQueues("queues", request.queues(), 1, &violations);
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
  CheckLeases("leases", request.leases(), &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::StreamHeartbeat& heartbeat) {
  Violations violations;
  CheckLeases("leases", heartbeat.leases(), &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::StreamJobsRequest& message, bool first) {
  Violations violations;
  if (first != message.has_hello()) {
    violations.Add("hello", first ? "is required in the first message of a stream"
                                  : "may be in the first message of a stream only");
  }
  if (message.has_hello()) CheckHello(message.hello(), &violations);
  const size_t operations = static_cast<size_t>(message.enqueues_size()) +
                            static_cast<size_t>(message.settles_size()) +
                            static_cast<size_t>(message.heartbeats_size());
  CheckCount("enqueues, settles and heartbeats", operations, 0, engine::kMaxStreamOperations,
             &violations);
  CheckRange("credit.jobs", int64_t{message.credit().jobs()}, -engine::kMaxCreditJobs,
             engine::kMaxCreditJobs, &violations);
  CheckRange("credit.bytes", message.credit().bytes(), -engine::kMaxCreditBytes,
             engine::kMaxCreditBytes, &violations);
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

absl::Status Validate(const v1::ListWorkersRequest& request) {
  Violations violations;
  CheckPageSize(request.page_size(), &violations);
  if (!IsValidIdPrefix(request.prefix())) {
    violations.Add("prefix", absl::StrCat("must begin an id: ", kIdRule));
  }
  return violations.ToStatus();
}

absl::Status Validate(const v1::DrainWorkerRequest& request) {
  Violations violations;
  switch (request.target_case()) {
    case v1::DrainWorkerRequest::kWorker:
      CheckId("worker", request.worker(), &violations);
      break;
    case v1::DrainWorkerRequest::kVersion:
      CheckCount("version", request.version().size(), 1, engine::kMaxWorkerVersionBytes,
                 &violations);
      break;
    case v1::DrainWorkerRequest::TARGET_NOT_SET:
      violations.Add("worker", "is required, or version");
      break;
  }
  return violations.ToStatus();
}

}  // namespace stint::api
