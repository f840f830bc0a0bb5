// How many calls wait for an answer, so that a shutdown can wait for them and for nothing
// else. Thread-safe.
#ifndef STINT_SERVER_API_CALLS_UNDER_WAY_H_
#define STINT_SERVER_API_CALLS_UNDER_WAY_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "sync/mutex.h"

namespace stint::api {

class CallsUnderWay {
 public:
  void Begin() {
    const MutexLock lock(mutex_);
    ++calls_;
  }
  void End() {
    const MutexLock lock(mutex_);
    if (--calls_ == 0) none_.NotifyAll();
  }
  // True as soon as there was none; false when `ms` have passed before.
  bool WaitForNone(int64_t ms) {
    const MutexLock lock(mutex_);
    return none_.WaitFor(mutex_, std::chrono::milliseconds(ms),
                         [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return calls_ == 0; });
  }

 private:
  Mutex mutex_;
  Condition none_;
  size_t calls_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_CALLS_UNDER_WAY_H_
