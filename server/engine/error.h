// Refusals: an absl::Status that also carries a reason from the catalogue (errors.def),
// metadata, field violations, a retry delay and the resource it is about. Built where the
// refusal is decided, read once, at the edge.
#ifndef STINT_SERVER_ENGINE_ERROR_H_
#define STINT_SERVER_ENGINE_ERROR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stint::engine {

enum class Reason : int {
  kNone = 0,
#define STINT_ERROR(enumerator, name, code) enumerator,
#include "server/engine/errors.def"
#undef STINT_ERROR
};

// How many there are, kNone included.
inline constexpr size_t kReasons = 1
#define STINT_ERROR(enumerator, name, code) +1
#include "server/engine/errors.def"
#undef STINT_ERROR
    ;

// INVALID_REQUEST …; "" for kNone.
absl::string_view ReasonName(Reason reason);
// The canonical code of a reason.
absl::StatusCode ReasonCode(Reason reason);

// What a refusal carries beside code and message.
struct ErrorDetails {
  Reason reason = Reason::kNone;
  std::vector<std::pair<std::string, std::string>> metadata;
  // Field path and what is wrong with it; at most kMaxViolations, the rest are counted.
  std::vector<std::pair<std::string, std::string>> violations;
  // 0: none.
  int64_t retry_after_ms = 0;
  // Such as "queue" and "email".
  std::string resource_type;
  std::string resource_name;
};

// A status with details.
absl::Status MakeError(ErrorDetails details, absl::string_view message);
// The common case: a reason and a message, perhaps metadata.
absl::Status MakeError(Reason reason, absl::string_view message,
                       std::vector<std::pair<std::string, std::string>> metadata = {});
// The details of a status made by MakeError; nullopt for any other.
std::optional<ErrorDetails> DetailsOf(const absl::Status& status);
// The reason of a status; kNone for one not made by MakeError.
Reason ReasonOf(const absl::Status& status);

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_ERROR_H_
