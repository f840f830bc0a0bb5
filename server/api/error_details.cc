#include "server/api/error_details.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "server/api/text.h"
#include "server/api/time_values.h"
#include "server/engine/error.h"
#include "server/engine/limits.h"

namespace stint::api {
namespace {

// A client reads at most 8 KiB of trailers, in which the details take four thirds of their
// size and the message stands twice.
constexpr size_t kMaxMessageBytes = 800;
constexpr size_t kMaxItemMessageBytes = 400;
constexpr size_t kMaxDetailBytes = 3072;
constexpr size_t kMaxItemDetailBytes = 1024;
constexpr size_t kMaxMetadataBytes = 200;
constexpr int64_t kDefaultRetryMs = engine::kSecondMs;

// Statuses that did not come with a reason: failures of the store, and bugs.
engine::Reason ReasonOfCode(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kDataLoss:
      return engine::Reason::kCorruptRecord;
    case absl::StatusCode::kInvalidArgument:
      return engine::Reason::kInvalidRequest;
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
      return engine::Reason::kCallExpired;
    default:
      return engine::Reason::kStoreFailed;
  }
}

void AddErrorInfo(const engine::ErrorDetails& details, google::rpc::Status* out) {
  google::rpc::ErrorInfo info;
  const absl::string_view reason = engine::ReasonName(details.reason);
  info.set_reason(reason.data(), reason.size());
  info.set_domain(kErrorDomain.data(), kErrorDomain.size());
  for (const auto& [key, value] : details.metadata) {
    const absl::string_view shown = Utf8Prefix(value, kMaxMetadataBytes);
    (*info.mutable_metadata())[key] = std::string(shown);
  }
  out->add_details()->PackFrom(info);
}

void AddBadRequest(const engine::ErrorDetails& details, size_t max_bytes,
                   google::rpc::Status* out) {
  if (details.violations.empty()) return;
  google::rpc::BadRequest bad_request;
  size_t bytes = 0;
  for (const auto& [field, description] : details.violations) {
    bytes += field.size() + description.size() + 8;
    if (bytes > max_bytes) break;
    auto* violation = bad_request.add_field_violations();
    violation->set_field(field);
    violation->set_description(description);
  }
  out->add_details()->PackFrom(bad_request);
}

void AddRetryInfo(const engine::ErrorDetails& details, google::rpc::Status* out) {
  google::rpc::RetryInfo info;
  *info.mutable_retry_delay() =
      DurationOfMillis(details.retry_after_ms > 0 ? details.retry_after_ms : kDefaultRetryMs);
  out->add_details()->PackFrom(info);
}

void AddResourceInfo(const engine::ErrorDetails& details, google::rpc::Status* out) {
  google::rpc::ResourceInfo info;
  info.set_resource_type(details.resource_type);
  info.set_resource_name(details.resource_name);
  out->add_details()->PackFrom(info);
}

google::rpc::Status Convert(const absl::Status& status, size_t max_message_bytes,
                            size_t max_detail_bytes) {
  google::rpc::Status out;
  if (status.ok()) return out;
  engine::ErrorDetails details;
  absl::StatusCode code = status.code();
  std::string message(status.message());
  if (auto given = engine::DetailsOf(status)) {
    details = *std::move(given);
  } else {
    details.reason = ReasonOfCode(code);
    if (details.reason == engine::Reason::kStoreFailed) code = absl::StatusCode::kUnavailable;
  }
  out.set_code(static_cast<int>(code));
  out.set_message(Shorten(std::move(message), max_message_bytes));
  AddErrorInfo(details, &out);
  AddBadRequest(details, max_detail_bytes, &out);
  if (code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kUnavailable) {
    AddRetryInfo(details, &out);
  }
  if (code == absl::StatusCode::kNotFound || code == absl::StatusCode::kAlreadyExists) {
    AddResourceInfo(details, &out);
  }
  return out;
}

}  // namespace

google::rpc::Status ToRpcStatus(const absl::Status& status) {
  return Convert(status, kMaxMessageBytes, kMaxDetailBytes);
}

google::rpc::Status ToItemStatus(const absl::Status& status) {
  return Convert(status, kMaxItemMessageBytes, kMaxItemDetailBytes);
}

}  // namespace stint::api
