// Names as callers write them: bare ids of queues, workers and jobs, and the full name of a
// job, `queues/{queue}/jobs/{job}`. The one place that knows the rule for ids: every call
// checks its names here. Thread-safe: functions without state.
#ifndef STINT_SERVER_API_NAMES_H_
#define STINT_SERVER_API_NAMES_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/engine/command.h"

namespace stint::api {

// What an id must be, for messages: "must be …".
inline constexpr absl::string_view kIdRule =
    "1 to 128 of A-Z a-z 0-9 . _ : -, the first a letter or digit";
inline constexpr absl::string_view kJobNameRule = "of the form queues/{queue}/jobs/{job}";

bool IsValidId(absl::string_view id);

// True if `prefix` could begin an id; so is "".
bool IsValidIdPrefix(absl::string_view prefix);

// nullopt: not the full name of a job.
std::optional<engine::JobRef> ParseJobName(absl::string_view name);

std::string QueueName(absl::string_view queue);
std::string WorkerName(absl::string_view worker);
std::string JobName(absl::string_view queue, absl::string_view job_id);

}  // namespace stint::api

#endif  // STINT_SERVER_API_NAMES_H_
