// The time a client waits by. Tests give their own; everything else uses Clock::System().
//
// Times are durations since a fixed, meaningless start; they never go back and go on while
// the process or the machine is stopped.
//
// Thread rule: any thread.
#ifndef STINT_CLIENT_CPP_CLOCK_H_
#define STINT_CLIENT_CPP_CLOCK_H_

#include "absl/time/time.h"
#include "sync/mutex.h"

namespace stint::client {

class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Duration Now() = 0;

  // Waits until `changed` is notified or Now() has reached `until`; may return early, so
  // callers test their condition in a loop. Gives `mutex` up meanwhile.
  // `until` may be infinite.
  virtual void Wait(Condition& changed, Mutex& mutex, absl::Duration until)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) = 0;

  // The machine's clock; lives as long as the process.
  static Clock* System();
};

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_CLOCK_H_
