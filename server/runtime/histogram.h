// Counts of observations in fixed buckets, with whole numbers in whatever unit the bounds are.
// Plain values; not thread-safe.
#ifndef STINT_SERVER_RUNTIME_HISTOGRAM_H_
#define STINT_SERVER_RUNTIME_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace stint::runtime {

// Upper bounds, inclusive, in ascending order; at most Histogram::kMaxBounds.
using Bounds = absl::Span<const int64_t>;

// 5 ms to a day.
inline constexpr int64_t kJobTimeBoundsMs[] = {
    5,     10,     25,     50,     100,     250,       500,       1'000,     2'500,
    5'000, 10'000, 30'000, 60'000, 300'000, 1'800'000, 7'200'000, 86'400'000};
// 100 µs to 60 s, for calls and syncs.
inline constexpr int64_t kCallBoundsUs[] = {100,     250,       500,       1'000,      2'500,
                                            5'000,   10'000,    25'000,    50'000,     100'000,
                                            250'000, 1'000'000, 5'000'000, 20'000'000, 60'000'000};
inline constexpr int64_t kGroupOperationBounds[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
inline constexpr int64_t kGroupByteBounds[] = {256,      1 << 10,   4 << 10, 16 << 10,
                                               64 << 10, 256 << 10, 1 << 20, 4 << 20};

struct Histogram {
  static constexpr size_t kMaxBounds = 17;

  explicit Histogram(Bounds its_bounds) : bounds(its_bounds) {}

  void Add(int64_t value) {
    value = std::max<int64_t>(value, 0);
    sum += value;
    const auto at = std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
    ++counts[static_cast<size_t>(at)];
  }

  Bounds bounds;
  // One for each bound, and one for what is above all; not cumulative.
  std::array<uint64_t, kMaxBounds + 1> counts = {};
  int64_t sum = 0;
};
static_assert(std::size(kJobTimeBoundsMs) <= Histogram::kMaxBounds);

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_HISTOGRAM_H_
