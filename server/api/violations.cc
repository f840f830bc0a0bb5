#include "server/api/violations.h"

#include "absl/strings/str_cat.h"
#include "server/api/text.h"
#include "server/engine/error.h"
#include "server/engine/limits.h"

namespace stint::api {
namespace {

// Error details stay under 4 KiB together; the rest is left to ErrorInfo and the message.
constexpr size_t kMaxKeptBytes = 2400;
constexpr size_t kMaxOneBytes = 200;
// Violations spelled out in the message.
constexpr size_t kInMessage = 3;

}  // namespace

void Violations::Add(absl::string_view field, absl::string_view description) {
  if (kept_.size() >= engine::kMaxViolations || kept_bytes_ >= kMaxKeptBytes) {
    ++omitted_;
    return;
  }
  kept_.emplace_back(Utf8Prefix(field, kMaxOneBytes), Utf8Prefix(description, kMaxOneBytes));
  kept_bytes_ += kept_.back().first.size() + kept_.back().second.size();
}

absl::Status Violations::ToStatus() const {
  if (kept_.empty()) return absl::OkStatus();
  std::string message;
  for (size_t i = 0; i < kept_.size() && i < kInMessage; ++i) {
    const auto& [field, description] = kept_[i];
    absl::StrAppend(&message, i == 0 ? "" : "; ", field, field.empty() ? "" : " ", description);
  }
  const size_t total = kept_.size() + omitted_;
  if (total > kInMessage) absl::StrAppend(&message, "; and ", total - kInMessage, " more");
  engine::ErrorDetails details;
  details.reason = engine::Reason::kInvalidRequest;
  details.violations = kept_;
  if (omitted_ > 0) details.metadata.emplace_back("violationsOmitted", absl::StrCat(omitted_));
  return engine::MakeError(std::move(details), message);
}

}  // namespace stint::api
