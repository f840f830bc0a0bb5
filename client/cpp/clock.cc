#include "client/cpp/clock.h"

#include <algorithm>
#include <ctime>

namespace stint::client {
namespace {

// One wait is never longer, so that a suspended machine notices what has passed.
constexpr absl::Duration kLongestWait = absl::Hours(1);

class SystemClock final : public Clock {
 public:
  absl::Duration Now() override {
    timespec now{};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return absl::DurationFromTimespec(now);
  }

  void Wait(Condition& changed, Mutex& mutex, absl::Duration until) override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (until == absl::InfiniteDuration()) {
      changed.Wait(mutex);
      return;
    }
    const absl::Duration rest = std::min(until - Now(), kLongestWait);
    if (rest > absl::ZeroDuration()) changed.WaitFor(mutex, absl::ToChronoNanoseconds(rest));
  }
};

}  // namespace

Clock* Clock::System() {
  static SystemClock clock;
  return &clock;
}

}  // namespace stint::client
