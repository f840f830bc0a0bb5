// The rules for single fields, each in one place, so that every call says the same about the
// same value. Each function adds to the violations what it finds and otherwise does nothing.
// Thread-safe: functions without state.
#ifndef STINT_SERVER_API_CHECKS_H_
#define STINT_SERVER_API_CHECKS_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "server/api/violations.h"

namespace stint::api {

// A required id of a queue.
void CheckId(absl::string_view field, absl::string_view id, Violations* violations);
// "" or an id.
void CheckOptionalId(absl::string_view field, absl::string_view id, Violations* violations);
// A required full name of a job.
void CheckJobName(absl::string_view field, absl::string_view name, Violations* violations);
// A required fencing token.
void CheckToken(absl::string_view field, int64_t token, Violations* violations);
void CheckRequestId(absl::string_view request_id, Violations* violations);
// A page size: 0 is the default, and more than the most is cut to it.
void CheckPageSize(int32_t page_size, Violations* violations);
void CheckBytes(absl::string_view field, size_t bytes, size_t max_bytes, Violations* violations);
// A number of items.
void CheckCount(absl::string_view field, size_t count, size_t min, size_t max,
                Violations* violations);
void CheckRange(absl::string_view field, int64_t value, int64_t min, int64_t max,
                Violations* violations);
void CheckRange(absl::string_view field, double value, double min, double max,
                Violations* violations);
void CheckDuration(absl::string_view field, const google::protobuf::Duration& duration,
                   int64_t min_ms, int64_t max_ms, Violations* violations);
// From year 1 to year 9999, as the well-known type says.
void CheckTimestamp(absl::string_view field, const google::protobuf::Timestamp& timestamp,
                    Violations* violations);

}  // namespace stint::api

#endif  // STINT_SERVER_API_CHECKS_H_
