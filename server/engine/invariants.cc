// What must hold between rows and memory, beside what must hold between the rows themselves
// (storage/fsck). A full walk, for tests and the simulator; not for a busy broker.

#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "storage/fsck.h"
#include "storage/records.h"

namespace stint::engine {

using storage::JobKey;

namespace {

absl::Status Broken(absl::string_view what, const JobKey& job) {
  return absl::InternalError(
      absl::StrCat(what, " (queue ", job.queue, ", sequence ", job.sequence, ")"));
}

}  // namespace

absl::Status Engine::CheckMemoryOf(const JobKey& job, const record::JobRecord& record,
                                   const record::JobState& state, size_t* covered_ready) const {
  const auto found = queue_ids_.find(job.queue);
  if (found == queue_ids_.end()) return Broken("queue is not in memory", job);
  const QueueState& queue = *found->second;
  if (state.state() == storage::kStateLeased) {
    const Lease* lease = leases_.Find(job);
    if (lease == nullptr) return Broken("lease is not in memory", job);
    if (lease->state.SerializeAsString() != state.SerializeAsString()) {
      return Broken("lease in memory differs from its row", job);
    }
  }
  if (state.state() == storage::kStateReady) {
    const ReadyWindow& window = queue.windows[static_cast<size_t>(state.priority())];
    const ReadyWindow::Place place{state.ready_ms(), job.sequence};
    const bool covered = window.at_tail() || place < window.covered_to();
    if (covered != window.entries().contains(place)) {
      return Broken("ready order in memory differs from the index", job);
    }
    *covered_ready += covered ? 1 : 0;
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

absl::Status Engine::CheckInvariants(const storage::Store& store) const {
  absl::Status memory;
  // Ready jobs that the windows in memory should hold.
  size_t covered_ready = 0;
  storage::FsckOptions options;
  options.max_findings = 1;
  options.on_job = [&](const JobKey& job, const record::JobRecord& record,
                       const record::JobState& state) {
    memory.Update(CheckMemoryOf(job, record, state, &covered_ready));
  };
  const auto report = storage::Fsck(store, options);
  if (!report.ok()) return report.status();
  if (!report->findings.empty()) {
    const storage::FsckFinding& first = report->findings.front();
    return absl::InternalError(absl::StrCat(first.what, ", row ", first.key_hex));
  }
  if (!memory.ok()) return memory;
  if (report->leases != leases_.size()) {
    return absl::InternalError(
        absl::StrCat("memory has ", leases_.size(), " leases, the store ", report->leases));
  }
  size_t in_windows = 0;
  for (const auto& [id, queue] : queue_ids_) {
    for (const ReadyWindow& window : queue->windows) in_windows += window.entries().size();
  }
  if (in_windows != covered_ready) {
    return absl::InternalError(absl::StrCat("memory orders ", in_windows, " ready jobs, of which ",
                                            covered_ready, " are in the store"));
  }
  if (timers_.size() > 3 * queue_ids_.size()) {
    return absl::InternalError(
        absl::StrCat(timers_.size(), " timers for ", queue_ids_.size(), " queues"));
  }
  if (report->queues.size() != queue_ids_.size()) {
    return absl::InternalError(absl::StrCat("memory has ", queue_ids_.size(), " queues, the store ",
                                            report->queues.size()));
  }
  for (const auto& [id, queue] : report->queues) {
    const std::string difference =
        storage::CountersDiffer(queue_ids_.at(id)->counters, queue.counted);
    if (!difference.empty()) {
      return absl::InternalError(
          absl::StrCat("queue ", queue.record.name(), " in memory: ", difference));
    }
  }
  return absl::OkStatus();
}

}  // namespace stint::engine
