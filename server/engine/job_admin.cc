// What producers and operators do to one job: cancel, redrive, delete, update, wait.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "server/engine/error.h"
#include "server/engine/job_state.h"
#include "server/engine/policy.h"
#include "server/engine/refusals.h"
#include "storage/records.h"

namespace stint::engine {

using storage::Read;

namespace {

// The refusal for a read that did not find a readable job.
Result Unreadable(Read read, const JobRef& job) {
  if (read == Read::kUnknown) return Result::NeedsRows();
  if (read == Read::kAbsent) return Result::Refused(JobNotFound(job));
  return Result::Refused(JobUnreadable(job));
}

Result WrongState(const JobRef& job, const record::JobState& state, absl::string_view what) {
  const absl::string_view name = JobStateName(static_cast<JobState>(state.state()));
  return Result::Refused(MakeError(Reason::kWrongState,
                                   absl::StrCat(JobName(job), " is ", name, ": ", what),
                                   {{"job", JobName(job)}, {"state", std::string(name)}}));
}

}  // namespace

void Engine::Cancel(QueueState* queue, JobRow* row, const Now& now) {
  if (row->state.state() != storage::kStateLeased) {
    End(queue, row, row->state, EndReason::kCancelledByClient, "", now);
    return;
  }
  if (row->state.cancel_requested()) return;
  record::JobState after = row->state;
  after.set_cancel_requested(true);
  after.set_cancel_at_ms(now.broker_ms + CancelGraceMs(queue->record.settings()));
  Move(queue, row, std::move(after), now);
  Tell(*queue, *row, LeaseStatus::kCancelRequested);
}

void Engine::Redrive(QueueState* queue, JobRow* row, const Now& now) {
  Note(*queue, JobEvent::kRedriven);
  record::JobState after = row->state;
  ClearOwner(&after);
  after.set_state(static_cast<int32_t>(JobState::kReady));
  after.set_ready_ms(now.broker_ms);
  after.set_failures(0);
  after.set_consecutive_losses(0);
  after.clear_end_reason();
  after.clear_end_ms();
  after.clear_end_wall_ms();
  after.clear_kind_releases();
  // An expiry that was in force before does not apply to a revived job.
  after.set_started(true);
  Move(queue, row, std::move(after), now);
}

void Engine::Delete(QueueState* queue, const JobRow& row, const Now& now) {
  if (row.state.state() == storage::kStateLeased) Note(*queue, JobEvent::kRevokedRemoved);
  Note(*queue, JobEvent::kRemovedDeleted);
  Tell(*queue, row, LeaseStatus::kLost);
  Remove(queue, row, now);
}

Result Engine::Handle(const CancelCommand& command, const Now& now) {
  if (auto repeated = Repeated(command.request)) return *std::move(repeated);
  QueueState* queue = nullptr;
  JobRow row;
  if (const Read read = FindJob(command.job, &queue, &row); read != Read::kFound) {
    return Unreadable(read, command.job);
  }
  const auto state = static_cast<JobState>(row.state.state());
  const StateReply reply{state == JobState::kLeased ? JobState::kLeased : JobState::kCancelled};
  if (Allows(state, Event::kCancel)) {
    Cancel(queue, &row, now);
  } else if (state != JobState::kCancelled) {
    return WrongState(command.job, row.state, "it has ended and cannot be cancelled");
  }
  requests_.Remember(&tables_, command.request, reply, now.broker_ms);
  return Result::Done(reply);
}

Result Engine::Handle(const RedriveCommand& command, const Now& now) {
  if (auto repeated = Repeated(command.request)) return *std::move(repeated);
  QueueState* queue = nullptr;
  JobRow row;
  if (const Read read = FindJob(command.job, &queue, &row); read != Read::kFound) {
    return Unreadable(read, command.job);
  }
  if (!Allows(static_cast<JobState>(row.state.state()), Event::kRedrive)) {
    return WrongState(command.job, row.state, "only dead and cancelled jobs can be redriven");
  }
  if (low_space_) return Result::Refused(LowSpace());
  absl::Status room = CheckRoom(*queue, 1, row.record.size_bytes());
  if (!room.ok()) return Result::Refused(std::move(room));
  Redrive(queue, &row, now);
  const StateReply reply{JobState::kReady};
  requests_.Remember(&tables_, command.request, reply, now.broker_ms);
  return Result::Done(reply);
}

Result Engine::Handle(const DeleteJobCommand& command, const Now& now) {
  if (auto repeated = Repeated(command.request)) return *std::move(repeated);
  QueueState* queue = nullptr;
  JobRow row;
  if (const Read read = FindJob(command.job, &queue, &row); read != Read::kFound) {
    return Unreadable(read, command.job);
  }
  if (row.state.state() == storage::kStateLeased && !command.force) {
    return WrongState(command.job, row.state,
                      "a worker holds it; cancel it, or delete it with force");
  }
  Delete(queue, row, now);
  requests_.Remember(&tables_, command.request, EmptyReply{}, now.broker_ms);
  return Result::Done(EmptyReply{});
}

Result Engine::Handle(const UpdateJobCommand& command, const Now& now) {
  if (auto repeated = Repeated(command.request)) return *std::move(repeated);
  QueueState* queue = nullptr;
  JobRow row;
  if (const Read read = FindJob(command.job, &queue, &row); read != Read::kFound) {
    return Unreadable(read, command.job);
  }
  const auto state = static_cast<JobState>(row.state.state());
  if (!Allows(state, Event::kUpdate)) {
    return WrongState(command.job, row.state, "it has ended and cannot be changed");
  }
  const bool moves = command.delay_ms.has_value() || command.due_wall_ms.has_value();
  if (moves && !Allows(state, Event::kMove)) {
    return WrongState(command.job, row.state, "only a waiting job's due time can be changed");
  }
  record::JobState after = row.state;
  if (command.priority.has_value()) after.set_priority(*command.priority);
  if (command.max_attempts.has_value()) after.set_max_attempts(*command.max_attempts);
  if (command.max_losses.has_value()) after.set_max_losses(*command.max_losses);
  if (moves) {
    const bool later = command.due_wall_ms.has_value() ? *command.due_wall_ms > now.wall_ms
                                                       : *command.delay_ms > 0;
    after.clear_due_ms();
    after.clear_due_wall_ms();
    after.set_ready_ms(now.broker_ms);
    if (!later) {
      after.set_state(storage::kStateReady);
    } else {
      after.set_state(storage::kStateDelayed);
      if (command.due_wall_ms.has_value()) {
        after.set_due_wall_ms(*command.due_wall_ms);
      } else {
        after.set_due_ms(now.broker_ms + *command.delay_ms);
        after.set_ready_ms(after.due_ms());
      }
    }
  }
  Move(queue, &row, std::move(after), now);
  JobReply reply{Snapshot(*queue, row), queue->record.settings()};
  requests_.Remember(&tables_, command.request, reply, now.broker_ms);
  return Result::Done(std::move(reply));
}

Result Engine::Handle(const WaitJobCommand& command, const Now& /*now*/) {
  QueueState* queue = nullptr;
  JobRow row;
  if (const Read read = FindJob(command.job, &queue, &row); read != Read::kFound) {
    return Unreadable(read, command.job);
  }
  if (!storage::IsEnded(row.state.state()) && command.wait_ms > 0) return Result::Parked(row.key);
  JobReply reply{Snapshot(*queue, row), queue->record.settings()};
  if (const Lease* lease = leases_.Find(row.key)) reply.progress = lease->progress;
  if (row.state.has_result()) {
    const Read read = tables_.Result(row.key, &reply.job.result);
    if (read == Read::kUnknown) return Result::NeedsRows();
  }
  return Result::Done(std::move(reply));
}

Result Engine::Handle(const ProgressCommand& command, const Now& /*now*/) {
  const Lease* lease = leases_.Find(command.job);
  if (lease == nullptr || lease->state.owner_token() != command.token) {
    return Result::Done(ProgressReply{});
  }
  return Result::Done(ProgressReply{lease->progress});
}

}  // namespace stint::engine
