// Heartbeat: renewals in memory, and the way back for a lease that lapsed while nobody took
// the job.
#include <algorithm>
#include <utility>

#include "server/engine/engine.h"
#include "server/engine/job_state.h"
#include "storage/records.h"

namespace stint::engine {

using storage::JobKey;
using storage::Read;

Result Engine::Handle(const HeartbeatCommand& command, const Now& now) {
  // Live leases need no rows; what is not live does.
  Reads reads;
  for (const HeartbeatItem& item : command.items) {
    QueueState* queue = nullptr;
    JobKey key;
    if (reads.Add(ResolveJob(item.job, &queue, &key)) != Read::kFound) continue;
    const Lease* lease = leases_.Find(key);
    if (lease != nullptr && lease->state.owner_token() == item.token) continue;
    JobRow row;
    reads.Add(ReadJob(*queue, key, &row));
  }
  if (reads.unknown) return Result::NeedsRows();

  HeartbeatReply reply;
  reply.draining = draining_;
  int64_t shortest = INT64_MAX;
  for (const HeartbeatItem& item : command.items) {
    LeaseStatus status = LeaseStatus::kLost;
    QueueState* queue = nullptr;
    JobKey key;
    JobRow row;
    Lease* lease = nullptr;
    if (ResolveJob(item.job, &queue, &key) == Read::kFound) {
      lease = leases_.Find(key);
      if (lease == nullptr && ReadJob(*queue, key, &row) == Read::kFound &&
          row.state.owner_token() != 0 && row.state.owner_token() == item.token &&
          Allows(static_cast<JobState>(row.state.state()), Event::kRenew)) {
        Move(queue, &row, TakeBackLapse(row.state), now);
        Note(*queue, JobEvent::kLateRenewal);
        leases_.Put(key, {row.state, 0, row.state.lease_request(), 0});
        lease = leases_.Find(key);
      }
    }
    if (lease != nullptr && lease->state.owner_token() == item.token) {
      lease->deadline_ms =
          std::max(lease->deadline_ms, now.broker_ms + lease->state.lease_duration_ms());
      lease->stream_lost = false;
      leases_.SetSession(key, command.session);
      shortest = std::min(shortest, lease->state.lease_duration_ms());
      if (item.progress.has_value()) leases_.SetProgress(lease, *item.progress);
      status =
          lease->state.cancel_requested() ? LeaseStatus::kCancelRequested : LeaseStatus::kRenewed;
    } else if (queue != nullptr) {
      const record::JobState& state = lease != nullptr ? lease->state : row.state;
      if (state.run_limit_token() == item.token && item.token != 0) {
        status = LeaseStatus::kRunLimit;
      }
    }
    ++effects_.heartbeats[static_cast<size_t>(status)];
    reply.statuses.push_back(status);
  }
  reply.next_interval_ms = shortest == INT64_MAX ? kIdleHeartbeatMs : shortest / 3;
  return Result::Done(std::move(reply));
}

}  // namespace stint::engine
