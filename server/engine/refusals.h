// Refusals that more than one handler makes, worded once.
#ifndef STINT_SERVER_ENGINE_REFUSALS_H_
#define STINT_SERVER_ENGINE_REFUSALS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/command.h"

namespace stint::engine {

// queues/{queue}/jobs/{job}
std::string JobName(const JobRef& job);

absl::Status JobNotFound(const JobRef& job);
absl::Status JobUnreadable(const JobRef& job);
absl::Status JobExists(const JobRef& job);
absl::Status QueueNotFound(absl::string_view queue);
absl::Status QueueExists(absl::string_view queue);
// `what` is "jobs" or "bytes".
absl::Status QueueFull(absl::string_view queue, absl::string_view what, int64_t limit);
absl::Status TooManyQueues();
absl::Status LowSpace();

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_REFUSALS_H_
