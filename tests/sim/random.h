// All chance of a simulation: a stream of numbers out of one seed. Equal seed, equal stream.
// Used by one thread.
#ifndef STINT_TESTS_SIM_RANDOM_H_
#define STINT_TESTS_SIM_RANDOM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "server/engine/policy.h"

namespace stint::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}

  uint64_t Next() { return engine::Mix(seed_, count_++); }
  // From 0 to n − 1.
  int64_t Below(int64_t n) { return static_cast<int64_t>(Next() % static_cast<uint64_t>(n)); }
  // Both ends included.
  int64_t Between(int64_t low, int64_t high) { return low + Below(high - low + 1); }
  // True in `in_1000` of 1000 cases.
  bool Chance(int in_1000) { return Below(1000) < in_1000; }
  template <typename T>
  const T& Pick(const std::vector<T>& of) {
    return of[static_cast<size_t>(Below(static_cast<int64_t>(of.size())))];
  }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_RANDOM_H_
