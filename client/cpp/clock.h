// The time a client waits by. Tests give their own; everything else uses Clock::System().
//
// Times are durations since a fixed, meaningless start; they never go back and go on while
// the process or the machine is stopped.
//
// Thread rule: any thread.
#ifndef STINT_CLIENT_CPP_CLOCK_H_
#define STINT_CLIENT_CPP_CLOCK_H_

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

namespace stint::client {

class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Duration Now() = 0;

  // Waits until `changed` is notified or Now() has reached `until`; may return early, so
  // callers test their condition in a loop. `lock` is held on `changed`'s mutex.
  // `until` may be infinite.
  virtual void Wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                    absl::Duration until) = 0;

  // The machine's clock; lives as long as the process.
  static Clock* System();
};

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_CLOCK_H_
