#include "server/api/not_found.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/error.h"

namespace stint::api {
namespace {

absl::Status NotFound(engine::Reason reason, const char* type, const std::string& name,
                      absl::string_view message) {
  engine::ErrorDetails details;
  details.reason = reason;
  details.resource_type = type;
  details.resource_name = name;
  return engine::MakeError(std::move(details), message);
}

}  // namespace

absl::Status QueueNotFound(const std::string& queue) {
  return NotFound(engine::Reason::kQueueNotFound, "queue", queue,
                  absl::StrCat("queue ", queue, " does not exist"));
}

absl::Status JobNotFound(const std::string& name) {
  return NotFound(engine::Reason::kJobNotFound, "job", name,
                  absl::StrCat(name, " does not exist, or is kept no longer"));
}

}  // namespace stint::api
