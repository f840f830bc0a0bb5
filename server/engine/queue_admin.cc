// Queues: create, update, delete, pause, purge, figures.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "server/engine/error.h"
#include "server/engine/policy.h"
#include "server/engine/refusals.h"
#include "storage/records.h"

namespace stint::engine {

using storage::EndedClass;

namespace {

// Takes over one named field of the settings.
void TakeField(const std::string& field, const record::QueueSettings& from,
               record::QueueSettings* to) {
  const google::protobuf::Descriptor* descriptor = record::QueueSettings::descriptor();
  const google::protobuf::FieldDescriptor* named = descriptor->FindFieldByName(field);
  if (named == nullptr) return;
  // Only the named field of `from`, merged over a cleared one.
  record::QueueSettings one = from;
  for (int i = 0; i < descriptor->field_count(); ++i) {
    if (descriptor->field(i) != named) one.GetReflection()->ClearField(&one, descriptor->field(i));
  }
  to->GetReflection()->ClearField(to, named);
  to->MergeFrom(one);
}

}  // namespace

Result Engine::Handle(const CreateQueueCommand& command, const Now& now) {
  if (auto repeated = Repeated(command.request)) return *std::move(repeated);
  QueueState* queue = FindQueue(command.queue);
  if (queue != nullptr && !queue->record.ephemeral()) {
    return Result::Refused(QueueExists(command.queue));
  }
  if (queue == nullptr && queues_.size() >= kMaxQueues) return Result::Refused(TooManyQueues());

  // One that appeared by use is adopted.
  if (queue == nullptr) queue = AddQueue(command.queue, false, now);
  queue->record.set_ephemeral(false);
  *queue->record.mutable_settings() = command.settings;
  queue->record.set_version(queue->record.version() + 1);
  RecordChanged(queue);
  ScheduleRetention(queue, EndedClass::kFinished, now.broker_ms);
  ScheduleRetention(queue, EndedClass::kDead, now.broker_ms);
  QueueReply reply{queue->record};
  requests_.Remember(&tables_, command.request, reply, now.broker_ms);
  return Result::Done(std::move(reply));
}

Result Engine::Handle(const UpdateQueueCommand& command, const Now& now) {
  if (auto repeated = Repeated(command.request)) return *std::move(repeated);
  QueueState* queue = FindQueue(command.queue);
  if (queue == nullptr) return Result::Refused(QueueNotFound(command.queue));
  if (command.expected_version != 0 && command.expected_version != queue->record.version()) {
    return Result::Refused(
        MakeError(Reason::kEtagMismatch,
                  absl::StrCat("queue ", command.queue, " has changed since: its etag is ",
                               queue->record.version()),
                  {{"etag", absl::StrCat(queue->record.version())}}));
  }
  for (const std::string& field : command.fields) {
    if (field == "*") {
      *queue->record.mutable_settings() = command.settings;
    } else {
      TakeField(field, command.settings, queue->record.mutable_settings());
    }
  }
  if (command.draining.has_value()) queue->record.set_draining(*command.draining);
  queue->record.set_ephemeral(false);
  queue->record.set_version(queue->record.version() + 1);
  RecordChanged(queue);
  ScheduleRetention(queue, EndedClass::kFinished, now.broker_ms);
  ScheduleRetention(queue, EndedClass::kDead, now.broker_ms);
  QueueReply reply{queue->record};
  requests_.Remember(&tables_, command.request, reply, now.broker_ms);
  return Result::Done(std::move(reply));
}

Result Engine::Handle(const DeleteQueueCommand& command, const Now& now) {
  if (auto repeated = Repeated(command.request)) return *std::move(repeated);
  QueueState* queue = FindQueue(command.queue);
  if (queue == nullptr) return Result::Refused(QueueNotFound(command.queue));
  const record::QueueCounters& c = queue->counters;
  const int64_t waiting = c.ready() + c.delayed() + c.held();
  const int64_t ended = c.completed() + c.cancelled() + c.dead();
  const int64_t jobs = waiting + c.leased() + ended;
  if (jobs > 0 && !command.force) {
    return Result::Refused(MakeError(
        Reason::kWrongState,
        absl::StrCat("queue ", command.queue, " holds ", jobs, jobs == 1 ? " job (" : " jobs (",
                     waiting, " waiting, ", c.leased(), " leased, ", ended,
                     " ended); with force it is deleted with all of them"),
        {{"queue", command.queue}, {"jobs", absl::StrCat(jobs)}}));
  }
  Note(*queue, JobEvent::kRevokedRemoved, c.leased());
  Note(*queue, JobEvent::kRemovedWithQueue, jobs);
  RemoveQueue(queue);
  requests_.Remember(&tables_, command.request, EmptyReply{}, now.broker_ms);
  return Result::Done(EmptyReply{});
}

Result Engine::Handle(const PauseQueueCommand& command, const Now& now) {
  if (auto repeated = Repeated(command.request)) return *std::move(repeated);
  QueueState* queue = FindQueue(command.queue);
  if (queue == nullptr && !command.paused) return Result::Refused(QueueNotFound(command.queue));
  if (queue == nullptr && queues_.size() >= kMaxQueues) return Result::Refused(TooManyQueues());
  if (queue == nullptr) queue = AddQueue(command.queue, false, now);
  if (queue->record.paused() != command.paused) {
    queue->record.set_paused(command.paused);
    queue->record.set_version(queue->record.version() + 1);
    queue->record.set_ephemeral(false);
    RecordChanged(queue);
    if (!command.paused) woken_.insert(command.queue);
  }
  QueueReply reply{queue->record};
  requests_.Remember(&tables_, command.request, reply, now.broker_ms);
  return Result::Done(std::move(reply));
}

Result Engine::Handle(const PurgeQueueCommand& command, const Now& now) {
  if (auto repeated = Repeated(command.request)) return *std::move(repeated);
  QueueState* queue = FindQueue(command.queue);
  if (queue == nullptr) return Result::Refused(QueueNotFound(command.queue));

  // From this commit on, every waiting job that entered its state at or under the bound is
  // gone (IsPurged); its rows go in steps.
  record::QueueCounters& c = queue->counters;
  PurgeReply reply;
  reply.purged = c.ready() + c.delayed() + c.held();
  queue->record.set_purge_bound(NextSequence());
  queue->record.set_purge_cursor(1);
  RecordChanged(queue);
  purging_.insert(queue->id);
  if (command.force) {
    reply.purged += c.leased();
    Note(*queue, JobEvent::kRevokedRemoved, c.leased());
    // Without its lease row a job reads as it was enqueued, which is under the bound.
    std::vector<storage::JobKey> revoked;
    leases_.ForEach([&](const storage::JobKey& job, Lease&) {
      if (job.queue == queue->id) revoked.push_back(job);
    });
    for (const storage::JobKey& job : revoked) {
      tables_.DropLease(job);
      leases_.Remove(job);
    }
    c.set_leased(0);
    c.set_leased_bytes(0);
  }
  Note(*queue, JobEvent::kRemovedPurged, reply.purged);
  c.set_ready(0);
  c.set_delayed(0);
  c.set_held(0);
  c.set_waiting_bytes(0);
  c.clear_ready_by_priority();
  queue->counters_changed = true;
  changed_queues_.insert(queue->id);
  tables_.ClearReady(queue->id);
  queue->windows.fill(ReadyWindow::Empty());
  for (const auto& [job, watchers] : watched_) {
    if (job.queue != queue->id) continue;
    if (leases_.Find(job) == nullptr) ended_.push_back({job, std::nullopt});
  }
  NoteEmpty(queue, now);
  requests_.Remember(&tables_, command.request, reply, now.broker_ms);
  return Result::Done(reply);
}

Result Engine::Handle(const QueueStatsCommand& command, const Now& now) {
  QueueState* queue = FindQueue(command.queue);
  if (queue == nullptr) return Result::Refused(QueueNotFound(command.queue));
  QueueStatsReply reply;
  reply.counters = queue->counters;
  if (!KnowHeads(queue)) return Result::NeedsRows();
  for (const ReadyWindow& window : queue->windows) {
    if (window.entries().empty()) continue;
    reply.oldest_ready_age_ms =
        std::max(reply.oldest_ready_age_ms,
                 std::max<int64_t>(0, now.broker_ms - window.entries().begin()->first.ready_ms));
  }
  return Result::Done(std::move(reply));
}

Result Engine::Handle(const ServerInfoCommand& /*command*/, const Now& now) {
  ServerInfoReply reply;
  reply.broker_ms = now.broker_ms;
  reply.wall_ms = now.wall_ms;
  reply.draining = draining_;
  reply.low_space = low_space_;
  reply.request_window_ms = requests_.WindowInForceMs(now.broker_ms);
  reply.queues = static_cast<int64_t>(queues_.size());
  reply.leases = static_cast<int64_t>(leases_.size());
  return Result::Done(reply);
}

}  // namespace stint::engine
