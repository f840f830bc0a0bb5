// Start-up: memory from rows. Reads queues, leases, removed settles and the heads of the
// time indexes; never the backlog.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "server/engine/policy.h"
#include "storage/records.h"

namespace stint::engine {

using storage::Direction;
using storage::EndedClass;
using storage::Family;

namespace {

constexpr size_t kPage = 1000;

absl::Status Corrupt(absl::string_view what) {
  return absl::DataLossError(absl::StrCat(
      "CORRUPT_RECORD: ", what,
      " cannot be read; restore a checkpoint, or ask for help before changing the data folder"));
}

// Numbers that were given out are above the counter they come from: a part of the store is
// older than the rest, and new jobs would take the places of old ones.
absl::Status Disagrees(absl::string_view queue) {
  return absl::DataLossError(
      absl::StrCat("CORRUPT_RECORD: queue ", queue,
                   " holds jobs newer than the group row, so a "
                   "part of the store is older than the rest; restore a checkpoint, or ask for "
                   "help before changing the data folder"));
}

// Calls `visit` for each row of a family, in order.
template <typename Visit>
absl::Status ForEachRow(const storage::Store& store, Family family, Visit visit) {
  std::string next = storage::FamilyBegin(family);
  const std::string end = storage::FamilyEnd(family);
  while (true) {
    auto rows = store.Scan(next, end, kPage, Direction::kForward);
    if (!rows.ok()) return rows.status();
    for (const storage::Row& row : *rows) {
      if (absl::Status s = visit(row); !s.ok()) return s;
    }
    if (rows->size() < kPage) return absl::OkStatus();
    next = rows->back().key + '\0';
  }
}

}  // namespace

absl::Status Engine::Load(const storage::Store& store, const Now& now) {
  tables_.rows().Reset();
  queue_ids_.clear();
  queues_.clear();
  leases_.Clear();
  due_ = {};
  expiry_ = {};
  timers_ = {};
  purging_.clear();
  changed_queues_.clear();
  claimed_.clear();
  woken_.clear();
  ended_.clear();
  effects_ = {};
  effects_.loaded = true;
  verdicts_.clear();
  loaded_group_.Clear();

  auto group = store.MultiGet({storage::MetaKey(storage::kGroupRow)});
  if (!group.ok()) return group.status();
  if (group->front().has_value() && !loaded_group_.ParseFromString(*group->front())) {
    return Corrupt("the group row");
  }
  next_sequence_ = std::max<uint64_t>(1, loaded_group_.next_sequence());
  next_queue_ = std::max<uint32_t>(1, loaded_group_.next_queue());
  // A token is never issued twice, not even by a restored or copied store: each opening
  // starts above everything before it, and above the wall clock in microseconds, which stays
  // exact in JavaScript until the year 2255.
  last_token_ = std::max(loaded_group_.last_token(), now.wall_ms * 1000);
  requests_.Load(loaded_group_, now.broker_ms);
  if (absl::Status s = removed_.Load(store, now.broker_ms); !s.ok()) return s;
  if (absl::Status s = LoadQueues(store, now); !s.ok()) return s;
  if (absl::Status s = LoadLeases(store, now); !s.ok()) return s;
  return LoadTimes(store);
}

absl::Status Engine::LoadQueues(const storage::Store& store, const Now& now) {
  absl::Status loaded = ForEachRow(store, Family::kQueue, [&](const storage::Row& row) {
    auto queue = std::make_unique<QueueState>();
    const auto id = storage::ParseQueueKey(Family::kQueue, row.key);
    if (!id.has_value() || !queue->record.ParseFromString(row.value)) {
      return Corrupt("a queue");
    }
    queue->id = *id;
    queue->windows.fill(ReadyWindow::Unread());
    const std::string name = queue->record.name();
    const auto [entry, fresh] = queues_.try_emplace(name, std::move(queue));
    if (!fresh) return Corrupt(absl::StrCat("queue ", name, ", of which there are two,"));
    queue_ids_[*id] = entry->second.get();
    return absl::OkStatus();
  });
  if (!loaded.ok()) return loaded;
  loaded = ForEachRow(store, Family::kCounters, [&](const storage::Row& row) {
    const auto id = storage::ParseQueueKey(Family::kCounters, row.key);
    QueueState* queue = id.has_value() ? FindQueue(*id) : nullptr;
    if (queue == nullptr || !queue->counters.ParseFromString(row.value)) {
      return Corrupt("the counters of a queue");
    }
    return absl::OkStatus();
  });
  if (!loaded.ok()) return loaded;
  for (const auto& [id, queue] : queue_ids_) {
    NoteDepths(queue);
    const record::QueueCounters& c = queue->counters;
    if (IsEmpty(c) && queue->record.purge_cursor() == 0) {
      NoteEmpty(queue, now);
      continue;
    }
    auto newest = store.Scan(storage::QueueRangeBegin(Family::kJob, id),
                             storage::QueueRangeEnd(Family::kJob, id), 1, Direction::kBackward);
    if (!newest.ok()) return newest.status();
    for (const storage::Row& row : *newest) {
      const auto job = storage::ParseJobRowKey(Family::kJob, row.key);
      if (!job.has_value()) return Corrupt("the key of a job");
      if (job->sequence >= next_sequence_) return Disagrees(queue->record.name());
    }
    if (queue->record.purge_cursor() != 0) purging_.insert(id);
    if (c.completed() + c.cancelled() > 0) {
      ScheduleRetention(queue, EndedClass::kFinished, now.broker_ms);
    }
    if (c.dead() > 0) ScheduleRetention(queue, EndedClass::kDead, now.broker_ms);
  }
  return absl::OkStatus();
}

absl::Status Engine::LoadLeases(const storage::Store& store, const Now& now) {
  return ForEachRow(store, Family::kLease, [&](const storage::Row& row) {
    Lease lease;
    const auto job = storage::ParseJobRowKey(Family::kLease, row.key);
    if (!job.has_value() || !lease.state.ParseFromString(row.value) ||
        FindQueue(job->queue) == nullptr || lease.state.lease_duration_ms() < 0 ||
        lease.state.lease_duration_ms() > kMaxLeaseMs) {
      return Corrupt("a lease");
    }
    if (lease.state.owner_token() > loaded_group_.last_token()) {
      return Disagrees(FindQueue(job->queue)->record.name());
    }
    lease.deadline_ms =
        now.broker_ms + std::max(lease.state.lease_duration_ms(), options_.restart_grace_ms);
    lease.request_hash = lease.state.lease_request();
    leases_.Put(*job, std::move(lease));
    return absl::OkStatus();
  });
}

absl::Status Engine::LoadTimes(const storage::Store& store) {
  for (const bool wall : {false, true}) {
    const Family due = wall ? Family::kDueWall : Family::kDue;
    auto head =
        store.Scan(storage::FamilyBegin(due), storage::FamilyEnd(due), 1, Direction::kForward);
    if (!head.ok()) return head.status();
    if (!head->empty()) {
      const auto key = storage::ParseDueRowKey(due, head->front().key);
      if (!key.has_value()) return Corrupt("a due time");
      due_[wall ? 1 : 0].next_ms = key->due_ms;
    }
    const Family expiry = wall ? Family::kExpiryWall : Family::kExpiry;
    head = store.Scan(storage::FamilyBegin(expiry), storage::FamilyEnd(expiry), 1,
                      Direction::kForward);
    if (!head.ok()) return head.status();
    if (!head->empty()) {
      const auto key = storage::ParseExpiryRowKey(expiry, head->front().key);
      if (!key.has_value()) return Corrupt("an expiry");
      expiry_[wall ? 1 : 0].next_ms = key->expiry_ms;
    }
  }
  return absl::OkStatus();
}

}  // namespace stint::engine
