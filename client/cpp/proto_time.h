// Conversions between the API's well-known types and absl's durations and times.
// Values out of range become the nearest that can be said. Thread rule: no state.
#ifndef STINT_CLIENT_CPP_PROTO_TIME_H_
#define STINT_CLIENT_CPP_PROTO_TIME_H_

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace stint::client {

absl::Duration ToAbsl(const google::protobuf::Duration& duration);
absl::Time ToAbsl(const google::protobuf::Timestamp& timestamp);
google::protobuf::Duration ToProto(absl::Duration duration);
google::protobuf::Timestamp ToProto(absl::Time time);

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_PROTO_TIME_H_
