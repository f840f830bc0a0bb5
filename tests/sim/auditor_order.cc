// The order in which jobs are granted: priority, then the time at which they were ready.
#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "tests/sim/auditor.h"

namespace stint::sim {

namespace {

// Whether a job has stood in its queue as it came, so that its place is the time it was enqueued.
bool StandsAsItCame(const JobFacts& facts, const Guess& guess) {
  return !guess.started && !guess.moved && !facts.job.delay_ms.has_value() &&
         !facts.job.due_wall_ms.has_value();
}

// Whether a job that has waited at least since `facts` say comes before one that was granted.
bool ComesBefore(const JobFacts& facts, const Guess& waits, const record::JobState& granted) {
  if (waits.priority != granted.priority()) {
    // Once in a while the oldest of a lower priority comes first, when it has waited for long.
    return waits.priority > granted.priority() &&
           granted.granted_ms() - granted.ready_ms() <= engine::kStarvationMs;
  }
  return StandsAsItCame(facts, waits) && facts.enqueued_by_ms < granted.ready_ms();
}

}  // namespace

void Auditor::CheckOrder(const Call& call, const engine::LeaseReply& reply) {
  // What another call under way has its eye on is not passed over.
  for (const auto& [id, other] : calls_) {
    if (std::holds_alternative<engine::LeaseCommand>(other.command)) return;
  }
  const Moment moment = MomentOf(call);
  for (const engine::GrantedLease& lease : reply.leases) {
    if (tokens_.count(lease.token) > 0) continue;  // granted before
    for (const Job* job : QueueOf(lease.job.queue).jobs) {
      if (job->ready_since_ms >= call.from_ms) continue;
      const bool among_them =
          std::any_of(reply.leases.begin(), reply.leases.end(),
                      [job](const auto& other) { return other.job.job_id == job->facts.job_id; });
      if (among_them) continue;
      const Guesses now = Closure(*job, moment);
      const bool passed_over = std::all_of(now.begin(), now.end(), [&](const Guess& guess) {
        return !guess.gone && guess.state == JobState::kReady &&
               ComesBefore(job->facts, guess, lease.job.state);
      });
      if (passed_over) {
        Fail(absl::StrCat("a lease on ", lease.job.job_id, " passed over this job"), job);
        return;
      }
    }
  }
}

}  // namespace stint::sim
