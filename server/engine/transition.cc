// The changes all handlers share: each keeps rows, counters, windows, leases, timers and
// effects together, so that no handler can forget one.
#include <algorithm>
#include <string>
#include <utility>

#include "server/engine/engine.h"
#include "server/engine/policy.h"
#include "storage/records.h"

namespace stint::engine {

using storage::EndedClass;
using storage::JobKey;

namespace {

JobEvent EventOf(EndReason reason) {
  switch (reason) {
    case EndReason::kCompleted:
      return JobEvent::kCompleted;
    case EndReason::kAttemptsExhausted:
      return JobEvent::kDeadAttempts;
    case EndReason::kLeasesLost:
      return JobEvent::kDeadLosses;
    case EndReason::kRejectedByWorker:
      return JobEvent::kDeadRejected;
    case EndReason::kExpired:
      return JobEvent::kExpired;
    case EndReason::kCancelledByClient:
    case EndReason::kNone:
      break;
  }
  return JobEvent::kCancelledByClient;
}

EndedClass ClassOf(const record::JobState& state) {
  return state.state() == storage::kStateDead ? EndedClass::kDead : EndedClass::kFinished;
}

// What a job counts for: its own size, and its result once it has ended.
int64_t BytesOf(const record::JobRecord& record, const record::JobState& state) {
  return record.size_bytes() + (storage::IsEnded(state.state()) ? state.result_bytes() : 0);
}

}  // namespace

Engine::QueueState* Engine::AddQueue(absl::string_view name, bool ephemeral, const Now& now) {
  auto queue = std::make_unique<QueueState>();
  queue->id = next_queue_++;
  queue->record.set_name(std::string(name));
  queue->record.set_create_wall_ms(now.wall_ms);
  queue->record.set_version(1);
  queue->record.set_ephemeral(ephemeral);
  queue->windows.fill(ReadyWindow::Empty());
  queue->record_changed = queue->counters_changed = true;
  changed_queues_.insert(queue->id);
  tables_.PutQueueName(name, queue->id);
  QueueState* added = queue.get();
  queue_ids_[queue->id] = added;
  queues_[std::string(name)] = std::move(queue);
  NoteEmpty(added, now);
  return added;
}

void Engine::RemoveQueue(QueueState* queue) {
  tables_.RemoveQueue(queue->id, queue->record.name());
  leases_.RemoveQueue(queue->id);
  for (const auto& [job, watchers] : watched_) {
    if (job.queue == queue->id) ended_.push_back({job, std::nullopt});
  }
  purging_.erase(queue->id);
  timers_.erase({queue->forget_ms, Timer::Kind::kForget, queue->id, EndedClass::kFinished});
  for (const EndedClass ended : {EndedClass::kFinished, EndedClass::kDead}) {
    timers_.erase({queue->retention_ms[static_cast<size_t>(ended)], Timer::Kind::kRetention,
                   queue->id, ended});
  }
  claimed_.erase(std::remove(claimed_.begin(), claimed_.end(), queue), claimed_.end());
  effects_.queues.push_back({queue->id, "", {}, true});
  queue_ids_.erase(queue->id);
  const std::string name = queue->record.name();
  queues_.erase(name);
}

void Engine::Insert(QueueState* queue, JobRow row, std::string payload) {
  tables_.InsertJob(row.key, &row.record, std::move(payload), row.state);
  Count(queue, row.state, BytesOf(row.record, row.state), 1);
  if (row.state.state() == storage::kStateReady) {
    queue->windows[static_cast<size_t>(row.state.priority())].Insert(
        {row.state.ready_ms(), row.key.sequence}, !storage::IsFresh(row.state, row.key.sequence));
    woken_.insert(queue->record.name());
  }
  NoteTimes(row);
}

void Engine::Move(QueueState* queue, JobRow* row, record::JobState after, const Now& now) {
  const record::JobState before = std::exchange(row->state, {});
  after.set_entered(NextSequence());
  after.set_update_wall_ms(now.wall_ms);
  tables_.ChangeJob(row->key, row->record, before, after);
  Count(queue, before, BytesOf(row->record, before), -1);
  Count(queue, after, BytesOf(row->record, after), 1);
  if (before.state() == storage::kStateReady) {
    queue->windows[static_cast<size_t>(before.priority())].Erase(
        {before.ready_ms(), row->key.sequence});
  }
  if (after.state() == storage::kStateReady) {
    queue->windows[static_cast<size_t>(after.priority())].Insert(
        {after.ready_ms(), row->key.sequence}, true);
    woken_.insert(queue->record.name());
  }
  if (after.state() != storage::kStateLeased) {
    leases_.Remove(row->key);
  } else if (Lease* lease = leases_.Find(row->key)) {
    lease->state = after;
    leases_.Watch(row->key, lease->NextMs());
  }
  row->state = std::move(after);
  NoteTimes(*row);
  if (storage::IsEnded(before.state())) NoteEmpty(queue, now);
}

void Engine::End(QueueState* queue, JobRow* row, record::JobState after, EndReason reason,
                 absl::string_view result, const Now& now) {
  ClearOwner(&after);
  after.set_state(static_cast<int32_t>(reason == EndReason::kCompleted ? JobState::kCompleted
                                       : reason == EndReason::kCancelledByClient ||
                                               reason == EndReason::kExpired
                                           ? JobState::kCancelled
                                           : JobState::kDead));
  after.set_end_reason(static_cast<int32_t>(reason));
  after.set_end_ms(now.broker_ms);
  after.set_end_wall_ms(now.wall_ms);
  after.set_has_result(!result.empty());
  after.set_result_bytes(static_cast<int64_t>(result.size()));

  Note(*queue, EventOf(reason));
  if (reason == EndReason::kCompleted) {
    NoteTime(*queue, JobTime::kLifetime, now.broker_ms - row->record.create_ms());
  }
  const EndedClass ended = ClassOf(after);
  const EndedLimits limits = RetentionOf(queue->record.settings(), ended);
  if (limits.none()) {
    if (after.settle().token() != 0) {
      removed_.Add(row->key, row->record.job_id(), after.settle(), now.broker_ms);
    }
    Erase(queue, *row, now);
    Note(*queue, JobEvent::kRemovedNotKept);
    row->state = std::move(after);
  } else {
    if (!result.empty()) tables_.PutResult(row->key, result);
    Move(queue, row, std::move(after), now);
  }
  if (watched_.contains(row->key)) {
    JobReply reply{Snapshot(*queue, *row), queue->record.settings()};
    reply.job.result.assign(result.data(), result.size());
    ended_.push_back({row->key, std::move(reply)});
  }
  if (limits.none()) return;
  const auto& counters = queue->counters;
  const bool dead = ended == EndedClass::kDead;
  const int64_t count = dead ? counters.dead() : counters.completed() + counters.cancelled();
  const int64_t bytes = dead ? counters.dead_bytes() : counters.finished_bytes();
  const bool over = count > limits.count || bytes > limits.bytes;
  ScheduleRetention(queue, ended, over ? now.broker_ms : now.broker_ms + limits.age_ms);
}

void Engine::Remove(QueueState* queue, const JobRow& row, const Now& now) {
  if (row.state.settle().token() != 0) {
    removed_.Add(row.key, row.record.job_id(), row.state.settle(), now.broker_ms);
  }
  Erase(queue, row, now);
  if (!storage::IsEnded(row.state.state()) && watched_.contains(row.key)) {
    ended_.push_back({row.key, std::nullopt});
  }
}

void Engine::Erase(QueueState* queue, const JobRow& row, const Now& now) {
  tables_.RemoveJob(row.key, row.record, row.state);
  Count(queue, row.state, BytesOf(row.record, row.state), -1);
  if (row.state.state() == storage::kStateReady) {
    queue->windows[static_cast<size_t>(row.state.priority())].Erase(
        {row.state.ready_ms(), row.key.sequence});
  }
  leases_.Remove(row.key);
  NoteEmpty(queue, now);
}

void Engine::NoteDepths(QueueState* queue) {
  const record::QueueCounters& c = queue->counters;
  effects_.queues.push_back(
      {queue->id,
       queue->told ? "" : queue->record.name(),
       {c.delayed(), c.held(), c.ready(), c.leased(), c.completed(), c.cancelled(), c.dead()}});
  queue->told = true;
}

void Engine::RecordChanged(QueueState* queue) {
  queue->record_changed = true;
  changed_queues_.insert(queue->id);
}

void Engine::Count(QueueState* queue, const record::JobState& state, int64_t bytes, int sign) {
  record::QueueCounters& c = queue->counters;
  queue->counters_changed = true;
  changed_queues_.insert(queue->id);
  while (c.ready_by_priority_size() <= kMaxPriority) c.add_ready_by_priority(0);
  switch (static_cast<JobState>(state.state())) {
    case JobState::kReady:
      c.set_ready(c.ready() + sign);
      c.set_ready_by_priority(state.priority(), c.ready_by_priority(state.priority()) + sign);
      break;
    case JobState::kDelayed:
      c.set_delayed(c.delayed() + sign);
      break;
    case JobState::kHeld:
      c.set_held(c.held() + sign);
      break;
    case JobState::kLeased:
      c.set_leased(c.leased() + sign);
      c.set_leased_bytes(c.leased_bytes() + sign * bytes);
      return;
    case JobState::kCompleted:
      c.set_completed(c.completed() + sign);
      c.set_finished_bytes(c.finished_bytes() + sign * bytes);
      return;
    case JobState::kCancelled:
      c.set_cancelled(c.cancelled() + sign);
      c.set_finished_bytes(c.finished_bytes() + sign * bytes);
      return;
    case JobState::kDead:
      c.set_dead(c.dead() + sign);
      c.set_dead_bytes(c.dead_bytes() + sign * bytes);
      return;
  }
  c.set_waiting_bytes(c.waiting_bytes() + sign * bytes);
}

void Engine::NoteTimes(const JobRow& row) {
  const record::JobState& state = row.state;
  if (state.state() == storage::kStateDelayed) {
    if (state.has_due_wall_ms()) {
      due_[1].Lower(state.due_wall_ms());
    } else {
      due_[0].Lower(state.due_ms());
    }
  }
  if (storage::IsWaiting(state.state()) && !state.started()) {
    if (row.record.has_expiry_ms()) {
      expiry_[0].Lower(row.record.expiry_ms());
    } else if (row.record.has_expiry_wall_ms()) {
      expiry_[1].Lower(row.record.expiry_wall_ms());
    }
  }
}

bool Engine::IsEmpty(const record::QueueCounters& c) {
  return c.ready() + c.delayed() + c.held() + c.leased() + c.completed() + c.cancelled() +
             c.dead() ==
         0;
}

void Engine::NoteEmpty(QueueState* queue, const Now& now) {
  if (!queue->record.ephemeral() || !IsEmpty(queue->counters)) return;
  timers_.erase({queue->forget_ms, Timer::Kind::kForget, queue->id, EndedClass::kFinished});
  queue->forget_ms = now.broker_ms + kForgetQueueMs;
  timers_.insert({queue->forget_ms, Timer::Kind::kForget, queue->id, EndedClass::kFinished});
}

void Engine::ScheduleRetention(QueueState* queue, EndedClass ended, int64_t ms) {
  int64_t& scheduled = queue->retention_ms[static_cast<size_t>(ended)];
  if (ms >= scheduled) return;
  timers_.erase({scheduled, Timer::Kind::kRetention, queue->id, ended});
  scheduled = ms;
  timers_.insert({ms, Timer::Kind::kRetention, queue->id, ended});
}

void Engine::ClearOwner(record::JobState* state) {
  state->clear_owner_token();
  state->clear_worker();
  state->clear_lease_duration_ms();
  state->clear_lease_request();
  state->clear_granted_ms();
  state->clear_granted_wall_ms();
  state->clear_run_limit_at_ms();
  state->clear_cancel_requested();
  state->clear_cancel_at_ms();
  state->clear_due_ms();
  state->clear_due_wall_ms();
}

void Engine::AddAttempt(const record::JobState& before, AttemptOutcome outcome,
                        absl::string_view error, const Now& now, record::JobState* after) {
  if (after->attempts_size() >= static_cast<int>(kKeptAttempts)) {
    after->mutable_attempts()->DeleteSubrange(
        0, after->attempts_size() - static_cast<int>(kKeptAttempts) + 1);
  }
  record::AttemptRecord* attempt = after->add_attempts();
  attempt->set_attempt(1 + before.total_failures() + before.total_losses());
  attempt->set_outcome(static_cast<int32_t>(outcome));
  attempt->set_worker(before.worker());
  size_t length = std::min(error.size(), kMaxAttemptErrorBytes);
  // Not in the middle of a character.
  while (length < error.size() && length > 0 && (error[length] & 0xC0) == 0x80) --length;
  attempt->set_error(std::string(error.substr(0, length)));
  attempt->set_end_wall_ms(now.wall_ms);
}

record::JobState Engine::TakeBackLapse(const record::JobState& state) {
  record::JobState live = state;
  live.set_state(static_cast<int32_t>(JobState::kLeased));
  live.set_total_losses(live.total_losses() - 1);
  live.set_consecutive_losses(live.consecutive_losses() - 1);
  if (live.attempts_size() > 0) live.mutable_attempts()->RemoveLast();
  live.clear_due_ms();
  live.clear_due_wall_ms();
  return live;
}

int64_t Engine::ChargeFailure(const QueueState& queue, const JobRow& row,
                              std::optional<int64_t> retry_after_ms, const Now& now,
                              record::JobState* after, EndReason* reason) {
  Note(queue, JobEvent::kFailed);
  after->set_total_failures(after->total_failures() + 1);
  after->set_failures(after->failures() + 1);
  after->set_consecutive_losses(0);
  const record::QueueSettings& settings = queue.record.settings();
  if (after->failures() >= MaxAttempts(row.record, *after, settings)) {
    *reason = EndReason::kAttemptsExhausted;
    return -1;
  }
  const int64_t delay = retry_after_ms.has_value()
                            ? *retry_after_ms
                            : RetryDelayMs(row.record, settings, after->failures(),
                                           Mix(now.entropy, row.key.sequence));
  ClearOwner(after);
  after->set_ready_ms(now.broker_ms + delay);
  if (delay == 0) {
    after->set_state(static_cast<int32_t>(JobState::kReady));
  } else {
    after->set_state(static_cast<int32_t>(JobState::kDelayed));
    after->set_due_ms(now.broker_ms + delay);
  }
  return delay;
}

}  // namespace stint::engine
