// Clocks for tests of clients.
//
// ManualClock stands still until a test moves it; threads that wait are woken when their time
// has come. SteppingClock moves by itself: a wait with an end is over at once, and the time is
// then its end. Thread rule: any thread; whoever waits on a ManualClock has to outlive Advance.
#ifndef STINT_TESTS_UNIT_CLIENT_FAKE_CLOCK_H_
#define STINT_TESTS_UNIT_CLIENT_FAKE_CLOCK_H_

#include <algorithm>
#include <list>
#include <vector>

#include "absl/time/time.h"
#include "client/cpp/clock.h"
#include "sync/mutex.h"

namespace stint::testing {

class ManualClock final : public client::Clock {
 public:
  absl::Duration Now() override {
    const MutexLock lock(mutex_);
    return now_;
  }

  void Wait(Condition& changed, Mutex& mutex, absl::Duration until) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::list<Waiter>::iterator self;
    {
      const MutexLock own(mutex_);
      if (now_ >= until) return;
      self = waiters_.insert(waiters_.end(), Waiter{&changed, &mutex, until});
      registered_.NotifyAll();
    }
    changed.Wait(mutex);
    const MutexLock own(mutex_);
    waiters_.erase(self);
  }

  void Advance(absl::Duration by) {
    std::vector<Waiter> waiters;
    {
      const MutexLock lock(mutex_);
      now_ += by;
      waiters.assign(waiters_.begin(), waiters_.end());
    }
    for (const Waiter& waiter : waiters) {
      // Under its mutex: it may have registered and not begun to wait.
      const MutexLock theirs(*waiter.mutex);
      waiter.changed->NotifyAll();
    }
  }

  // Blocks until somebody waits for a time at most `within` from now.
  void AwaitWaiter(absl::Duration within) { AwaitWaiter(absl::ZeroDuration(), within); }
  // As above, for exactly that time.
  void AwaitWaiterFor(absl::Duration exactly) { AwaitWaiter(exactly, exactly); }

 private:
  void AwaitWaiter(absl::Duration least, absl::Duration most) {
    const MutexLock lock(mutex_);
    while (std::none_of(waiters_.begin(), waiters_.end(),
                        [least = now_ + least, most = now_ + most, now = now_](const Waiter& w) {
                          return w.until > now && w.until >= least && w.until <= most;
                        })) {
      registered_.Wait(mutex_);
    }
  }

  struct Waiter {
    Condition* changed;
    Mutex* mutex;
    absl::Duration until;
  };

  Mutex mutex_;
  Condition registered_;
  absl::Duration now_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1000);
  std::list<Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
};

class SteppingClock final : public client::Clock {
 public:
  absl::Duration Now() override {
    const MutexLock lock(mutex_);
    return now_;
  }

  void Wait(Condition& changed, Mutex& mutex, absl::Duration until) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (until == absl::InfiniteDuration()) {
      changed.Wait(mutex);
      return;
    }
    const MutexLock own(mutex_);
    waits_.push_back(until - now_);
    now_ = std::max(now_, until);
  }

  std::vector<absl::Duration> Waits() {
    const MutexLock lock(mutex_);
    return waits_;
  }

 private:
  Mutex mutex_;
  absl::Duration now_ ABSL_GUARDED_BY(mutex_) = absl::Seconds(1000);
  std::vector<absl::Duration> waits_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stint::testing

#endif  // STINT_TESTS_UNIT_CLIENT_FAKE_CLOCK_H_
