#include "server/engine/engine.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/engine/error.h"
#include "server/engine/policy.h"
#include "storage/job_id.h"
#include "storage/records.h"

namespace stint::engine {

using storage::JobKey;
using storage::Read;

Engine::Engine(const EngineOptions& options, storage::RowView* rows)
    : options_(options), tables_(rows), requests_(options.request_window_ms) {}

Engine::~Engine() = default;

void Engine::BeginPass() {
  for (QueueState* queue : claimed_) queue->claims = 0;
  claimed_.clear();
}

Result Engine::Apply(const Command& command, const Now& now) {
  return std::visit([this, &now](const auto& c) { return Handle(c, now); }, command);
}

std::vector<std::string> Engine::TakeWoken() {
  std::vector<std::string> woken(woken_.begin(), woken_.end());
  woken_.clear();
  return woken;
}

int64_t Engine::ReadyIn(absl::string_view queue) const {
  const QueueState* state = FindQueue(queue);
  return state == nullptr || state->record.paused() ? 0 : state->counters.ready();
}

int64_t Engine::UnclaimedIn(absl::string_view queue) const {
  const QueueState* state = FindQueue(queue);
  if (state == nullptr || state->record.paused()) return 0;
  return std::max<int64_t>(0, state->counters.ready() - static_cast<int64_t>(state->claims));
}

void Engine::Unwatch(const JobKey& job) {
  const auto it = watched_.find(job);
  if (it != watched_.end() && --it->second == 0) watched_.erase(it);
}

std::vector<EndedJob> Engine::TakeEnded() { return std::exchange(ended_, {}); }

std::vector<SessionVerdict> Engine::TakeVerdicts() { return std::exchange(verdicts_, {}); }

void Engine::ForgiveStall(int64_t gap_ms, const Now& now) {
  leases_.ForEach([&](const JobKey&, Lease& lease) {
    lease.deadline_ms += gap_ms;
    if (gap_ms > kLongStallMs) {
      lease.deadline_ms = std::max(
          lease.deadline_ms,
          now.broker_ms + std::max(lease.state.lease_duration_ms(), options_.restart_grace_ms));
    }
  });
}

void Engine::FinishGroup(const GroupStamp& stamp) {
  for (const uint32_t id : std::exchange(changed_queues_, {})) {
    QueueState* queue = FindQueue(id);
    if (queue == nullptr) continue;  // removed in the same group
    if (queue->counters_changed || !queue->told) NoteDepths(queue);
    if (queue->record_changed) tables_.PutQueue(id, queue->record);
    if (queue->counters_changed) tables_.PutCounters(id, queue->counters);
    queue->record_changed = queue->counters_changed = false;
  }
  removed_.FinishGroup(&tables_, stamp.mark.group, stamp.now.broker_ms);
  record::GroupRecord group;
  group.set_group(stamp.mark.group);
  group.set_synced_through(stamp.mark.synced_through);
  group.set_broker_ms(stamp.now.broker_ms);
  group.set_wall_ms(stamp.now.wall_ms);
  group.set_boot_ms(stamp.boot_ms);
  group.set_boot_id(stamp.boot_id);
  group.set_next_sequence(next_sequence_);
  group.set_next_queue(next_queue_);
  group.set_last_token(last_token_);
  requests_.Store(&group);
  tables_.PutGroup(group);
}

Engine::QueueState* Engine::FindQueue(absl::string_view name) {
  const auto it = queues_.find(name);
  return it == queues_.end() ? nullptr : it->second.get();
}

const Engine::QueueState* Engine::FindQueue(absl::string_view name) const {
  const auto it = queues_.find(name);
  return it == queues_.end() ? nullptr : it->second.get();
}

Engine::QueueState* Engine::FindQueue(uint32_t id) {
  const auto it = queue_ids_.find(id);
  return it == queue_ids_.end() ? nullptr : it->second;
}

Read Engine::ReadJob(const QueueState& queue, const JobKey& key, JobRow* row) {
  row->key = key;
  const Lease* lease = leases_.Find(key);
  // Both are asked for before either answer is used, so that one round fetches both.
  const Read record = tables_.JobRecord(key, &row->record);
  const Read state = lease != nullptr ? Read::kFound : tables_.JobState(key, &row->state);
  // The record alone tells that a job is gone: one that was leased when its rows were fetched
  // and then removed in the same group has no state row that anybody looked at.
  if (record == Read::kAbsent) return Read::kAbsent;
  if (record == Read::kUnknown || state == Read::kUnknown) return Read::kUnknown;
  if (record == Read::kCorrupt || state == Read::kCorrupt) return Read::kCorrupt;
  if (lease != nullptr) row->state = lease->state;
  if (state == Read::kAbsent) row->state = storage::FreshState(row->record, key.sequence);
  return storage::IsPurged(row->state, queue.record) ? Read::kAbsent : Read::kFound;
}

Read Engine::ResolveJob(const JobRef& ref, QueueState** queue, JobKey* key) {
  *queue = FindQueue(ref.queue);
  if (*queue == nullptr) return Read::kAbsent;
  key->queue = (*queue)->id;
  if (const auto sequence = storage::SequenceOfJobId(ref.job_id)) {
    key->sequence = *sequence;
    return Read::kFound;
  }
  return tables_.Sequence(key->queue, ref.job_id, &key->sequence);
}

Read Engine::FindJob(const JobRef& ref, QueueState** queue, JobRow* row) {
  JobKey key;
  if (const Read resolved = ResolveJob(ref, queue, &key); resolved != Read::kFound) {
    return resolved;
  }
  const Read read = ReadJob(**queue, key, row);
  // A job that has an id of its own is known by that alone.
  if (read == Read::kFound && !row->record.job_id().empty() && row->record.job_id() != ref.job_id) {
    return Read::kAbsent;
  }
  return read;
}

std::optional<Result> Engine::Repeated(const RequestKey& request) {
  ReplyBody answer;
  switch (requests_.Find(&tables_, request, &answer)) {
    case RequestMemory::Seen::kNew:
      return std::nullopt;
    case RequestMemory::Seen::kUnknown:
      return Result::NeedsRows();
    case RequestMemory::Seen::kRepeated:
      return Result::Done(std::move(answer));
    case RequestMemory::Seen::kReused:
      return Result::Refused(
          MakeError(Reason::kRequestIdReused,
                    absl::StrCat("request_id \"", request.request_id,
                                 "\" was used before for a call with other content; use a new "
                                 "one for a new call"),
                    {{"request_id", request.request_id}}));
    case RequestMemory::Seen::kCorrupt:
      break;
  }
  return Result::Refused(MakeError(Reason::kCorruptRecord, "a stored answer cannot be read"));
}

JobSnapshot Engine::Snapshot(const QueueState& queue, const JobRow& row) const {
  JobSnapshot snapshot;
  snapshot.queue = queue.record.name();
  snapshot.job_id =
      row.record.job_id().empty() ? storage::MakeJobId(row.key.sequence) : row.record.job_id();
  snapshot.record = row.record;
  snapshot.state = row.state;
  return snapshot;
}

}  // namespace stint::engine
