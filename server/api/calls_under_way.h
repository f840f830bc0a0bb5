// How many calls wait for an answer, so that a shutdown can wait for them and for nothing
// else. Thread-safe.
#ifndef STINT_SERVER_API_CALLS_UNDER_WAY_H_
#define STINT_SERVER_API_CALLS_UNDER_WAY_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace stint::api {

class CallsUnderWay {
 public:
  void Begin() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++calls_;
  }
  void End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--calls_ == 0) none_.notify_all();
  }
  // True as soon as there was none; false when `ms` have passed before.
  bool WaitForNone(int64_t ms) {
    std::unique_lock<std::mutex> lock(mutex_);
    return none_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return calls_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  size_t calls_ = 0;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_CALLS_UNDER_WAY_H_
