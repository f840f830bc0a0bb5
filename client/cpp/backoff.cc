#include "client/cpp/backoff.h"

#include <algorithm>

#include "absl/random/random.h"

namespace stint::client {
namespace {

constexpr absl::Duration kFirstMost = absl::Milliseconds(100);
constexpr absl::Duration kLeast = absl::Milliseconds(500);
constexpr absl::Duration kMost = absl::Seconds(2);

}  // namespace

absl::Duration RandomBetween(absl::Duration low, absl::Duration high) {
  static thread_local absl::BitGen random;
  return low + absl::Uniform<double>(random, 0.0, 1.0) * (high - low);
}

absl::Duration Backoff::Next(absl::Duration asked) {
  ++failures_;
  absl::Duration wait;
  if (failures_ == 1) {
    wait = RandomBetween(absl::ZeroDuration(), kFirstMost);
  } else {
    wait = RandomBetween(kLeast, std::min(kMost, kLeast * failures_));
  }
  // Asked-for waits are spread as well: many clients hear the same figure at once.
  if (asked > absl::ZeroDuration()) wait = std::max(wait, RandomBetween(asked, asked * 1.25));
  return wait;
}

}  // namespace stint::client
