// Reads for people: one job, a page of jobs, a page of queues, straight from the store's
// stable view, beside the thread of decisions. What they return was durable when they read
// it. Thread-safe.
#ifndef STINT_STORAGE_READER_H_
#define STINT_STORAGE_READER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/keys.h"
#include "storage/record.pb.h"
#include "storage/store.h"

namespace stint::storage {

// A job with all its rows. `record.payload` is filled in also when it has a row of its own,
// if `with_payload` was asked.
struct StoredJob {
  JobKey key;
  std::string job_id;
  record::JobRecord record;
  record::JobState state;
  std::string result;
};

struct JobPage {
  std::vector<StoredJob> jobs;
  // Sequence to go on from; 0: the end was reached.
  uint64_t next_sequence = 0;
};

struct StoredQueue {
  uint32_t id = 0;
  record::QueueRecord record;
  record::QueueCounters counters;
};

struct QueuePage {
  std::vector<StoredQueue> queues;
  // Name to go on after; empty: the end was reached.
  std::string next_name;
};

class Reader {
 public:
  explicit Reader(const Store* store) : store_(store) {}

  // nullopt: there is no such queue.
  absl::StatusOr<std::optional<StoredQueue>> FindQueue(absl::string_view name) const;

  // nullopt: there is no such job, or it is purged.
  absl::StatusOr<std::optional<StoredJob>> FindJob(const StoredQueue& queue,
                                                   absl::string_view job_id,
                                                   bool with_payload) const;

  // The number of the last state change: every job has entered its state at or under it.
  absl::StatusOr<uint64_t> LastChange() const;

  // Jobs of `queue` with sequence >= `from` that `matches` accepts, in order of sequence: at
  // most `limit`, looking at no more than `max_examined` rows. Payloads apart and results are
  // read for the jobs returned when `with_payload`.
  absl::StatusOr<JobPage> ListJobs(const StoredQueue& queue, uint64_t from, size_t limit,
                                   size_t max_examined, bool with_payload,
                                   const std::function<bool(const StoredJob&)>& matches) const;

  // Queues whose name is > `after` and begins with `prefix`, by name.
  absl::StatusOr<QueuePage> ListQueues(absl::string_view prefix, absl::string_view after,
                                       size_t limit) const;

 private:
  const Store* store_;
};

}  // namespace stint::storage

#endif  // STINT_STORAGE_READER_H_
