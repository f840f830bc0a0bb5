// Whether the rows of a store fit together: every record can be read, each job has exactly one
// state, every index row has its job and every job its index rows, counters are what a count
// gives, numbers given out are below the counters they come from. FORMAT.md has the rules.
//
// How it is used: on a store at rest (nothing unsynced, nobody writing), as after opening a
// checkpoint; the engine's CheckInvariants uses it for its own memory as well. Walks all rows
// page by page: memory is bounded by the number of queues, not of jobs.
//
// What it does not do: repair, or look below rows (the store's own checksums do that).
//
// Threads: any, one walk each.
#ifndef STINT_STORAGE_FSCK_H_
#define STINT_STORAGE_FSCK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/keys.h"
#include "storage/record.pb.h"
#include "storage/store.h"

namespace stint::storage {

struct FsckOptions {
  // Findings kept; the others are only counted.
  size_t max_findings = 100;
  // Called for each job that exists: not for one that a purge has removed and whose rows are
  // still there. May be empty.
  std::function<void(const JobKey&, const record::JobRecord&, const record::JobState&)> on_job;
};

struct FsckFinding {
  // The row it is about, as hexadecimal digits; FORMAT.md draws keys.
  std::string key_hex;
  // What is wrong, for a person.
  std::string what;
};

struct FsckReport {
  std::vector<FsckFinding> findings;
  uint64_t finding_count = 0;
  uint64_t rows = 0;
  uint64_t jobs = 0;
  uint64_t leases = 0;
  // Of each queue, as the rows say and as counted from its jobs (without `grants`).
  struct Queue {
    record::QueueRecord record;
    record::QueueCounters kept;
    record::QueueCounters counted;
  };
  std::map<uint32_t, Queue> queues;
};

// An error means that the store could not be read, not that something was found.
absl::StatusOr<FsckReport> Fsck(const Store& store, const FsckOptions& options);

// The first field in which two counters differ, as "ready is kept as 3 and counts 2"; empty: none.
// `grants` is not compared: nothing is left to count it by.
std::string CountersDiffer(const record::QueueCounters& kept, const record::QueueCounters& counted);

}  // namespace stint::storage

#endif  // STINT_STORAGE_FSCK_H_
