// What must hold between the rows of a store, and between rows and memory. A full walk, for
// tests, the simulator and the store check; not for a busy broker.
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "storage/records.h"

namespace stint::engine {

using storage::Direction;
using storage::Family;
using storage::JobKey;

namespace {

absl::Status Broken(absl::string_view what, const JobKey& job) {
  return absl::InternalError(
      absl::StrCat(what, " (queue ", job.queue, ", sequence ", job.sequence, ")"));
}

absl::StatusOr<std::map<std::string, std::string>> AllRows(const storage::Store& store) {
  constexpr size_t kPage = 10'000;
  std::map<std::string, std::string> all;
  std::string next(1, static_cast<char>(storage::kShard));
  const std::string end(1, static_cast<char>(storage::kShard + 1));
  while (true) {
    auto rows = store.Scan(next, end, kPage, Direction::kForward);
    if (!rows.ok()) return rows.status();
    for (storage::Row& row : *rows) {
      next = row.key + '\0';
      all.emplace(std::move(row.key), std::move(row.value));
    }
    if (rows->size() < kPage) return all;
  }
}

// Compares counters as kept with counters as counted.
absl::Status CompareCounters(absl::string_view queue, const record::QueueCounters& kept,
                             const record::QueueCounters& counted) {
  const auto* descriptor = record::QueueCounters::descriptor();
  const auto* reflection = kept.GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    if (field->is_repeated() || field->name() == "grants") continue;
    const int64_t a = reflection->GetInt64(kept, field);
    const int64_t b = reflection->GetInt64(counted, field);
    if (a != b) {
      return absl::InternalError(
          absl::StrCat("queue ", queue, ": ", field->name(), " is kept as ", a, " and counts ", b));
    }
  }
  for (int p = 0; p <= kMaxPriority; ++p) {
    const int64_t a = p < kept.ready_by_priority_size() ? kept.ready_by_priority(p) : 0;
    const int64_t b = p < counted.ready_by_priority_size() ? counted.ready_by_priority(p) : 0;
    if (a != b) {
      return absl::InternalError(absl::StrCat("queue ", queue, ": ready in priority ", p,
                                              " is kept as ", a, " and counts ", b));
    }
  }
  return absl::OkStatus();
}

void CountJob(const record::JobRecord& record, const record::JobState& state,
              record::QueueCounters* c) {
  while (c->ready_by_priority_size() <= kMaxPriority) c->add_ready_by_priority(0);
  const int64_t size = record.size_bytes();
  switch (static_cast<JobState>(state.state())) {
    case JobState::kReady:
      c->set_ready(c->ready() + 1);
      c->set_ready_by_priority(state.priority(), c->ready_by_priority(state.priority()) + 1);
      c->set_waiting_bytes(c->waiting_bytes() + size);
      break;
    case JobState::kDelayed:
      c->set_delayed(c->delayed() + 1);
      c->set_waiting_bytes(c->waiting_bytes() + size);
      break;
    case JobState::kHeld:
      c->set_held(c->held() + 1);
      c->set_waiting_bytes(c->waiting_bytes() + size);
      break;
    case JobState::kLeased:
      c->set_leased(c->leased() + 1);
      c->set_leased_bytes(c->leased_bytes() + size);
      break;
    case JobState::kCompleted:
      c->set_completed(c->completed() + 1);
      c->set_finished_bytes(c->finished_bytes() + size + state.result_bytes());
      break;
    case JobState::kCancelled:
      c->set_cancelled(c->cancelled() + 1);
      c->set_finished_bytes(c->finished_bytes() + size + state.result_bytes());
      break;
    case JobState::kDead:
      c->set_dead(c->dead() + 1);
      c->set_dead_bytes(c->dead_bytes() + size + state.result_bytes());
      break;
  }
}

bool IsJobIndex(Family family) {
  return family == Family::kReady || family == Family::kDue || family == Family::kDueWall ||
         family == Family::kExpiry || family == Family::kExpiryWall || family == Family::kEnded;
}

}  // namespace

// What a walk over the rows has found out so far.
struct Engine::Walk {
  std::map<std::string, std::string> rows;
  std::map<uint32_t, record::QueueCounters> counted;
  std::map<std::string, std::string> expected_index;
  // Index rows of purged jobs go in steps.
  std::set<std::string> stale_index;
  size_t leased = 0;
  // Ready jobs that the windows in memory should hold.
  size_t covered_ready = 0;

  bool Has(Family family, const JobKey& job) const {
    return rows.find(storage::JobRowKey(family, job)) != rows.end();
  }
};

absl::Status Engine::CheckJob(const JobKey& job, const std::string& value, Walk* walk) const {
  record::JobRecord record;
  if (!record.ParseFromString(value)) return Broken("record cannot be read", job);
  const auto queue = queue_ids_.find(job.queue);
  if (queue == queue_ids_.end()) return Broken("job of no queue", job);
  if (job.sequence >= next_sequence_) return Broken("sequence from the future", job);
  const auto state_row = walk->rows.find(storage::JobRowKey(Family::kState, job));
  const auto lease_row = walk->rows.find(storage::JobRowKey(Family::kLease, job));
  const bool has_state = state_row != walk->rows.end();
  const bool has_lease = lease_row != walk->rows.end();
  if (has_state && has_lease) return Broken("two states", job);
  record::JobState state = storage::FreshState(record, job.sequence);
  if (has_state && !state.ParseFromString(state_row->second)) {
    return Broken("state cannot be read", job);
  }
  if (has_lease && !state.ParseFromString(lease_row->second)) {
    return Broken("lease cannot be read", job);
  }
  if (has_lease != (state.state() == storage::kStateLeased)) {
    return Broken("lease row and state disagree", job);
  }
  if (record.payload_apart() != walk->Has(Family::kPayload, job)) {
    return Broken("payload row and record disagree", job);
  }
  if (state.has_result() != walk->Has(Family::kResult, job)) {
    return Broken("result row and state disagree", job);
  }
  if (!record.job_id().empty()) {
    const auto id = walk->rows.find(storage::JobIdKey(job.queue, record.job_id()));
    if (id == walk->rows.end() || id->second != storage::EncodeNumber(job.sequence)) {
      return Broken("own id does not lead to the job", job);
    }
  }
  const bool purged = storage::IsPurged(state, queue->second->record);
  for (storage::Row& row : storage::IndexRows(job, record, state)) {
    if (purged) {
      walk->stale_index.insert(std::move(row.key));
    } else {
      walk->expected_index.emplace(std::move(row.key), std::move(row.value));
    }
  }
  if (purged) return absl::OkStatus();
  CountJob(record, state, &walk->counted[job.queue]);
  if (state.state() == storage::kStateLeased) ++walk->leased;
  return CheckMemoryOf(job, *queue->second, record, state, walk);
}

absl::Status Engine::CheckMemoryOf(const JobKey& job, const QueueState& queue,
                                   const record::JobRecord& record, const record::JobState& state,
                                   Walk* walk) const {
  if (storage::IsEnded(state.state()) && state.owner_token() != 0) {
    return Broken("ended job with an owner", job);
  }
  if (state.state() == storage::kStateLeased) {
    const Lease* lease = leases_.Find(job);
    if (lease == nullptr) return Broken("lease is not in memory", job);
    if (lease->state.SerializeAsString() != state.SerializeAsString()) {
      return Broken("lease in memory differs from its row", job);
    }
    if (state.owner_token() == 0 || state.owner_token() > last_token_) {
      return Broken("lease with a token never given", job);
    }
  }
  if (state.state() == storage::kStateReady) {
    const ReadyWindow& window = queue.windows[static_cast<size_t>(state.priority())];
    const ReadyWindow::Place place{state.ready_ms(), job.sequence};
    const bool covered = window.at_tail() || place < window.covered_to();
    if (covered != window.entries().contains(place)) {
      return Broken("ready order in memory differs from the index", job);
    }
    walk->covered_ready += covered ? 1 : 0;
  }
  if (storage::IsWaiting(state.state()) && !state.started()) {
    if ((record.has_expiry_ms() && expiry_[0].next_ms > record.expiry_ms()) ||
        (record.has_expiry_wall_ms() && expiry_[1].next_ms > record.expiry_wall_ms())) {
      return Broken("expiry would be missed", job);
    }
  }
  if (state.state() == storage::kStateDelayed) {
    const bool wall = state.has_due_wall_ms();
    if (due_[wall ? 1 : 0].next_ms > (wall ? state.due_wall_ms() : state.due_ms())) {
      return Broken("due time would be missed", job);
    }
  }
  return absl::OkStatus();
}

absl::Status Engine::CheckIndexes(Walk* walk) const {
  for (const auto& [key, value] : walk->rows) {
    const auto family = storage::FamilyOf(key);
    if (!IsJobIndex(*family)) continue;
    const auto expected = walk->expected_index.find(key);
    if (expected != walk->expected_index.end()) {
      if (expected->second != value) {
        return absl::InternalError(
            absl::StrCat("index row differs: ", absl::BytesToHexString(key)));
      }
      walk->expected_index.erase(expected);
      continue;
    }
    record::IndexEntry entry;
    const bool time_index = *family != Family::kReady && *family != Family::kEnded;
    const bool of_deleted_queue =
        time_index && entry.ParseFromString(value) && !queue_ids_.contains(entry.queue());
    if (!of_deleted_queue && walk->stale_index.count(key) == 0) {
      return absl::InternalError(
          absl::StrCat("index row of no job: ", absl::BytesToHexString(key)));
    }
  }
  if (walk->expected_index.empty()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "index row is missing: ", absl::BytesToHexString(walk->expected_index.begin()->first)));
}

absl::Status Engine::CheckInvariants(const storage::Store& store) const {
  Walk walk;
  auto rows = AllRows(store);
  if (!rows.ok()) return rows.status();
  walk.rows = *std::move(rows);
  for (const auto& [key, value] : walk.rows) {
    const auto family = storage::FamilyOf(key);
    if (!family.has_value()) {
      return absl::InternalError(absl::StrCat("unknown key ", absl::BytesToHexString(key)));
    }
    if (*family != Family::kJob) continue;
    const auto job = storage::ParseJobRowKey(Family::kJob, key);
    if (!job.has_value()) return absl::InternalError("the key of a job cannot be read");
    if (absl::Status s = CheckJob(*job, value, &walk); !s.ok()) return s;
  }
  if (walk.leased != leases_.size()) {
    return absl::InternalError(
        absl::StrCat("memory has ", leases_.size(), " leases, the store ", walk.leased));
  }
  size_t in_windows = 0;
  for (const auto& [id, queue] : queue_ids_) {
    for (const ReadyWindow& window : queue->windows) in_windows += window.entries().size();
  }
  if (in_windows != walk.covered_ready) {
    return absl::InternalError(absl::StrCat("memory orders ", in_windows, " ready jobs, of which ",
                                            walk.covered_ready, " are in the store"));
  }
  if (timers_.size() > 3 * queue_ids_.size()) {
    return absl::InternalError(
        absl::StrCat(timers_.size(), " timers for ", queue_ids_.size(), " queues"));
  }
  if (absl::Status s = CheckIndexes(&walk); !s.ok()) return s;
  for (const auto& [id, queue] : queue_ids_) {
    if (absl::Status s = CompareCounters(queue->record.name(), queue->counters, walk.counted[id]);
        !s.ok()) {
      return s;
    }
  }
  return absl::OkStatus();
}

}  // namespace stint::engine
