#include "client/cpp/proto_time.h"

#include <algorithm>
#include <cstdint>

namespace stint::client {
namespace {

// The ranges that the well-known types document.
constexpr int64_t kMaxDurationSeconds = 315'576'000'000;
constexpr int64_t kMinTimestampSeconds = -62'135'596'800;
constexpr int64_t kMaxTimestampSeconds = 253'402'300'799;

}  // namespace

absl::Duration ToAbsl(const google::protobuf::Duration& duration) {
  return absl::Seconds(duration.seconds()) + absl::Nanoseconds(duration.nanos());
}

absl::Time ToAbsl(const google::protobuf::Timestamp& timestamp) {
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

google::protobuf::Duration ToProto(absl::Duration duration) {
  const absl::Duration limit = absl::Seconds(kMaxDurationSeconds);
  absl::Duration rest = std::clamp(duration, -limit, limit);
  google::protobuf::Duration proto;
  proto.set_seconds(absl::IDivDuration(rest, absl::Seconds(1), &rest));
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  return proto;
}

google::protobuf::Timestamp ToProto(absl::Time time) {
  const absl::Time clamped = std::clamp(time, absl::FromUnixSeconds(kMinTimestampSeconds),
                                        absl::FromUnixSeconds(kMaxTimestampSeconds));
  const int64_t seconds = absl::ToUnixSeconds(clamped);  // rounds towards the past
  google::protobuf::Timestamp proto;
  proto.set_seconds(seconds);
  proto.set_nanos(
      static_cast<int32_t>(absl::ToInt64Nanoseconds(clamped - absl::FromUnixSeconds(seconds))));
  return proto;
}

}  // namespace stint::client
