// Which jobs a request means: the filter of ListJobs and of the batch calls, which have the
// same fields. Thread-safe: functions without state.
#ifndef STINT_SERVER_API_JOB_FILTER_H_
#define STINT_SERVER_API_JOB_FILTER_H_

#include <algorithm>
#include <cstdint>

#include "server/api/time_values.h"
#include "storage/reader.h"

namespace stint::api {

// `Filter` is v1::ListJobsRequest or v1::JobFilter. Without states it takes every one.
template <typename Filter>
bool Matches(const Filter& filter, const storage::StoredJob& job) {
  const auto& states = filter.states();
  if (!states.empty() &&
      std::find(states.begin(), states.end(), job.state.state()) == states.end()) {
    return false;
  }
  if (filter.has_kind() && filter.kind() != job.record.kind()) return false;
  for (const auto& [key, value] : filter.labels()) {
    const auto label = job.record.labels().find(key);
    if (label == job.record.labels().end() || label->second != value) return false;
  }
  const int64_t created = job.record.create_wall_ms();
  if (filter.has_created_after() && created < MillisOf(filter.created_after())) return false;
  return !filter.has_created_before() || created < MillisOf(filter.created_before());
}

}  // namespace stint::api

#endif  // STINT_SERVER_API_JOB_FILTER_H_
