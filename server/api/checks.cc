#include "server/api/checks.h"

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/api/names.h"
#include "server/api/text.h"
#include "server/engine/limits.h"

namespace stint::api {
namespace {

constexpr int32_t kNanosPerSecond = 1'000'000'000;
// Limits of google.protobuf.Duration and google.protobuf.Timestamp.
constexpr int64_t kMaxDurationSeconds = 315'576'000'000;
constexpr int64_t kMinTimestampSeconds = -62'135'596'800;
constexpr int64_t kMaxTimestampSeconds = 253'402'300'799;

std::string Text(int64_t ms) { return absl::FormatDuration(absl::Milliseconds(ms)); }

}  // namespace

void CheckId(absl::string_view field, absl::string_view id, Violations* violations) {
  if (IsValidId(id)) return;
  violations->Add(field, id.empty() ? absl::StrCat("is required: ", kIdRule)
                                    : absl::StrCat("must be ", kIdRule, "; is ", Quote(id)));
}

void CheckOptionalId(absl::string_view field, absl::string_view id, Violations* violations) {
  if (!id.empty()) CheckId(field, id, violations);
}

void CheckJobName(absl::string_view field, absl::string_view name, Violations* violations) {
  if (ParseJobName(name).has_value()) return;
  violations->Add(field, name.empty()
                             ? absl::StrCat("is required: a name ", kJobNameRule)
                             : absl::StrCat("must be ", kJobNameRule, "; is ", Quote(name)));
}

void CheckToken(absl::string_view field, int64_t token, Violations* violations) {
  if (token <= 0) violations->Add(field, "is required: the token of the lease");
}

void CheckRequestId(absl::string_view request_id, Violations* violations) {
  CheckBytes("request_id", request_id.size(), engine::kMaxRequestIdBytes, violations);
}

void CheckPageSize(int32_t page_size, Violations* violations) {
  if (page_size >= 0) return;
  violations->Add("page_size",
                  absl::StrCat("must be 1 to ", engine::kMaxPageSize, ", is ", page_size));
}

void CheckBytes(absl::string_view field, size_t bytes, size_t max_bytes, Violations* violations) {
  if (bytes <= max_bytes) return;
  violations->Add(field, absl::StrCat("must be at most ", max_bytes, " bytes, has ", bytes));
}

void CheckCount(absl::string_view field, size_t count, size_t min, size_t max,
                Violations* violations) {
  if (count >= min && count <= max) return;
  violations->Add(field, absl::StrCat("must have ", min, " to ", max, " items, has ", count));
}

void CheckRange(absl::string_view field, int64_t value, int64_t min, int64_t max,
                Violations* violations) {
  if (value >= min && value <= max) return;
  violations->Add(field, absl::StrCat("must be ", min, " to ", max, ", is ", value));
}

void CheckRange(absl::string_view field, double value, double min, double max,
                Violations* violations) {
  // Written so that "not a number" is refused.
  if (value >= min && value <= max) return;
  violations->Add(field, absl::StrCat("must be ", min, " to ", max, ", is ", value));
}

void CheckDuration(absl::string_view field, const google::protobuf::Duration& duration,
                   int64_t min_ms, int64_t max_ms, Violations* violations) {
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  const bool well_formed = seconds >= -kMaxDurationSeconds && seconds <= kMaxDurationSeconds &&
                           nanos > -kNanosPerSecond && nanos < kNanosPerSecond &&
                           !(seconds > 0 && nanos < 0) && !(seconds < 0 && nanos > 0);
  if (!well_formed) {
    violations->Add(field, "is not a valid duration");
    return;
  }
  const absl::Duration value = absl::Seconds(seconds) + absl::Nanoseconds(nanos);
  if (value < absl::Milliseconds(min_ms) || value > absl::Milliseconds(max_ms)) {
    violations->Add(field, absl::StrCat("must be ", Text(min_ms), " to ", Text(max_ms), ", is ",
                                        absl::FormatDuration(value)));
  }
}

void CheckTimestamp(absl::string_view field, const google::protobuf::Timestamp& timestamp,
                    Violations* violations) {
  if (timestamp.seconds() < kMinTimestampSeconds || timestamp.seconds() > kMaxTimestampSeconds ||
      timestamp.nanos() < 0 || timestamp.nanos() >= kNanosPerSecond) {
    violations->Add(field, "is not a valid timestamp: year 1 to 9999, nanos 0 to 999999999");
  }
}

}  // namespace stint::api
