// Clocks for tests of clients.
//
// ManualClock stands still until a test moves it; threads that wait are woken when their time
// has come. SteppingClock moves by itself: a wait with an end is over at once, and the time is
// then its end. Thread rule: any thread; whoever waits on a ManualClock has to outlive Advance.
#ifndef STINT_TESTS_UNIT_CLIENT_FAKE_CLOCK_H_
#define STINT_TESTS_UNIT_CLIENT_FAKE_CLOCK_H_

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/clock.h"

namespace stint::testing {

class ManualClock final : public client::Clock {
 public:
  absl::Duration Now() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return now_;
  }

  void Wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
            absl::Duration until) override {
    std::list<Waiter>::iterator self;
    {
      const std::lock_guard<std::mutex> own(mutex_);
      if (now_ >= until) return;
      self = waiters_.insert(waiters_.end(), Waiter{&changed, lock.mutex(), until});
      registered_.notify_all();
    }
    changed.wait(lock);
    const std::lock_guard<std::mutex> own(mutex_);
    waiters_.erase(self);
  }

  void Advance(absl::Duration by) {
    std::vector<Waiter> waiters;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      now_ += by;
      waiters.assign(waiters_.begin(), waiters_.end());
    }
    for (const Waiter& waiter : waiters) {
      // Under its mutex: it may have registered and not begun to wait.
      const std::lock_guard<std::mutex> theirs(*waiter.mutex);
      waiter.changed->notify_all();
    }
  }

  // Blocks until somebody waits for a time at most `within` from now.
  void AwaitWaiter(absl::Duration within) { AwaitWaiter(absl::ZeroDuration(), within); }
  // As above, for exactly that time.
  void AwaitWaiterFor(absl::Duration exactly) { AwaitWaiter(exactly, exactly); }

 private:
  void AwaitWaiter(absl::Duration least, absl::Duration most) {
    std::unique_lock<std::mutex> lock(mutex_);
    registered_.wait(lock, [&] {
      return std::any_of(waiters_.begin(), waiters_.end(), [&](const Waiter& waiter) {
        return waiter.until > now_ && waiter.until >= now_ + least && waiter.until <= now_ + most;
      });
    });
  }

  struct Waiter {
    std::condition_variable* changed;
    std::mutex* mutex;
    absl::Duration until;
  };

  std::mutex mutex_;
  std::condition_variable registered_;
  absl::Duration now_ = absl::Seconds(1000);
  std::list<Waiter> waiters_;
};

class SteppingClock final : public client::Clock {
 public:
  absl::Duration Now() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return now_;
  }

  void Wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
            absl::Duration until) override {
    if (until == absl::InfiniteDuration()) {
      changed.wait(lock);
      return;
    }
    const std::lock_guard<std::mutex> own(mutex_);
    waits_.push_back(until - now_);
    now_ = std::max(now_, until);
  }

  std::vector<absl::Duration> Waits() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return waits_;
  }

 private:
  std::mutex mutex_;
  absl::Duration now_ = absl::Seconds(1000);
  std::vector<absl::Duration> waits_;
};

}  // namespace stint::testing

#endif  // STINT_TESTS_UNIT_CLIENT_FAKE_CLOCK_H_
