// The only place that asks the machine for time; and broker time, which is made of it.
#ifndef STINT_SERVER_RUNTIME_CLOCK_H_
#define STINT_SERVER_RUNTIME_CLOCK_H_

#include <cstdint>
#include <string>

#include "storage/record.pb.h"

namespace stint::runtime {

// Milliseconds, of a machine. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Since the machine booted, suspension included; never goes back within a boot.
  virtual int64_t BootMs() const = 0;
  // The same finer, for measuring; as coarse as BootMs where nothing finer is to be had.
  virtual int64_t BootMicros() const { return BootMs() * 1000; }
  // Since 1970; may step either way.
  virtual int64_t WallMs() const = 0;
  // Names the boot that BootMs counts from.
  virtual std::string BootId() const = 0;

 protected:
  Clock() = default;
  Clock(const Clock&) = default;
  Clock& operator=(const Clock&) = default;
};

// CLOCK_BOOTTIME, CLOCK_REALTIME and the kernel's boot id.
const Clock& SystemClock();

// Milliseconds that never go back, restarts and reboots included. It begins as the wall clock
// of the store's first start and advances with BootMs. Used by one thread.
class BrokerTime {
 public:
  explicit BrokerTime(const Clock* clock) : clock_(clock) {}

  // Goes on from the last group in the store: by the exact difference within the same boot,
  // else by what the wall clock says, but never back. An empty record starts afresh.
  void Start(const record::GroupRecord& last);
  int64_t NowMs();

 private:
  const Clock* clock_;
  int64_t offset_ms_ = 0;  // broker time − BootMs
  int64_t last_ms_ = 0;
};

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_CLOCK_H_
