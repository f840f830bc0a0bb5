#include "storage/records.h"

namespace stint::storage {
namespace {

std::string EntryValue(uint32_t queue, uint64_t entered) {
  record::IndexEntry entry;
  entry.set_queue(queue);
  entry.set_entered(entered);
  return entry.SerializeAsString();
}

}  // namespace

record::JobState FreshState(const record::JobRecord& record, uint64_t sequence) {
  record::JobState state;
  state.set_state(kStateReady);
  state.set_entered(sequence);
  state.set_priority(record.priority());
  state.set_ready_ms(record.create_ms());
  state.set_update_wall_ms(record.create_wall_ms());
  return state;
}

bool IsFresh(const record::JobState& state, uint64_t sequence) {
  return state.state() == kStateReady && state.entered() == sequence;
}

std::optional<Family> StateFamily(const record::JobState& state, uint64_t sequence) {
  if (state.state() == kStateLeased) return Family::kLease;
  if (IsFresh(state, sequence)) return std::nullopt;
  return Family::kState;
}

std::vector<Row> IndexRows(const JobKey& job, const record::JobRecord& record,
                           const record::JobState& state) {
  std::vector<Row> rows;
  const auto priority = static_cast<uint8_t>(state.priority());
  if (state.state() == kStateReady) {
    rows.push_back({ReadyRowKey({job.queue, priority, state.ready_ms(), job.sequence}),
                    IsFresh(state, job.sequence) ? "" : EntryValue(0, state.entered())});
  }
  if (state.state() == kStateDelayed) {
    const bool wall = state.has_due_wall_ms();
    const DueKey due{wall ? state.due_wall_ms() : state.due_ms(), priority, job.sequence};
    rows.push_back({DueRowKey(wall ? Family::kDueWall : Family::kDue, due),
                    EntryValue(job.queue, state.entered())});
  }
  if (IsWaiting(state.state()) && !state.started()) {
    if (record.has_expiry_ms()) {
      rows.push_back({ExpiryRowKey(Family::kExpiry, record.expiry_ms(), job.sequence),
                      EntryValue(job.queue, state.entered())});
    } else if (record.has_expiry_wall_ms()) {
      rows.push_back({ExpiryRowKey(Family::kExpiryWall, record.expiry_wall_ms(), job.sequence),
                      EntryValue(job.queue, state.entered())});
    }
  }
  if (IsEnded(state.state())) {
    rows.push_back(
        {EndedRowKey(job.queue,
                     state.state() == kStateDead ? EndedClass::kDead : EndedClass::kFinished,
                     state.end_ms(), job.sequence),
         ""});
  }
  return rows;
}

bool IsPurged(const record::JobState& state, const record::QueueRecord& queue) {
  return queue.purge_bound() != 0 && IsWaiting(state.state()) &&
         state.entered() <= queue.purge_bound();
}

}  // namespace stint::storage
