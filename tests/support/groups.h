// Groups as the layer above the store writes them: each with its number in the row "group" and
// in its mark, and a job that tells which group it came from.
// Threads: one.
#ifndef STINT_TESTS_SUPPORT_GROUPS_H_
#define STINT_TESTS_SUPPORT_GROUPS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/keys.h"
#include "storage/record.pb.h"
#include "storage/store.h"

namespace stint::test {

// What group number `group` writes, `synced_through` being durable when it was made.
inline storage::Batch GroupBatch(uint64_t group, uint64_t synced_through,
                                 const std::string& payload = "payload") {
  storage::Batch batch;
  batch.set_mark({group, synced_through});
  record::GroupRecord record;
  record.set_group(group);
  record.set_synced_through(synced_through);
  batch.Put(storage::MetaKey("group"), record.SerializeAsString());
  batch.Put(storage::JobRowKey(storage::Family::kJob, {1, group}), payload);
  batch.Put(storage::ReadyRowKey({1, 5, static_cast<int64_t>(group), group}), "");
  if (group > 10) {
    batch.Delete(storage::ReadyRowKey({1, 5, static_cast<int64_t>(group - 10), group - 10}));
  }
  return batch;
}

// Commits a group, without a sync.
inline absl::StatusOr<storage::Ticket> CommitGroup(storage::Store* store, uint64_t group,
                                                   uint64_t synced_through,
                                                   const std::string& payload = "payload") {
  return store->Commit(GroupBatch(group, synced_through, payload), store->epoch());
}

// Commits and syncs a group whose forerunner is durable.
inline absl::Status WriteGroup(storage::Store* store, uint64_t group,
                               const std::string& payload = "payload") {
  const auto ticket = CommitGroup(store, group, group - 1, payload);
  if (!ticket.ok()) return ticket.status();
  return store->Sync(*ticket);
}

// The last group in the store; 0: none.
inline uint64_t LastGroup(const storage::Store& store) {
  const auto rows = store.MultiGet({storage::MetaKey("group")});
  if (!rows.ok() || !rows->at(0)) return 0;
  record::GroupRecord record;
  return record.ParseFromString(*rows->at(0)) ? record.group() : 0;
}

// How many groups from 1 on, without a gap, have their job in the store.
inline uint64_t JobsWithoutGap(const storage::Store& store) {
  const auto rows =
      store.Scan(storage::FamilyBegin(storage::Family::kJob),
                 storage::FamilyEnd(storage::Family::kJob), SIZE_MAX, storage::Direction::kForward);
  uint64_t jobs = 0;
  if (!rows.ok()) return 0;
  for (const storage::Row& row : *rows) {
    if (row.key != storage::JobRowKey(storage::Family::kJob, {1, jobs + 1})) break;
    ++jobs;
  }
  return jobs;
}

}  // namespace stint::test

#endif  // STINT_TESTS_SUPPORT_GROUPS_H_
