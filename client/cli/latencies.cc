#include "client/cli/latencies.h"

#include <algorithm>
#include <cmath>

namespace stint::cli {
namespace {

constexpr double kStep = 1.02;

}  // namespace

void Latencies::Add(absl::Duration latency) {
  const double micros = std::max(1.0, absl::ToDoubleMicroseconds(latency));
  const auto bucket = static_cast<size_t>(std::ceil(std::log(micros) / std::log(kStep)));
  ++buckets_[std::min(bucket, kBuckets - 1)];
  ++count_;
  max_ = std::max(max_, latency);
}

void Latencies::Add(const Latencies& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  max_ = std::max(max_, other.max_);
}

absl::Duration Latencies::Quantile(double part) const {
  const auto wanted = static_cast<int64_t>(std::ceil(part * static_cast<double>(count_)));
  int64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= wanted && seen > 0) {
      return std::min(max_, absl::Microseconds(std::pow(kStep, static_cast<double>(i))));
    }
  }
  return max_;
}

}  // namespace stint::cli
