// Whether the broker lives and whether it is ready, for those who ask from outside.
//
// Alive: unless the loop has made no progress for 30 s, or the store has failed for good. A
// full disk, overload, a drain, a start or the store being opened again are no reason to kill
// the process. Ready: from the moment it serves until it drains or fails; also in low space
// and overload, because settles and heartbeats still work.
//
// Thread-safe.
#ifndef STINT_SERVER_OPS_HEALTH_H_
#define STINT_SERVER_OPS_HEALTH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "sync/mutex.h"

namespace stint::ops {

class Health {
 public:
  static constexpr int64_t kStuckMs = 30'000;

  enum class Phase { kStarting, kServing, kDraining, kFailed };

  struct Answer {
    bool ok = false;
    // One line for people.
    std::string why;
  };

  // For how long the loop has made no progress; from now on it is asked. Empty: no more.
  void Watch(std::function<int64_t()> stuck_ms) {
    const MutexLock lock(mutex_);
    stuck_ms_ = std::move(stuck_ms);
  }
  void Enter(Phase phase) { phase_.store(phase); }
  Phase phase() const { return phase_.load(); }

  Answer Alive() const;
  Answer Ready() const;

 private:
  std::atomic<Phase> phase_{Phase::kStarting};
  mutable Mutex mutex_;
  std::function<int64_t()> stuck_ms_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stint::ops

#endif  // STINT_SERVER_OPS_HEALTH_H_
