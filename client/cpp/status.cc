#include "client/cpp/status.h"

#include "absl/strings/cord.h"
#include "client/cpp/proto_time.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace stint::client {
namespace {

constexpr absl::string_view kDomain = "stint.dev";
constexpr absl::string_view kPayloadUrl = "type.googleapis.com/google.rpc.Status";

// Fills `detail` with the first detail of its type. False when there is none.
template <typename Detail>
bool FindDetail(const absl::Status& status, Detail* detail) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  google::rpc::Status rpc;
  if (!payload.has_value() || !rpc.ParseFromString(std::string(*payload))) return false;
  for (const google::protobuf::Any& any : rpc.details()) {
    if (any.Is<Detail>() && any.UnpackTo(detail)) return true;
  }
  return false;
}

bool FindErrorInfo(const absl::Status& status, google::rpc::ErrorInfo* info) {
  return FindDetail(status, info) && info->domain() == kDomain;
}

}  // namespace

std::string ErrorReason(const absl::Status& status) {
  google::rpc::ErrorInfo info;
  return FindErrorInfo(status, &info) ? info.reason() : std::string();
}

std::string ErrorMetadata(const absl::Status& status, absl::string_view key) {
  google::rpc::ErrorInfo info;
  if (!FindErrorInfo(status, &info)) return std::string();
  const auto found = info.metadata().find(std::string(key));
  return found == info.metadata().end() ? std::string() : found->second;
}

std::vector<FieldViolation> FieldViolations(const absl::Status& status) {
  std::vector<FieldViolation> violations;
  google::rpc::BadRequest bad;
  if (!FindDetail(status, &bad)) return violations;
  for (const auto& one : bad.field_violations()) {
    violations.push_back({one.field(), one.description()});
  }
  return violations;
}

std::optional<absl::Duration> RetryDelay(const absl::Status& status) {
  google::rpc::RetryInfo retry;
  if (!FindDetail(status, &retry) || !retry.has_retry_delay()) return std::nullopt;
  const absl::Duration delay = ToAbsl(retry.retry_delay());
  if (delay < absl::ZeroDuration()) return std::nullopt;
  return delay;
}

bool IsSafeToRepeat(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return true;
    case absl::StatusCode::kResourceExhausted:
      // Others of this code (a full queue, a message over gRPC's size limit) fail again.
      return ErrorReason(status) == "OVERLOADED";
    default:
      return false;
  }
}

absl::Status FromRpcStatus(const google::rpc::Status& rpc) {
  if (rpc.code() == 0) return absl::OkStatus();
  absl::Status status(static_cast<absl::StatusCode>(rpc.code()), rpc.message());
  if (rpc.details_size() > 0) {
    status.SetPayload(kPayloadUrl, absl::Cord(rpc.SerializeAsString()));
  }
  return status;
}

}  // namespace stint::client
