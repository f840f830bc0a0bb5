// EnqueueJob and BatchEnqueueJobs: all of the jobs or none.
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "server/engine/error.h"
#include "server/engine/refusals.h"
#include "storage/job_id.h"
#include "storage/records.h"

namespace stint::engine {

using storage::JobKey;
using storage::Read;

namespace {

// Bytes a job counts for beside its payload and texts: keys, numbers, index rows.
constexpr int64_t kOverheadBytes = 64;

int64_t SizeOf(const record::JobRecord& record) {
  size_t bytes = record.payload().size() + record.kind().size() + record.content_type().size() +
                 record.job_id().size();
  for (const auto& [key, value] : record.headers()) bytes += key.size() + value.size();
  for (const auto& [key, value] : record.labels()) bytes += key.size() + value.size();
  return kOverheadBytes + static_cast<int64_t>(bytes);
}

// The state of a job as it enters its queue.
record::JobState FirstState(const NewJob& job, const record::JobRecord& record, uint64_t sequence,
                            const Now& now) {
  record::JobState state = storage::FreshState(record, sequence);
  if (job.due_wall_ms.has_value() && *job.due_wall_ms > now.wall_ms) {
    state.set_state(storage::kStateDelayed);
    state.set_due_wall_ms(*job.due_wall_ms);
  } else if (job.delay_ms.value_or(0) > 0) {
    state.set_state(storage::kStateDelayed);
    state.set_due_ms(now.broker_ms + *job.delay_ms);
    state.set_ready_ms(state.due_ms());
  }
  return state;
}

}  // namespace

absl::Status Engine::CheckRoom(const QueueState& queue, int64_t jobs, int64_t bytes) const {
  const record::QueueSettings& settings = queue.record.settings();
  const record::QueueCounters& c = queue.counters;
  const int64_t live = c.ready() + c.delayed() + c.held() + c.leased();
  if (settings.has_max_jobs() && live + jobs > settings.max_jobs()) {
    return QueueFull(queue.record.name(), "jobs", settings.max_jobs());
  }
  if (settings.has_max_bytes() &&
      c.waiting_bytes() + c.leased_bytes() + bytes > settings.max_bytes()) {
    return QueueFull(queue.record.name(), "bytes", settings.max_bytes());
  }
  return absl::OkStatus();
}

std::optional<Result> Engine::CheckOwnIds(const EnqueueCommand& command, QueueState* queue,
                                          std::vector<JobRow>* purged) {
  Reads reads;
  absl::flat_hash_set<absl::string_view> own_ids;
  std::string unreadable;  // the first
  for (const NewJob& job : command.jobs) {
    const std::string& job_id = job.record.job_id();
    if (job_id.empty()) continue;
    if (!own_ids.insert(job_id).second) {
      return Result::Refused(JobExists({command.queue, job_id}));
    }
    if (queue == nullptr) continue;
    JobKey key{queue->id, 0};
    const Read found = reads.Add(tables_.Sequence(queue->id, job_id, &key.sequence));
    if (reads.corrupt && unreadable.empty()) unreadable = job_id;
    if (found != Read::kFound) continue;
    JobRow row;
    row.key = key;
    const bool leased = leases_.Find(key) != nullptr;
    const Read record = reads.Add(tables_.JobRecord(key, &row.record));
    const Read state = leased ? Read::kFound : reads.Add(tables_.JobState(key, &row.state));
    if (reads.corrupt && unreadable.empty()) unreadable = job_id;
    if (reads.unknown || reads.corrupt || record == Read::kAbsent) continue;
    if (state == Read::kAbsent) row.state = storage::FreshState(row.record, key.sequence);
    if (leased || !storage::IsPurged(row.state, queue->record)) {
      return Result::Refused(JobExists({command.queue, job_id}));
    }
    purged->push_back(std::move(row));
  }
  if (reads.unknown) return Result::NeedsRows();
  if (!unreadable.empty()) return Result::Refused(JobUnreadable({command.queue, unreadable}));
  return std::nullopt;
}

Result Engine::Handle(const EnqueueCommand& command, const Now& now) {
  if (auto repeated = Repeated(command.request)) return *std::move(repeated);
  if (low_space_) return Result::Refused(LowSpace());
  QueueState* queue = FindQueue(command.queue);
  if (queue == nullptr && queues_.size() >= kMaxQueues) return Result::Refused(TooManyQueues());
  if (queue != nullptr && queue->record.draining()) {
    return Result::Refused(
        MakeError(Reason::kQueueDraining,
                  absl::StrCat("queue ", command.queue, " is draining and takes no new jobs"),
                  {{"queue", command.queue}}));
  }
  std::vector<JobRow> purged;
  if (auto answer = CheckOwnIds(command, queue, &purged)) return *std::move(answer);
  int64_t bytes = 0;
  for (const NewJob& job : command.jobs) bytes += SizeOf(job.record);
  if (queue != nullptr) {
    absl::Status room = CheckRoom(*queue, static_cast<int64_t>(command.jobs.size()), bytes);
    if (!room.ok()) return Result::Refused(std::move(room));
  }

  if (queue == nullptr) queue = AddQueue(command.queue, true, now);
  for (const JobRow& row : purged) tables_.RemoveJob(row.key, row.record, row.state);
  Note(*queue, JobEvent::kEnqueued, static_cast<int64_t>(command.jobs.size()));
  EnqueueReply reply;
  reply.queue = command.queue;
  reply.jobs.reserve(command.jobs.size());
  for (const NewJob& job : command.jobs) {
    JobRow row;
    row.key = {queue->id, NextSequence()};
    row.record = job.record;
    std::string payload = std::move(*row.record.mutable_payload());
    row.record.clear_payload();
    row.record.set_create_ms(now.broker_ms);
    row.record.set_create_wall_ms(now.wall_ms);
    row.record.set_size_bytes(SizeOf(job.record));
    if (job.expire_after_ms.has_value()) {
      row.record.set_expiry_ms(now.broker_ms + *job.expire_after_ms);
    }
    row.state = FirstState(job, row.record, row.key.sequence, now);
    reply.jobs.push_back(
        {row.record.job_id().empty() ? storage::MakeJobId(row.key.sequence) : row.record.job_id(),
         static_cast<JobState>(row.state.state())});
    Insert(queue, std::move(row), std::move(payload));
  }
  requests_.Remember(&tables_, command.request, reply, now.broker_ms);
  return Result::Done(std::move(reply));
}

}  // namespace stint::engine
