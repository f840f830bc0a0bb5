// What people write on the command line, made into what the API takes.
// Every function returns INVALID_ARGUMENT with a text for the person who wrote it.
// Thread rule: no state.
#ifndef STINT_CLIENT_CLI_ARGUMENTS_H_
#define STINT_CLIENT_CLI_ARGUMENTS_H_

#include <istream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/map.h"
#include "stint/v1/job.pb.h"

namespace stint::cli {

// `250ms`, `10s`, `1h30m`, `2d`; a bare number is refused, since its unit is a guess.
absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text);

// RFC 3339, such as `2026-05-01T10:00:00Z` or with `+02:00`.
absl::StatusOr<absl::Time> ParseTime(absl::string_view text);

// `queues/QUEUE/jobs/ID` or `QUEUE/ID`; returns the full name.
absl::StatusOr<std::string> ParseJobName(absl::string_view text);

// `READY`, `ready` or `dead`.
absl::StatusOr<v1::JobState> ParseState(absl::string_view text);

// Each `KEY=VALUE`; the value may be empty and may contain `=`.
absl::Status ParsePairs(const std::vector<std::string>& texts,
                        google::protobuf::Map<std::string, std::string>* pairs);

// `TEXT` stands for itself, `@FILE` for the file's bytes, `-` for all of `in`; `@@TEXT` is text
// that begins with `@`. At most 64 MiB; the broker's own limit is lower.
absl::StatusOr<std::string> ReadPayload(absl::string_view argument, std::istream& in);

// INVALID_ARGUMENT if `text` cannot be sent: protobuf strings are UTF-8.
absl::Status CheckText(absl::string_view what, absl::string_view text);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_ARGUMENTS_H_
