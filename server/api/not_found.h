// The two refusals that reads of the store give; the engine's own say the same.
#ifndef STINT_SERVER_API_NOT_FOUND_H_
#define STINT_SERVER_API_NOT_FOUND_H_

#include <string>

#include "absl/status/status.h"

namespace stint::api {

absl::Status QueueNotFound(const std::string& queue);
// `name` is the full name.
absl::Status JobNotFound(const std::string& name);

}  // namespace stint::api

#endif  // STINT_SERVER_API_NOT_FOUND_H_
