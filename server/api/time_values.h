// Durations and timestamps between the API's well-known types and whole milliseconds.
// A part of a millisecond counts as a whole one, so that nothing happens earlier than asked.
// Values must have been checked (checks.h). Thread-safe: functions without state.
#ifndef STINT_SERVER_API_TIME_VALUES_H_
#define STINT_SERVER_API_TIME_VALUES_H_

#include <cstdint>

#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace stint::api {

int64_t MillisOf(const google::protobuf::Duration& duration);
// Milliseconds since 1970; instants before 1970 give 0, which is as far in the past.
int64_t MillisOf(const google::protobuf::Timestamp& timestamp);

google::protobuf::Duration DurationOfMillis(int64_t ms);
google::protobuf::Timestamp TimestampOfMillis(int64_t ms);

}  // namespace stint::api

#endif  // STINT_SERVER_API_TIME_VALUES_H_
