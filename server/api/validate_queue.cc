#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/api/checks.h"
#include "server/api/names.h"
#include "server/api/settings_checks.h"
#include "server/api/text.h"
#include "server/api/validate.h"

namespace stint::api {
namespace {

void CheckRetention(const v1::RetentionPolicy& retention, Violations* violations) {
  const auto field = [](absl::string_view name) {
    return absl::StrCat("settings.retention.", name);
  };
  if (retention.has_finished_age()) {
    CheckDuration(field("finished_age"), retention.finished_age(), 0, engine::kMaxAgeMs,
                  violations);
  }
  if (retention.has_finished_count()) {
    CheckRange(field("finished_count"), int64_t{retention.finished_count()}, 0,
               engine::kLargestCount, violations);
  }
  if (retention.has_finished_bytes()) {
    CheckRange(field("finished_bytes"), int64_t{retention.finished_bytes()}, 0,
               engine::kLargestBytes, violations);
  }
  if (retention.has_dead_age()) {
    CheckDuration(field("dead_age"), retention.dead_age(), 0, engine::kMaxAgeMs, violations);
  }
  if (retention.has_dead_count()) {
    CheckRange(field("dead_count"), int64_t{retention.dead_count()}, 0, engine::kLargestCount,
               violations);
  }
  if (retention.has_dead_bytes()) {
    CheckRange(field("dead_bytes"), int64_t{retention.dead_bytes()}, 0, engine::kLargestBytes,
               violations);
  }
}

void CheckSettings(const v1::QueueSettings& settings, Violations* violations) {
  CheckBudgets("settings.", settings, violations);
  if (settings.has_cancel_grace()) {
    CheckDuration("settings.cancel_grace", settings.cancel_grace(), 0, engine::kMaxCancelGraceMs,
                  violations);
  }
  if (settings.has_retention()) CheckRetention(settings.retention(), violations);
  if (settings.has_max_jobs()) {
    CheckRange("settings.max_jobs", int64_t{settings.max_jobs()}, 1, engine::kLargestCount,
               violations);
  }
  if (settings.has_max_bytes()) {
    CheckRange("settings.max_bytes", int64_t{settings.max_bytes()}, 1, engine::kLargestBytes,
               violations);
  }
}

void CheckUpdatePath(const std::string& path, Violations* violations) {
  if (path == "settings" || path == "draining") return;
  absl::string_view field = path;
  if (absl::ConsumePrefix(&field, "settings.") &&
      v1::QueueSettings::descriptor()->FindFieldByName(std::string(field)) != nullptr) {
    return;
  }
  violations->Add(
      "update_mask",
      absl::StrCat("may name settings, settings.FIELD and draining; has ", Quote(path)));
}

// Most calls about a queue: its id and perhaps a request id.
template <typename Request>
absl::Status ValidateQueueCall(const Request& request) {
  Violations violations;
  CheckId("queue", request.queue(), &violations);
  CheckRequestId(request.request_id(), &violations);
  return violations.ToStatus();
}

template <typename Request>
absl::Status ValidateQueueRead(const Request& request) {
  Violations violations;
  CheckId("queue", request.queue(), &violations);
  return violations.ToStatus();
}

}  // namespace

void CheckRetryPolicy(absl::string_view field, const v1::RetryPolicy& retry,
                      Violations* violations) {
  if (retry.has_initial_delay()) {
    CheckDuration(absl::StrCat(field, ".initial_delay"), retry.initial_delay(), 0,
                  engine::kLargestInitialRetryMs, violations);
  }
  if (retry.has_multiplier()) {
    CheckRange(absl::StrCat(field, ".multiplier"), retry.multiplier(), 1.0,
               engine::kLargestRetryMultiplier, violations);
  }
  if (retry.has_max_delay()) {
    CheckDuration(absl::StrCat(field, ".max_delay"), retry.max_delay(), 0,
                  engine::kLargestMaxRetryMs, violations);
  }
  if (retry.has_jitter()) {
    CheckRange(absl::StrCat(field, ".jitter"), retry.jitter(), 0.0, 1.0, violations);
  }
}

absl::Status Validate(const v1::CreateQueueRequest& request) {
  Violations violations;
  CheckId("queue", request.queue(), &violations);
  CheckSettings(request.settings(), &violations);
  CheckRequestId(request.request_id(), &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::GetQueueRequest& request) { return ValidateQueueRead(request); }

absl::Status Validate(const v1::ListQueuesRequest& request) {
  Violations violations;
  CheckPageSize(request.page_size(), &violations);
  if (!IsValidIdPrefix(request.prefix())) {
    violations.Add("prefix", absl::StrCat("must be the beginning of a queue id (", kIdRule,
                                          "); is ", Quote(request.prefix())));
  }
  return violations.ToStatus();
}

absl::Status Validate(const v1::UpdateQueueRequest& request) {
  Violations violations;
  CheckId("queue", request.queue(), &violations);
  CheckSettings(request.settings(), &violations);
  CheckRequestId(request.request_id(), &violations);
  if (request.update_mask().paths().empty()) {
    violations.Add("update_mask", "is required: settings, settings.FIELD or draining");
  }
  for (const std::string& path : request.update_mask().paths()) {
    CheckUpdatePath(path, &violations);
  }
  uint64_t version = 0;
  if (!request.etag().empty() && (!absl::SimpleAtoi(request.etag(), &version) || version == 0)) {
    violations.Add("etag",
                   absl::StrCat("must be one this broker gave; is ", Quote(request.etag())));
  }
  return violations.ToStatus();
}

absl::Status Validate(const v1::DeleteQueueRequest& request) { return ValidateQueueCall(request); }
absl::Status Validate(const v1::PauseQueueRequest& request) { return ValidateQueueCall(request); }
absl::Status Validate(const v1::ResumeQueueRequest& request) { return ValidateQueueCall(request); }
absl::Status Validate(const v1::PurgeQueueRequest& request) { return ValidateQueueCall(request); }
absl::Status Validate(const v1::GetQueueStatsRequest& request) {
  return ValidateQueueRead(request);
}

}  // namespace stint::api
