#include "server/api/time_values.h"

#include <algorithm>

namespace stint::api {
namespace {

constexpr int64_t kMillisPerSecond = 1000;
constexpr int32_t kNanosPerMilli = 1'000'000;

int64_t MillisRoundedUp(int64_t seconds, int32_t nanos) {
  // Division rounds towards zero: up for negative nanos, down for positive ones.
  const int32_t up = nanos > 0 ? kNanosPerMilli - 1 : 0;
  return seconds * kMillisPerSecond + (nanos + up) / kNanosPerMilli;
}

}  // namespace

int64_t MillisOf(const google::protobuf::Duration& duration) {
  return MillisRoundedUp(duration.seconds(), duration.nanos());
}

int64_t MillisOf(const google::protobuf::Timestamp& timestamp) {
  return std::max<int64_t>(0, MillisRoundedUp(timestamp.seconds(), timestamp.nanos()));
}

google::protobuf::Duration DurationOfMillis(int64_t ms) {
  google::protobuf::Duration duration;
  duration.set_seconds(ms / kMillisPerSecond);
  duration.set_nanos(static_cast<int32_t>(ms % kMillisPerSecond) * kNanosPerMilli);
  return duration;
}

google::protobuf::Timestamp TimestampOfMillis(int64_t ms) {
  google::protobuf::Timestamp timestamp;
  int64_t seconds = ms / kMillisPerSecond;
  int64_t rest = ms % kMillisPerSecond;
  if (rest < 0) {
    rest += kMillisPerSecond;
    --seconds;
  }
  timestamp.set_seconds(seconds);
  timestamp.set_nanos(static_cast<int32_t>(rest) * kNanosPerMilli);
  return timestamp;
}

}  // namespace stint::api
