#include "server/api/names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/engine/limits.h"

namespace stint::api {

bool IsValidIdPrefix(absl::string_view prefix) {
  if (prefix.empty()) return true;
  if (prefix.size() > engine::kMaxNameBytes) return false;
  for (const char c : prefix) {
    const bool allowed = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
                         c == '_' || c == ':' || c == '-';
    if (!allowed) return false;
  }
  return absl::ascii_isalnum(static_cast<unsigned char>(prefix.front()));
}

bool IsValidId(absl::string_view id) { return !id.empty() && IsValidIdPrefix(id); }

std::optional<engine::JobRef> ParseJobName(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "queues/")) return std::nullopt;
  const size_t slash = name.find('/');
  if (slash == absl::string_view::npos) return std::nullopt;
  const absl::string_view queue = name.substr(0, slash);
  name.remove_prefix(slash);
  if (!absl::ConsumePrefix(&name, "/jobs/")) return std::nullopt;
  if (!IsValidId(queue) || !IsValidId(name)) return std::nullopt;
  return engine::JobRef{std::string(queue), std::string(name)};
}

std::string QueueName(absl::string_view queue) { return absl::StrCat("queues/", queue); }

std::string WorkerName(absl::string_view worker) { return absl::StrCat("workers/", worker); }

std::string JobName(absl::string_view queue, absl::string_view job_id) {
  return absl::StrCat("queues/", queue, "/jobs/", job_id);
}

}  // namespace stint::api
