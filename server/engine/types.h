// Words of the engine: states, reasons, times. Numbers are those of the API and the records,
// so that a conversion is a cast; a test compares them.
#ifndef STINT_SERVER_ENGINE_TYPES_H_
#define STINT_SERVER_ENGINE_TYPES_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace stint::engine {

enum class JobState : int32_t {
  kDelayed = 1,
  kHeld = 2,
  kReady = 3,
  kLeased = 4,
  kCompleted = 5,
  kCancelled = 6,
  kDead = 7,
};

enum class EndReason : int32_t {
  kNone = 0,
  kCompleted = 1,
  kAttemptsExhausted = 2,
  kLeasesLost = 3,
  kRejectedByWorker = 4,
  kExpired = 5,
  kCancelledByClient = 6,
};

enum class AttemptOutcome : int32_t { kFailed = 1, kLeaseLapsed = 2, kRunLimit = 3 };

enum class SettleKind : int32_t { kComplete = 1, kFail = 2, kRelease = 3 };

enum class LeaseStatus : int32_t { kRenewed = 1, kCancelRequested = 2, kLost = 3, kRunLimit = 4 };

enum class ReleaseReason : int32_t { kNone = 0, kShutdown = 1, kKindUnknown = 2 };

// READY, LEASED …, as the API writes it.
absl::string_view JobStateName(JobState state);

// All the engine knows of time and chance. Handlers get it as an argument and never ask.
struct Now {
  // Broker time: milliseconds that never go back.
  int64_t broker_ms = 0;
  // The broker's wall clock, milliseconds since 1970.
  int64_t wall_ms = 0;
  // For jitter; the same value gives the same jitter.
  uint64_t entropy = 0;
};

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_TYPES_H_
