// Sessions: the end of one, and what one is told without having asked. Which session a lease
// belongs to is in memory only; grants (dispatch.cc) and heartbeats (heartbeat.cc) set it.
#include <algorithm>
#include <vector>

#include "server/engine/engine.h"
#include "storage/job_id.h"

namespace stint::engine {

using storage::JobKey;
using storage::Read;

Result Engine::Handle(const EndSessionCommand& command, const Now& now) {
  std::vector<JobKey> jobs = leases_.OfSession(command.session);
  jobs.erase(std::remove_if(jobs.begin(), jobs.end(),
                            [&](const JobKey& job) {
                              return leases_.Find(job)->state.worker() != command.worker;
                            }),
             jobs.end());
  if (command.grace_ms.has_value()) {
    for (const JobKey& job : jobs) {
      Lease* lease = leases_.Find(job);
      const int64_t grace_end_ms = now.broker_ms + *command.grace_ms;
      if (grace_end_ms >= lease->deadline_ms) continue;
      lease->deadline_ms = grace_end_ms;
      lease->stream_lost = true;
      leases_.Watch(job, lease->NextMs());
    }
    return Result::Done(EmptyReply{});
  }
  const bool more = jobs.size() > kMaxSessionReleases;
  if (more) jobs.resize(kMaxSessionReleases);
  Reads reads;
  std::vector<JobRow> rows(jobs.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    reads.Add(ReadJob(*FindQueue(jobs[i].queue), jobs[i], &rows[i]));
  }
  if (reads.unknown) return Result::NeedsRows();
  for (JobRow& row : rows) {
    const Lease* lease = leases_.Find(row.key);
    if (row.state.owner_token() == 0 || row.state.owner_token() != lease->state.owner_token()) {
      // A record that cannot be read: its lease lapses, and says so.
      leases_.SetSession(row.key, 0);
      continue;
    }
    SettleItem release;
    release.kind = SettleKind::kRelease;
    release.release_reason = ReleaseReason::kShutdown;
    release.token = row.state.owner_token();
    Accept(FindQueue(row.key.queue), &row, release, now);
  }
  return more ? Result::Again() : Result::Done(EmptyReply{});
}

Result Engine::Handle(const WorkerLeasesCommand&, const Now&) {
  return Result::Done(WorkerLeasesReply{leases_.by_worker()});
}

void Engine::Tell(const QueueState& queue, const JobRow& row, LeaseStatus status) {
  const Lease* lease = leases_.Find(row.key);
  if (lease == nullptr || lease->session == 0) return;
  verdicts_.push_back(
      {lease->session, queue.record.name(),
       row.record.job_id().empty() ? storage::MakeJobId(row.key.sequence) : row.record.job_id(),
       lease->state.owner_token(), status});
}

}  // namespace stint::engine
