// How long to wait before an unreachable or overloaded broker is tried again.
//
// The first wait is up to 100 ms, so that a broken connection is mended at once; later ones
// are random between 0.5 s and a bound that grows to 2 s, so that many clients of one broker
// do not come back together. Reset() after a success: a budget is for one outage.
//
// Thread rule: one thread.
#ifndef STINT_CLIENT_CPP_BACKOFF_H_
#define STINT_CLIENT_CPP_BACKOFF_H_

#include "absl/time/time.h"

namespace stint::client {

class Backoff {
 public:
  // The next wait, at least what the broker asked for, if it did (`asked`, zero if not).
  absl::Duration Next(absl::Duration asked = absl::ZeroDuration());
  void Reset() { failures_ = 0; }

 private:
  int failures_ = 0;  // since the last success
};

// Uniform in [low, high).
absl::Duration RandomBetween(absl::Duration low, absl::Duration high);

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_BACKOFF_H_
