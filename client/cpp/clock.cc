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

  void Wait(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
            absl::Duration until) override {
    if (until == absl::InfiniteDuration()) {
      changed.wait(lock);
      return;
    }
    const absl::Duration rest = std::min(until - Now(), kLongestWait);
    if (rest > absl::ZeroDuration()) changed.wait_for(lock, absl::ToChronoNanoseconds(rest));
  }
};

}  // namespace

Clock* Clock::System() {
  static SystemClock clock;
  return &clock;
}

}  // namespace stint::client
