// Changes to many jobs that a read beside the thread of decisions has found.
#include <optional>
#include <utility>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/job_state.h"
#include "server/engine/refusals.h"
#include "storage/job_id.h"
#include "storage/records.h"

namespace stint::engine {

using storage::Read;
using Operation = BatchCommand::Operation;

namespace {

bool Concerns(const BatchCommand& command, const record::JobState& state) {
  if (state.entered() > command.bound) return false;
  const auto current = static_cast<JobState>(state.state());
  switch (command.operation) {
    case Operation::kCancel:
      return Allows(current, Event::kCancel);
    case Operation::kRedrive:
      return Allows(current, Event::kRedrive);
    case Operation::kDelete:
      break;
  }
  return current != JobState::kLeased || command.force;
}

}  // namespace

void Engine::Change(Operation operation, QueueState* queue, JobRow* row, const Now& now) {
  switch (operation) {
    case Operation::kCancel:
      Cancel(queue, row, now);
      return;
    case Operation::kRedrive:
      Redrive(queue, row, now);
      return;
    case Operation::kDelete:
      Delete(queue, *row, now);
      return;
  }
}

Result Engine::Handle(const BatchCommand& command, const Now& now) {
  if (auto repeated = Repeated(command.request)) return *std::move(repeated);
  if (!command.refusal.ok()) return Result::Refused(command.refusal);
  QueueState* queue = FindQueue(command.queue);
  // A queue of that name made since is another one.
  if (queue == nullptr || queue->id != command.queue_id) {
    return Result::Refused(QueueNotFound(command.queue));
  }
  const bool adds = command.operation == Operation::kRedrive && !command.dry_run;
  if (adds && low_space_) return Result::Refused(LowSpace());
  Reads reads;
  absl::Status unreadable;
  // nullopt: gone.
  std::vector<std::optional<JobRow>> jobs;
  for (const uint64_t sequence : command.sequences) {
    JobRow row;
    const Read read = reads.Add(ReadJob(*queue, {queue->id, sequence}, &row));
    if (read == Read::kCorrupt) {
      unreadable.Update(JobUnreadable({command.queue, storage::MakeJobId(sequence)}));
    }
    jobs.push_back(read == Read::kFound ? std::optional(std::move(row)) : std::nullopt);
  }
  if (reads.unknown) return Result::NeedsRows();
  if (!unreadable.ok()) return Result::Refused(unreadable);

  BatchReply reply{0, 0, 0, command.queue_id, command.bound, command.next_sequence};
  for (std::optional<JobRow>& job : jobs) {
    if (!job.has_value() || !Concerns(command, job->state)) {
      ++reply.moved;
      continue;
    }
    if (command.operation == Operation::kCancel && job->state.cancel_requested()) {
      ++reply.cancelling;
      continue;
    }
    if (adds) {
      absl::Status room = CheckRoom(*queue, 1, job->record.size_bytes());
      if (!room.ok()) {
        // The next step begins here, and is refused if there still is no room.
        if (reply.changed == 0) return Result::Refused(std::move(room));
        reply.next_sequence = job->key.sequence;
        break;
      }
    }
    ++reply.changed;
    if (!command.dry_run) Change(command.operation, queue, &*job, now);
  }
  requests_.Remember(&tables_, command.request, reply, now.broker_ms);
  return Result::Done(reply);
}

}  // namespace stint::engine
