// What time makes due: lapses, revocations, due and expired jobs, retention, purge steps, old
// answers, forgotten queues. Every handler checks again that the world is still as it was.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/error.h"
#include "server/engine/job_state.h"
#include "server/engine/policy.h"
#include "server/engine/refusals.h"
#include "storage/job_id.h"
#include "storage/records.h"

namespace stint::engine {

using storage::EndedClass;
using storage::Family;
using storage::JobKey;
using storage::Read;

std::vector<Command> Engine::DueCommands(const Now& now, size_t limit, bool may_lapse) {
  std::vector<Command> due;
  if (may_lapse) {
    for (const JobKey& job : leases_.TakeDue(now.broker_ms, limit)) {
      const record::JobState& state = leases_.Find(job)->state;
      const int64_t token = state.owner_token();
      const bool revoke =
          (state.run_limit_at_ms() != 0 && state.run_limit_at_ms() <= now.broker_ms) ||
          (state.cancel_requested() && state.cancel_at_ms() <= now.broker_ms);
      if (revoke) {
        due.emplace_back(RevokeCommand{job, token});
      } else {
        due.emplace_back(LapseCommand{job, token});
      }
    }
  }
  if (due_[0].next_ms <= now.broker_ms) due.emplace_back(PromoteCommand{false});
  if (due_[1].next_ms <= now.wall_ms) due.emplace_back(PromoteCommand{true});
  if (expiry_[0].next_ms <= now.broker_ms) due.emplace_back(ExpireCommand{false});
  if (expiry_[1].next_ms <= now.wall_ms) due.emplace_back(ExpireCommand{true});
  std::vector<RetentionCommand> retention;
  while (!timers_.empty() && timers_.begin()->ms <= now.broker_ms && due.size() < limit &&
         retention.size() < kMaxRetentionSteps) {
    const Timer timer = *timers_.begin();
    timers_.erase(timers_.begin());
    QueueState* queue = FindQueue(timer.queue);
    if (timer.kind == Timer::Kind::kForget) {
      queue->forget_ms = INT64_MAX;
      due.emplace_back(ForgetQueueCommand{timer.queue});
    } else {
      queue->retention_ms[static_cast<size_t>(timer.ended)] = INT64_MAX;
      retention.push_back({timer.queue, timer.ended, 0});
    }
  }
  for (RetentionCommand& step : retention) {
    step.rows = kMaxRetentionRows / retention.size();
    due.emplace_back(step);
  }
  if (!purging_.empty()) due.emplace_back(PurgeStepCommand{*purging_.begin()});
  if (std::min(requests_.NextMs(), removed_.NextMs()) <= now.broker_ms) {
    due.emplace_back(DropBucketsCommand{});
  }
  return due;
}

int64_t Engine::NextDueMs(const Now& now) const {
  if (!purging_.empty()) return now.broker_ms;
  int64_t next = std::min({leases_.NextMs(), due_[0].next_ms, expiry_[0].next_ms,
                           requests_.NextMs(), removed_.NextMs()});
  for (const int64_t wall_ms : {due_[1].next_ms, expiry_[1].next_ms}) {
    if (wall_ms != INT64_MAX) next = std::min(next, now.broker_ms + (wall_ms - now.wall_ms));
  }
  if (!timers_.empty()) next = std::min(next, timers_.begin()->ms);
  return next;
}

Result Engine::Handle(const LapseCommand& command, const Now& now) {
  Lease* lease = leases_.Find(command.job);
  if (lease == nullptr || lease->state.owner_token() != command.token) {
    return Result::Done(EmptyReply{});
  }
  if (lease->deadline_ms > now.broker_ms) {  // renewed in the meantime
    leases_.Watch(command.job, lease->NextMs());
    return Result::Done(EmptyReply{});
  }
  QueueState* queue = FindQueue(command.job.queue);
  JobRow row;
  const Read read = ReadJob(*queue, command.job, &row);
  if (read == Read::kUnknown) return Result::NeedsRows();
  if (read != Read::kFound || !Allows(JobState::kLeased, Event::kLapse)) {
    return Result::Refused(
        JobUnreadable({queue->record.name(), storage::MakeJobId(command.job.sequence)}));
  }
  Note(*queue, lease->stream_lost ? JobEvent::kLapsedStreamLost : JobEvent::kLapsed);
  record::JobState after = row.state;
  AddAttempt(row.state, AttemptOutcome::kLeaseLapsed, "", now, &after);
  after.set_total_losses(after.total_losses() + 1);
  after.set_consecutive_losses(after.consecutive_losses() + 1);
  const record::QueueSettings& settings = queue->record.settings();
  if (!after.cancel_requested()) Note(*queue, JobEvent::kLoss);
  if (after.cancel_requested()) {
    End(queue, &row, std::move(after), EndReason::kCancelledByClient, "", now);
  } else if (after.consecutive_losses() >= MaxLosses(row.record, after, settings)) {
    End(queue, &row, std::move(after), EndReason::kLeasesLost, "", now);
  } else {
    // The owner's token stays in force until somebody takes the job.
    const int64_t delay = LossDelayMs(row.record, settings, after.consecutive_losses(),
                                      Mix(now.entropy, row.key.sequence));
    after.set_state(delay > 0 ? storage::kStateDelayed : storage::kStateReady);
    if (delay > 0) after.set_due_ms(now.broker_ms + delay);
    Move(queue, &row, std::move(after), now);
  }
  return Result::Done(EmptyReply{});
}

Result Engine::Handle(const RevokeCommand& command, const Now& now) {
  Lease* lease = leases_.Find(command.job);
  if (lease == nullptr || lease->state.owner_token() != command.token) {
    return Result::Done(EmptyReply{});
  }
  const bool run_limit =
      lease->state.run_limit_at_ms() != 0 && lease->state.run_limit_at_ms() <= now.broker_ms;
  const bool cancel =
      lease->state.cancel_requested() && lease->state.cancel_at_ms() <= now.broker_ms;
  if (!run_limit && !cancel) {
    leases_.Watch(command.job, lease->NextMs());
    return Result::Done(EmptyReply{});
  }
  QueueState* queue = FindQueue(command.job.queue);
  JobRow row;
  const Read read = ReadJob(*queue, command.job, &row);
  if (read == Read::kUnknown) return Result::NeedsRows();
  if (read != Read::kFound || !Allows(JobState::kLeased, Event::kRevoke)) {
    return Result::Refused(
        JobUnreadable({queue->record.name(), storage::MakeJobId(command.job.sequence)}));
  }
  record::JobState after = row.state;
  Note(*queue,
       lease->state.cancel_requested() ? JobEvent::kRevokedCancel : JobEvent::kRevokedRunLimit);
  Tell(*queue, row, lease->state.cancel_requested() ? LeaseStatus::kLost : LeaseStatus::kRunLimit);
  if (lease->state.cancel_requested()) {
    End(queue, &row, std::move(after), EndReason::kCancelledByClient, "", now);
    return Result::Done(EmptyReply{});
  }
  constexpr absl::string_view kError = "run limit reached";
  AddAttempt(row.state, AttemptOutcome::kRunLimit, kError, now, &after);
  after.set_last_error(std::string(kError));
  after.set_run_limit_token(command.token);
  EndReason reason = EndReason::kNone;
  ChargeFailure(*queue, row, std::nullopt, now, &after, &reason);
  if (reason != EndReason::kNone) {
    End(queue, &row, std::move(after), reason, "", now);
  } else {
    Move(queue, &row, std::move(after), now);
  }
  return Result::Done(EmptyReply{});
}

Result Engine::Handle(const PromoteCommand& command, const Now& now) {
  TimeIndex& index = due_[command.wall ? 1 : 0];
  const Family family = command.wall ? Family::kDueWall : Family::kDue;
  const int64_t now_ms = command.wall ? now.wall_ms : now.broker_ms;
  if (index.next_ms > now_ms) return Result::Done(EmptyReply{});
  // From the head on, so that what was promoted before is not walked over again.
  const std::string begin = storage::DueRowKey(family, {index.next_ms, 9, 0});
  const auto range = tables_.rows().Scan(begin, storage::FamilyEnd(family), kMaxStepRows);
  if (!range.known) return Result::NeedsRows();
  struct Due {
    std::string key;
    storage::DueKey at;
    QueueState* queue = nullptr;
    JobRow row;
    Read read = Read::kAbsent;
  };
  std::vector<Due> rows;
  Reads reads;
  int64_t next_ms = INT64_MAX;
  for (const storage::Row& row : range.rows) {
    Due due;
    due.key = row.key;
    record::IndexEntry entry;
    const auto at = storage::ParseDueRowKey(family, row.key);
    if (!at.has_value() || !entry.ParseFromString(row.value)) {
      return Result::Refused(MakeError(Reason::kCorruptRecord, "a due time cannot be read"));
    }
    due.at = *at;
    if (due.at.due_ms > now_ms) {
      next_ms = due.at.due_ms;
      break;
    }
    due.queue = FindQueue(entry.queue());
    if (due.queue != nullptr) {
      due.read = reads.Add(ReadJob(*due.queue, {entry.queue(), due.at.sequence}, &due.row));
    }
    rows.push_back(std::move(due));
  }
  if (reads.unknown) return Result::NeedsRows();
  absl::Status unreadable;
  for (Due& due : rows) {
    if (due.read == Read::kCorrupt) {
      unreadable = JobUnreadable({due.queue->record.name(), storage::MakeJobId(due.at.sequence)});
    }
    if (due.read != Read::kFound ||
        !Allows(static_cast<JobState>(due.row.state.state()), Event::kDue)) {
      // Its queue was deleted, or the job purged.
      tables_.DropIndexRow(due.key);
      continue;
    }
    NoteTime(*due.queue, JobTime::kPromotionLag, now_ms - due.at.due_ms);
    record::JobState after = due.row.state;
    after.set_state(storage::kStateReady);
    if (command.wall) {
      // One timeline from here on: as long ago in broker time as it was on the wall.
      after.set_ready_ms(std::min(now.broker_ms, now.broker_ms - (now.wall_ms - due.at.due_ms)));
    }
    after.clear_due_ms();
    after.clear_due_wall_ms();
    Move(due.queue, &due.row, std::move(after), now);
  }
  if (next_ms == INT64_MAX && !range.complete) {
    const auto rest =
        storage::ParseDueRowKey(family, absl::string_view(range.rest).substr(0, begin.size()));
    next_ms = rest.has_value() ? rest->due_ms : index.next_ms;
  }
  index.next_ms = next_ms;
  // Said in the log; the others are on their way.
  return unreadable.ok() ? Result::Done(EmptyReply{}) : Result::Refused(unreadable);
}

Result Engine::Handle(const ExpireCommand& command, const Now& now) {
  TimeIndex& index = expiry_[command.wall ? 1 : 0];
  const Family family = command.wall ? Family::kExpiryWall : Family::kExpiry;
  const int64_t now_ms = command.wall ? now.wall_ms : now.broker_ms;
  if (index.next_ms > now_ms) return Result::Done(EmptyReply{});
  const std::string begin = storage::ExpiryRowKey(family, index.next_ms, 0);
  const auto range = tables_.rows().Scan(begin, storage::FamilyEnd(family), kMaxStepRows);
  if (!range.known) return Result::NeedsRows();
  struct Expiry {
    std::string key;
    QueueState* queue = nullptr;
    JobRow row;
    Read read = Read::kAbsent;
  };
  std::vector<Expiry> rows;
  Reads reads;
  int64_t next_ms = INT64_MAX;
  for (const storage::Row& row : range.rows) {
    Expiry expiry;
    expiry.key = row.key;
    record::IndexEntry entry;
    const auto at = storage::ParseExpiryRowKey(family, row.key);
    if (!at.has_value() || !entry.ParseFromString(row.value)) {
      return Result::Refused(MakeError(Reason::kCorruptRecord, "an expiry cannot be read"));
    }
    if (at->expiry_ms > now_ms) {
      next_ms = at->expiry_ms;
      break;
    }
    expiry.queue = FindQueue(entry.queue());
    if (expiry.queue != nullptr) {
      expiry.read = reads.Add(ReadJob(*expiry.queue, {entry.queue(), at->sequence}, &expiry.row));
    }
    rows.push_back(std::move(expiry));
  }
  if (reads.unknown) return Result::NeedsRows();

  for (Expiry& expiry : rows) {
    if (expiry.read != Read::kFound || expiry.row.state.started() ||
        !Allows(static_cast<JobState>(expiry.row.state.state()), Event::kExpire)) {
      tables_.DropIndexRow(expiry.key);
      continue;
    }
    End(expiry.queue, &expiry.row, expiry.row.state, EndReason::kExpired, "", now);
  }
  if (next_ms == INT64_MAX && !range.complete) {
    const auto rest =
        storage::ParseExpiryRowKey(family, absl::string_view(range.rest).substr(0, begin.size()));
    next_ms = rest.has_value() ? rest->expiry_ms : index.next_ms;
  }
  index.next_ms = next_ms;
  return Result::Done(EmptyReply{});
}

Result Engine::Handle(const RetentionCommand& command, const Now& now) {
  QueueState* queue = FindQueue(command.queue);
  if (queue == nullptr) return Result::Done(EmptyReply{});
  const EndedLimits limits = RetentionOf(queue->record.settings(), command.ended);
  // From the oldest on, so that what was removed before is not walked over again.
  int64_t& oldest_ms = queue->oldest_ended_ms[static_cast<size_t>(command.ended)];
  const std::string begin = storage::EndedRowKey(queue->id, command.ended, oldest_ms, 0);
  const std::string end = command.ended == EndedClass::kFinished
                              ? storage::EndedRowKey(queue->id, EndedClass::kDead, 0, 0)
                              : storage::QueueRangeEnd(Family::kEnded, queue->id);
  const auto range = tables_.rows().Scan(begin, end, command.rows);
  if (!range.known) return Result::NeedsRows();
  const bool dead = command.ended == EndedClass::kDead;
  const record::QueueCounters& c = queue->counters;
  int64_t count = dead ? c.dead() : c.completed() + c.cancelled();
  int64_t bytes = dead ? c.dead_bytes() : c.finished_bytes();
  std::vector<JobRow> old;
  std::vector<JobEvent> why;  // for each of `old`
  Reads reads;
  int64_t next_ms = INT64_MAX;
  int64_t seen_ms = oldest_ms;
  for (const storage::Row& row : range.rows) {
    const auto at = storage::ParseEndedRowKey(row.key);
    if (!at.has_value()) {
      return Result::Refused(MakeError(Reason::kCorruptRecord, "a history cannot be read"));
    }
    const int64_t due_ms = at->end_ms + limits.age_ms;
    seen_ms = at->end_ms;
    const bool give_up = !dead && queue->give_up > static_cast<int64_t>(old.size());
    if (due_ms > now.broker_ms && count <= limits.count && bytes <= limits.bytes && !give_up) {
      next_ms = due_ms;
      break;
    }
    JobRow job;
    const Read read = reads.Add(ReadJob(*queue, {queue->id, at->sequence}, &job));
    if (read == Read::kFound) {
      why.push_back(due_ms <= now.broker_ms ? JobEvent::kRemovedAge
                    : count > limits.count  ? JobEvent::kRemovedCount
                    : bytes > limits.bytes  ? JobEvent::kRemovedBytes
                                            : JobEvent::kRemovedSpace);
      --count;
      bytes -= job.record.size_bytes() + job.state.result_bytes();
      old.push_back(std::move(job));
    }
  }
  if (reads.unknown) return Result::NeedsRows();
  for (const JobRow& job : old) Remove(queue, job, now);
  for (const JobEvent event : why) Note(*queue, event);
  if (!dead)
    queue->give_up = std::max<int64_t>(0, queue->give_up - static_cast<int64_t>(old.size()));
  oldest_ms = seen_ms;
  if (next_ms == INT64_MAX && !range.complete) next_ms = now.broker_ms;
  if (next_ms != INT64_MAX) ScheduleRetention(queue, command.ended, next_ms);
  return Result::Done(EmptyReply{});
}

void Engine::GiveUpHistory(const Now& now) {
  // A part at a time: space comes back some time after rows are removed.
  constexpr int64_t kPart = 8;
  for (const auto& [id, queue] : queue_ids_) {
    const int64_t kept = queue->counters.completed() + queue->counters.cancelled();
    if (kept == 0) continue;
    queue->give_up = std::max<int64_t>(kept / kPart, kMaxStepRows);
    ScheduleRetention(queue, EndedClass::kFinished, now.broker_ms);
  }
}

Result Engine::Handle(const PurgeStepCommand& command, const Now& now) {
  QueueState* queue = FindQueue(command.queue);
  if (queue == nullptr || queue->record.purge_cursor() == 0) {
    purging_.erase(command.queue);
    return Result::Done(EmptyReply{});
  }
  const uint64_t bound = queue->record.purge_bound();
  const std::string begin =
      storage::JobRowKey(Family::kJob, {queue->id, queue->record.purge_cursor()});
  const auto range = tables_.rows().Scan(
      begin, storage::JobRowKey(Family::kJob, {queue->id, bound}), kMaxStepRows);
  if (!range.known) return Result::NeedsRows();
  std::vector<JobRow> purged;
  std::vector<JobKey> unreadable;
  Reads reads;
  for (const storage::Row& row : range.rows) {
    const auto key = storage::ParseJobRowKey(Family::kJob, row.key);
    if (!key.has_value()) continue;
    if (leases_.Find(*key) != nullptr) continue;
    JobRow job;
    job.key = *key;
    const Read read = reads.Add(tables_.JobState(*key, &job.state));
    if (read == Read::kUnknown) continue;
    if (read == Read::kCorrupt || !job.record.ParseFromString(row.value)) {
      unreadable.push_back(*key);
      continue;
    }
    if (read == Read::kAbsent) job.state = storage::FreshState(job.record, key->sequence);
    if (storage::IsPurged(job.state, queue->record)) purged.push_back(std::move(job));
  }
  if (reads.unknown) return Result::NeedsRows();
  // Purged jobs are counted no more; only their rows are left.
  for (const JobRow& job : purged) tables_.RemoveJob(job.key, job.record, job.state);
  // What cannot be read is of use to nobody; its rows in the time indexes go when they come up.
  for (const JobKey& job : unreadable) tables_.DropJobRows(job);
  if (range.complete) {
    queue->record.set_purge_cursor(0);
    purging_.erase(queue->id);
    NoteEmpty(queue, now);
  } else if (const auto rest = storage::ParseJobRowKey(
                 Family::kJob, absl::string_view(range.rest).substr(0, begin.size()))) {
    const bool after = range.rest.size() > begin.size();
    queue->record.set_purge_cursor(rest->sequence + (after ? 1 : 0));
  }
  RecordChanged(queue);
  return Result::Done(EmptyReply{});
}

Result Engine::Handle(const DropBucketsCommand& /*command*/, const Now& now) {
  requests_.DropOld(&tables_, now.broker_ms);
  removed_.DropOld(&tables_, now.broker_ms);
  return Result::Done(EmptyReply{});
}

Result Engine::Handle(const ForgetQueueCommand& command, const Now& /*now*/) {
  QueueState* queue = FindQueue(command.queue);
  // Emptied again in the meantime: its day begins anew.
  if (queue == nullptr || !queue->record.ephemeral() || queue->forget_ms != INT64_MAX) {
    return Result::Done(EmptyReply{});
  }
  if (IsEmpty(queue->counters) && queue->record.purge_cursor() == 0) RemoveQueue(queue);
  return Result::Done(EmptyReply{});
}

}  // namespace stint::engine
