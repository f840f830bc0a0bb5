// How long calls took: a histogram with buckets 2 % apart, of fixed size however many are added.
// Thread rule: one thread.
#ifndef STINT_CLIENT_CLI_LATENCIES_H_
#define STINT_CLIENT_CLI_LATENCIES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace stint::cli {

class Latencies {
 public:
  void Add(absl::Duration latency);
  void Add(const Latencies& other);

  int64_t count() const { return count_; }
  absl::Duration max() const { return max_; }
  // The latency that this part of the calls (0 to 1) did not exceed, 2 % too high at most; zero
  // without calls.
  absl::Duration Quantile(double part) const;

 private:
  // From 1 µs to over 20 minutes; longer ones are in the last.
  static constexpr size_t kBuckets = 1060;

  std::array<int64_t, kBuckets> buckets_ = {};
  int64_t count_ = 0;
  absl::Duration max_;
};

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_LATENCIES_H_
