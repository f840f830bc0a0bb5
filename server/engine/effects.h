// What a group did besides giving answers, as plain values: what happened to jobs, how long
// things took, and how many jobs there are now. The engine notes it while it applies a group;
// who counts takes it with Engine::TakeEffects and counts it when the group is durable
// (runtime/loop_metrics.h), never before.
#ifndef STINT_SERVER_ENGINE_EFFECTS_H_
#define STINT_SERVER_ENGINE_EFFECTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "server/engine/types.h"

namespace stint::engine {

// What happens to jobs and is counted per queue; ops/metrics.cc says how each is shown.
enum class JobEvent : uint8_t {
  kEnqueued,
  kGranted,
  kCompleted,
  // A failure was charged, by FailJob or because the run limit was reached.
  kFailed,
  kReleased,
  kReleasedForShutdown,
  kReleasedKindUnknown,
  // Not renewed in time.
  kLapsed,
  // The stream of its worker was lost, and the grace was over.
  kLapsedStreamLost,
  // A lapse was charged as a loss.
  kLoss,
  // A settle, or a heartbeat, of a lease that had lapsed and nobody had taken.
  kLateSettle,
  kLateRenewal,
  kRevokedRunLimit,
  kRevokedCancel,
  kRevokedRemoved,
  kCancelledByClient,
  kExpired,
  kDeadAttempts,
  kDeadLosses,
  kDeadRejected,
  kRedriven,
  // Gone from the store; each job goes once.
  kRemovedAge,
  kRemovedCount,
  kRemovedBytes,
  kRemovedSpace,
  kRemovedNotKept,
  kRemovedDeleted,
  kRemovedPurged,
  kRemovedWithQueue,
  // A settle was refused because its token does not own the job.
  kStaleToken,
};
inline constexpr size_t kJobEvents = static_cast<size_t>(JobEvent::kStaleToken) + 1;

// Times in the life of a job.
enum class JobTime : uint8_t {
  kWait,      // from ready to the grant
  kRun,       // from the grant to the settle
  kLifetime,  // from the enqueue to the completion
  // From the due time to the moment the job became ready; kept for all queues together.
  kPromotionLag,
};
inline constexpr size_t kJobTimesPerQueue = static_cast<size_t>(JobTime::kLifetime) + 1;

inline constexpr size_t kJobStates = 7;
// Jobs by state, at the state's number less 1.
using Depths = std::array<int64_t, kJobStates>;

struct GroupEffects {
  struct Count {
    uint32_t queue;
    JobEvent event;
    int64_t jobs;
  };
  struct Time {
    uint32_t queue;
    JobTime time;
    int64_t ms;
  };
  struct Queue {
    uint32_t queue;
    // Empty: it was told before.
    std::string name;
    Depths depths = {};
    bool removed = false;
  };

  // Of a load: `queues` are all there are.
  bool loaded = false;
  std::vector<Count> counts;
  std::vector<Time> times;
  std::vector<Queue> queues;
  // Leases in heartbeats, by LeaseStatus.
  std::array<int64_t, 5> heartbeats = {};
};

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_EFFECTS_H_
