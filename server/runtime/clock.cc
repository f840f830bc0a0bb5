#include "server/runtime/clock.h"

#include <time.h>

#include <algorithm>
#include <fstream>

namespace stint::runtime {
namespace {

timespec Read(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return now;
}

int64_t ReadMs(clockid_t id) {
  const timespec now = Read(id);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

class MachineClock final : public Clock {
 public:
  MachineClock() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::getline(file, boot_id_);
  }
  int64_t BootMs() const override { return ReadMs(CLOCK_BOOTTIME); }
  int64_t BootMicros() const override {
    const timespec now = Read(CLOCK_BOOTTIME);
    return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
  }
  int64_t WallMs() const override { return ReadMs(CLOCK_REALTIME); }
  std::string BootId() const override { return boot_id_; }

 private:
  std::string boot_id_;
};

}  // namespace

const Clock& SystemClock() {
  static const MachineClock kClock;
  return kClock;
}

void BrokerTime::Start(const record::GroupRecord& last) {
  const int64_t boot_ms = clock_->BootMs();
  const int64_t wall_ms = clock_->WallMs();
  if (last.group() == 0) {
    last_ms_ = wall_ms;
  } else if (!last.boot_id().empty() && last.boot_id() == clock_->BootId() &&
             boot_ms >= last.boot_ms()) {
    last_ms_ = last.broker_ms() + (boot_ms - last.boot_ms());
  } else {
    last_ms_ = last.broker_ms() + std::max<int64_t>(0, wall_ms - last.wall_ms());
  }
  offset_ms_ = last_ms_ - boot_ms;
}

int64_t BrokerTime::NowMs() {
  last_ms_ = std::max(last_ms_, clock_->BootMs() + offset_ms_);
  return last_ms_;
}

}  // namespace stint::runtime
