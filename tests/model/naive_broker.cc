#include "tests/model/naive_broker.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace stint::model {
namespace {

constexpr int64_t kDayMs = 86'400'000;
constexpr int64_t kGraceMs = 30'000;

}  // namespace

int64_t Queue::Count(JobState state) const {
  return std::count_if(jobs.begin(), jobs.end(),
                       [state](const Job& job) { return job.state == state; });
}

int64_t Queue::Live() const {
  return std::count_if(jobs.begin(), jobs.end(), [](const Job& job) { return !job.ended(); });
}

Job* NaiveBroker::FindJob(const std::string& queue, const std::string& id) {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return nullptr;
  for (Job& job : found->second.jobs) {
    if (job.id == id) return &job;
  }
  return nullptr;
}

const Job* NaiveBroker::Find(const std::string& queue, const std::string& id) const {
  return const_cast<NaiveBroker*>(this)->FindJob(queue, id);
}

Queue* NaiveBroker::AddQueue(const std::string& name, bool by_use) {
  const auto [it, added] = queues_.try_emplace(name);
  if (added) {
    it->second.by_use = by_use;
    NoteEmpty(&it->second);
  }
  return &it->second;
}

void NaiveBroker::NoteEmpty(Queue* queue) {
  if (queue->jobs.empty()) queue->forget_ms = now_ms_ + kDayMs;
}

int NaiveBroker::MaxAttempts(const Queue& queue, const Job& job) const {
  if (job.max_attempts != 0) return job.max_attempts;
  return job.spec.max_attempts != 0 ? job.spec.max_attempts : queue.rules.max_attempts;
}

// --- Time -------------------------------------------------------------------------------------

void NaiveBroker::Stall(int64_t gap_ms) {
  if (gap_ms <= 1'000) return;
  for (auto& [name, queue] : queues_) {
    for (Job& job : queue.jobs) {
      if (job.state != JobState::kLeased) continue;
      job.deadline_ms += gap_ms;
      if (gap_ms > 5'000) {
        job.deadline_ms =
            std::max(job.deadline_ms, now_ms_ + gap_ms + std::max(job.lease_ms, kGraceMs));
      }
    }
  }
}

void NaiveBroker::Restart(int64_t now_ms, int64_t wall_ms) {
  now_ms_ = now_ms;
  wall_ms_ = wall_ms;
  for (auto& [name, queue] : queues_) {
    NoteEmpty(&queue);
    for (Job& job : queue.jobs) {
      if (job.state == JobState::kLeased) {
        job.deadline_ms = now_ms + std::max(job.lease_ms, kGraceMs);
      }
    }
  }
}

void NaiveBroker::Tick(int64_t now_ms, int64_t wall_ms) {
  now_ms_ = now_ms;
  wall_ms_ = wall_ms;
  for (auto it = queues_.begin(); it != queues_.end();) {
    Queue& queue = it->second;
    for (Job& job : queue.jobs) {
      if (job.state == JobState::kLeased) {
        const bool run_limit = job.run_limit_at_ms != 0 && job.run_limit_at_ms <= now_ms;
        const bool cancel = job.cancel_at_ms != 0 && job.cancel_at_ms <= now_ms;
        if (run_limit || cancel) {
          Revoke(queue, &job);
        } else if (job.deadline_ms <= now_ms) {
          Lapse(queue, &job);
        }
      }
      if (job.state == JobState::kDelayed && job.due_ms != 0 && job.due_ms <= now_ms) {
        job.state = JobState::kReady;
        job.due_ms = 0;
      }
      if (job.state == JobState::kDelayed && job.due_wall_ms != 0 && job.due_wall_ms <= wall_ms) {
        job.state = JobState::kReady;
        job.ready_ms = now_ms - (wall_ms - job.due_wall_ms);
        job.due_wall_ms = 0;
      }
      if (job.waiting() && !job.started && job.expiry_ms != 0 && job.expiry_ms <= now_ms) {
        End(&job, JobState::kCancelled, EndReason::kExpired);
      }
    }
    KeepHistory(&queue);
    const bool forgotten = queue.by_use && queue.jobs.empty() && queue.forget_ms <= now_ms;
    it = forgotten ? queues_.erase(it) : std::next(it);
  }
}

void NaiveBroker::Lapse(const Queue& queue, Job* job) {
  ++job->losses_ever;
  ++job->losses_in_a_row;
  if (job->cancel_at_ms != 0) {
    End(job, JobState::kCancelled, EndReason::kCancelledByClient);
  } else if (job->losses_in_a_row >= queue.rules.max_losses) {
    End(job, JobState::kDead, EndReason::kLeasesLost);
  } else {
    job->state = JobState::kReady;  // its place and its holder's token stay
  }
}

void NaiveBroker::Revoke(const Queue& queue, Job* job) {
  if (job->cancel_at_ms != 0) {
    End(job, JobState::kCancelled, EndReason::kCancelledByClient);
    return;
  }
  job->run_limit_token = job->token;
  ChargeFailure(queue, job, std::nullopt);
}

void NaiveBroker::KeepHistory(Queue* queue) {
  while (true) {
    const Job* oldest = nullptr;
    int64_t finished = 0;
    for (const Job& job : queue->jobs) {
      if (job.state != JobState::kCompleted && job.state != JobState::kCancelled) continue;
      ++finished;
      if (oldest == nullptr ||
          std::pair(job.end_ms, job.order) < std::pair(oldest->end_ms, oldest->order)) {
        oldest = &job;
      }
    }
    const bool old = oldest != nullptr && oldest->end_ms + queue->rules.finished_age_ms <= now_ms_;
    if (!old && finished <= queue->rules.finished_count) return;
    Remove(queue, std::string(oldest->id));
  }
}

void NaiveBroker::Remove(Queue* queue, const std::string& id) {
  for (auto job = queue->jobs.begin(); job != queue->jobs.end(); ++job) {
    if (job->id != id) continue;
    if (job->settled.token != 0) queue->removed[job->settled.token] = {id, job->settled, now_ms_};
    queue->jobs.erase(job);
    break;
  }
  NoteEmpty(queue);
}

// --- The life of a job ------------------------------------------------------------------------

void NaiveBroker::Disown(Job* job) {
  job->token = 0;
  job->lease_ms = 0;
  job->deadline_ms = 0;
  job->run_limit_at_ms = 0;
  job->cancel_at_ms = 0;
  job->due_ms = 0;
  job->due_wall_ms = 0;
}

void NaiveBroker::End(Job* job, JobState state, EndReason reason) {
  Disown(job);
  job->state = state;
  job->end = reason;
  job->end_ms = now_ms_;
}

int64_t NaiveBroker::ChargeFailure(const Queue& queue, Job* job, std::optional<int64_t> wait_ms) {
  ++job->failures_ever;
  ++job->failures;
  job->losses_in_a_row = 0;
  if (job->failures >= MaxAttempts(queue, *job)) {
    End(job, JobState::kDead, EndReason::kAttemptsExhausted);
    return 0;
  }
  int64_t wait = queue.rules.retry_ms;
  for (int i = 1; i < job->failures && wait < kDayMs; ++i) wait *= 2;
  wait = wait_ms.value_or(std::min(wait, kDayMs));
  Disown(job);
  job->ready_ms = now_ms_ + wait;
  job->state = wait == 0 ? JobState::kReady : JobState::kDelayed;
  if (wait != 0) job->due_ms = now_ms_ + wait;
  return wait;
}

Reason NaiveBroker::CheckEnqueue(const std::string& queue, const std::vector<Spec>& specs) const {
  const auto found = queues_.find(queue);
  if (found != queues_.end() && found->second.draining) return Reason::kQueueDraining;
  std::set<std::string> ids;
  for (const Spec& spec : specs) {
    if (spec.own_id.empty()) continue;
    if (!ids.insert(spec.own_id).second || Find(queue, spec.own_id) != nullptr) {
      return Reason::kJobExists;
    }
  }
  if (found != queues_.end() && found->second.rules.max_jobs != 0 &&
      found->second.Live() + static_cast<int64_t>(specs.size()) > found->second.rules.max_jobs) {
    return Reason::kQueueFull;
  }
  return Reason::kNone;
}

void NaiveBroker::Enqueue(const std::string& queue, const std::vector<Spec>& specs,
                          const std::vector<std::string>& ids) {
  Queue* added = AddQueue(queue, true);
  for (size_t i = 0; i < specs.size(); ++i) {
    Job job;
    job.id = ids[i];
    job.order = ++orders_;
    job.spec = specs[i];
    job.priority = specs[i].priority;
    job.ready_ms = now_ms_;
    if (specs[i].expire_after_ms != 0) job.expiry_ms = now_ms_ + specs[i].expire_after_ms;
    if (specs[i].delay_ms > 0) {
      job.state = JobState::kDelayed;
      job.due_ms = job.ready_ms = now_ms_ + specs[i].delay_ms;
    } else if (specs[i].due_wall_ms > wall_ms_) {
      job.state = JobState::kDelayed;
      job.due_wall_ms = specs[i].due_wall_ms;
    }
    added->jobs.push_back(job);
  }
}

Job* NaiveBroker::Next(const std::vector<std::string>& queues, std::string* queue) {
  for (const std::string& name : queues) {
    const auto found = queues_.find(name);
    if (found == queues_.end() || found->second.paused) continue;
    Job* best = nullptr;
    for (Job& job : found->second.jobs) {
      if (job.state != JobState::kReady) continue;
      if (best == nullptr || std::tuple(-job.priority, job.ready_ms, job.order) <
                                 std::tuple(-best->priority, best->ready_ms, best->order)) {
        best = &job;
      }
    }
    if (best == nullptr) continue;
    *queue = name;
    if ((found->second.grants + 1) % 16 != 0) return best;
    // The turn of those of lower priority that have waited for over a minute.
    Job* starved = nullptr;
    for (Job& job : found->second.jobs) {
      if (job.state != JobState::kReady || job.priority >= best->priority) continue;
      if (now_ms_ - job.ready_ms <= 60'000) continue;
      if (starved == nullptr ||
          std::pair(job.ready_ms, job.order) < std::pair(starved->ready_ms, starved->order)) {
        starved = &job;
      }
    }
    return starved != nullptr ? starved : best;
  }
  return nullptr;
}

void NaiveBroker::Grant(const std::string& queue, Job* job, int64_t token, int64_t lease_ms) {
  ++queues_[queue].grants;
  Disown(job);
  job->state = JobState::kLeased;
  job->started = true;
  job->token = token;
  job->lease_ms = lease_ms;
  job->deadline_ms = now_ms_ + lease_ms;
  if (job->spec.run_limit_ms != 0) job->run_limit_at_ms = now_ms_ + job->spec.run_limit_ms;
}

SettleAnswer NaiveBroker::Settle(const std::string& queue, const std::string& id, int64_t token,
                                 SettleKind kind, std::optional<int64_t> wait_ms, bool no_retry) {
  Job* job = FindJob(queue, id);
  if (job == nullptr || job->token == 0 || job->token != token) {
    if (job != nullptr && job->settled.token == token && job->settled.kind == kind) {
      return job->settled.answer;
    }
    // A repeat for a job that is gone, even if another one has its id by now.
    const auto found = queues_.find(queue);
    if (found != queues_.end()) {
      const auto removed = found->second.removed.find(token);
      if (removed != found->second.removed.end() && removed->second.id == id &&
          removed->second.settled.kind == kind) {
        SettleAnswer answer = removed->second.settled.answer;
        answer.old = removed->second.ms + 600'000 <= now_ms_;
        return answer;
      }
    }
    SettleAnswer refused;
    refused.reason = job == nullptr ? Reason::kJobNotFound : Reason::kLeaseLost;
    return refused;
  }
  Queue& owner = queues_[queue];
  const bool cancel = job->cancel_at_ms != 0;
  if (job->state != JobState::kLeased) {  // it lapsed, and its holder is back
    --job->losses_ever;
    --job->losses_in_a_row;
  }
  SettleAnswer answer;
  switch (kind) {
    case SettleKind::kComplete:
      job->losses_in_a_row = 0;
      End(job, JobState::kCompleted, EndReason::kCompleted);
      break;
    case SettleKind::kFail:
      answer.wait_ms = ChargeFailure(owner, job, wait_ms);
      if (cancel) {
        End(job, JobState::kCancelled, EndReason::kCancelledByClient);
      } else if (no_retry) {
        End(job, JobState::kDead, EndReason::kRejectedByWorker);
      }
      break;
    case SettleKind::kRelease:
      if (cancel) {
        End(job, JobState::kCancelled, EndReason::kCancelledByClient);
        break;
      }
      Disown(job);
      job->state = wait_ms.value_or(0) > 0 ? JobState::kDelayed : JobState::kReady;
      if (wait_ms.value_or(0) > 0) job->due_ms = job->ready_ms = now_ms_ + *wait_ms;
      break;
  }
  answer.state = job->state;
  answer.end = job->end;
  if (job->ended()) {
    answer.wait_ms = 0;
  } else {
    answer.next_attempt = job->attempt();
  }
  job->settled = {token, kind, answer};
  const bool finished = job->state == JobState::kCompleted || job->state == JobState::kCancelled;
  if (finished && (owner.rules.finished_age_ms == 0 || owner.rules.finished_count == 0)) {
    Remove(&owner, id);  // none is kept: it goes with the same call
  }
  return answer;
}

LeaseStatus NaiveBroker::Heartbeat(const std::string& queue, const std::string& id, int64_t token) {
  Job* job = FindJob(queue, id);
  if (job == nullptr) return LeaseStatus::kLost;
  if (job->token == 0 || job->token != token) {
    return token != 0 && job->run_limit_token == token ? LeaseStatus::kRunLimit
                                                       : LeaseStatus::kLost;
  }
  if (job->state != JobState::kLeased) {
    --job->losses_ever;
    --job->losses_in_a_row;
    job->state = JobState::kLeased;
    job->due_ms = job->due_wall_ms = 0;
    job->deadline_ms = 0;
  }
  job->deadline_ms = std::max(job->deadline_ms, now_ms_ + job->lease_ms);
  return job->cancel_at_ms != 0 ? LeaseStatus::kCancelRequested : LeaseStatus::kRenewed;
}

// --- Producers and operators ------------------------------------------------------------------

Reason NaiveBroker::Cancel(const std::string& queue, const std::string& id) {
  Job* job = FindJob(queue, id);
  if (job == nullptr) return Reason::kJobNotFound;
  if (job->state == JobState::kCancelled) return Reason::kNone;
  if (job->ended()) return Reason::kWrongState;
  if (job->state != JobState::kLeased) {
    End(job, JobState::kCancelled, EndReason::kCancelledByClient);
  } else if (job->cancel_at_ms == 0) {
    job->cancel_at_ms = now_ms_ + queues_[queue].rules.cancel_grace_ms;
  }
  return Reason::kNone;
}

Reason NaiveBroker::Redrive(const std::string& queue, const std::string& id) {
  Job* job = FindJob(queue, id);
  if (job == nullptr) return Reason::kJobNotFound;
  if (job->state != JobState::kDead && job->state != JobState::kCancelled) {
    return Reason::kWrongState;
  }
  const Queue& owner = queues_[queue];
  if (owner.rules.max_jobs != 0 && owner.Live() >= owner.rules.max_jobs) return Reason::kQueueFull;
  Disown(job);
  job->state = JobState::kReady;
  job->ready_ms = now_ms_;
  job->started = true;
  job->failures = 0;
  job->losses_in_a_row = 0;
  job->end = EndReason::kNone;
  job->end_ms = 0;
  return Reason::kNone;
}

Reason NaiveBroker::Delete(const std::string& queue, const std::string& id, bool force) {
  Job* job = FindJob(queue, id);
  if (job == nullptr) return Reason::kJobNotFound;
  if (job->state == JobState::kLeased && !force) return Reason::kWrongState;
  Remove(&queues_[queue], id);
  return Reason::kNone;
}

Reason NaiveBroker::Update(const std::string& queue, const std::string& id,
                           std::optional<int> priority, std::optional<int64_t> delay_ms,
                           std::optional<int> max_attempts) {
  Job* job = FindJob(queue, id);
  if (job == nullptr) return Reason::kJobNotFound;
  if (job->ended()) return Reason::kWrongState;
  if (delay_ms.has_value() && job->state == JobState::kLeased) return Reason::kWrongState;
  if (priority.has_value()) job->priority = *priority;
  if (max_attempts.has_value()) job->max_attempts = *max_attempts;
  if (delay_ms.has_value()) {
    job->due_wall_ms = 0;
    job->due_ms = *delay_ms > 0 ? now_ms_ + *delay_ms : 0;
    job->ready_ms = now_ms_ + *delay_ms;
    job->state = *delay_ms > 0 ? JobState::kDelayed : JobState::kReady;
  }
  return Reason::kNone;
}

Reason NaiveBroker::Pause(const std::string& queue, bool paused) {
  if (!paused && queues_.count(queue) == 0) return Reason::kQueueNotFound;
  Queue* found = AddQueue(queue, false);
  if (found->paused != paused) {
    found->paused = paused;
    found->by_use = false;
  }
  return Reason::kNone;
}

Reason NaiveBroker::SetRules(const std::string& queue, const QueueRules& rules, bool draining) {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return Reason::kQueueNotFound;
  found->second.rules = rules;
  found->second.draining = draining;
  found->second.by_use = false;
  return Reason::kNone;
}

int64_t NaiveBroker::Purge(const std::string& queue, bool force) {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return -1;
  const size_t before = found->second.jobs.size();
  found->second.jobs.remove_if([force](const Job& job) {
    return job.waiting() || (force && job.state == JobState::kLeased);
  });
  NoteEmpty(&found->second);
  return static_cast<int64_t>(before - found->second.jobs.size());
}

Reason NaiveBroker::DeleteQueue(const std::string& queue, bool force) {
  const auto found = queues_.find(queue);
  if (found == queues_.end()) return Reason::kQueueNotFound;
  if (!found->second.jobs.empty() && !force) return Reason::kWrongState;
  queues_.erase(found);
  return Reason::kNone;
}

}  // namespace stint::model
