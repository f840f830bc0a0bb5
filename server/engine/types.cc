#include "server/engine/types.h"

namespace stint::engine {

absl::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kDelayed:
      return "DELAYED";
    case JobState::kHeld:
      return "HELD";
    case JobState::kReady:
      return "READY";
    case JobState::kLeased:
      return "LEASED";
    case JobState::kCompleted:
      return "COMPLETED";
    case JobState::kCancelled:
      return "CANCELLED";
    case JobState::kDead:
      return "DEAD";
  }
  return "UNKNOWN";
}

}  // namespace stint::engine
