// Answers to calls about jobs and leases.
#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "storage/job_id.h"
#include "tests/sim/auditor.h"
#include "tests/sim/describe.h"

namespace stint::sim {

using engine::LeaseStatus;
using engine::Outcome;
using engine::Reason;
using engine::ReasonOf;

void Auditor::Answer(const Call& call, const engine::EnqueueCommand& c, const Outcome& o) {
  const Moment moment = MomentOf(call);
  const Repeat repeat = CheckRequest(c.request, o, moment);
  if (repeat == Repeat::kAgain || repeat == Repeat::kRefused) return;
  if (o.status.ok()) {
    AddEnqueued(call, c, std::get<engine::EnqueueReply>(o.body), repeat);
    return;
  }
  Queue& queue = QueueOf(c.queue);
  switch (ReasonOf(o.status)) {
    case Reason::kStoreLowSpace:
      return;
    case Reason::kQueueDraining:
      ExplainQueue(&queue, "enqueue: QUEUE_DRAINING", [](const QueueGuess& guess) {
        return AfterEnqueue(guess, Reason::kQueueDraining);
      });
      return;
    case Reason::kQueueFull: {
      const Counts live = Count(&queue, moment, [](const Guess& g) { return g.live(); });
      const auto added = static_cast<int64_t>(c.jobs.size());
      ExplainQueue(
          &queue, absl::StrCat("QUEUE_FULL with at most ", live.high, " jobs"),
          [&](const QueueGuess& guess) -> std::optional<QueueGuess> {
            if (!guess.settings.has_max_jobs() || live.high + added <= guess.settings.max_jobs()) {
              return std::nullopt;
            }
            return guess;
          });
      return;
    }
    case Reason::kJobExists: {
      std::set<std::string> ids;
      for (const engine::NewJob& job : c.jobs) {
        const std::string& id = job.record.job_id();
        if (id.empty()) continue;
        const Job* there = FindJob({c.queue, id});
        if (!ids.insert(id).second || (there != nullptr && !there->AllGone())) return;
      }
      Fail("JOB_EXISTS, but there is no such job");
      return;
    }
    default:
      Fail(absl::StrCat("enqueue: unexpected ", o.status.ToString()));
  }
}

// Whether the answer names jobs that were there before, and that no new job can have replaced.
bool Auditor::OnlyRepeats(const engine::EnqueueCommand& c, const engine::EnqueueReply& reply,
                          const Moment& moment) {
  for (size_t i = 0; i < c.jobs.size(); ++i) {
    const Job* there = FindJob({c.queue, reply.jobs[i].job_id});
    if (there == nullptr) continue;
    const record::JobRecord& record = c.jobs[i].record;
    if (record.job_id().empty() && there->facts.job.record.payload() == record.payload()) {
      return true;
    }
    const Guesses now = Closure(*there, moment);
    if (std::none_of(now.begin(), now.end(), [](const Guess& g) { return g.gone; })) return true;
  }
  return false;
}

void Auditor::AddEnqueued(const Call& call, const engine::EnqueueCommand& c,
                          const engine::EnqueueReply& reply, Repeat repeat) {
  const Moment moment = MomentOf(call);
  const bool either = repeat != Repeat::kFirst;
  // Of a call that had its effect before, jobs that are known are those; the others may have gone
  // before anybody looked.
  const bool learned = repeat == Repeat::kLearned;
  if (reply.jobs.size() != c.jobs.size()) {
    Fail(absl::StrCat("enqueue of ", c.jobs.size(), " jobs answered ", reply.jobs.size()));
    return;
  }
  Queue& queue = QueueOf(c.queue);
  if (either && !learned && OnlyRepeats(c, reply, moment)) return;
  if (queue.guesses.front() == QueueGuess{}) queue.since_ms = NowMs();
  const Counts live = Count(&queue, moment, [](const Guess& g) { return g.live(); });
  const auto added = static_cast<int64_t>(c.jobs.size());
  ExplainQueue(
      &queue, absl::StrCat("enqueue of ", added, " with at least ", live.low, " jobs"),
      [&](const QueueGuess& guess) -> std::optional<QueueGuess> {
        if (guess.settings.has_max_jobs() && live.low + added > guess.settings.max_jobs()) {
          return std::nullopt;
        }
        return AfterEnqueue(guess, Reason::kNone);
      },
      either);
  for (size_t i = 0; i < c.jobs.size(); ++i) {
    const engine::NewJob& job = c.jobs[i];
    const engine::EnqueuedJob& answer = reply.jobs[i];
    Job* before = FindJob({c.queue, answer.job_id});
    if (learned && before != nullptr) continue;
    if (job.record.job_id().empty() ? before != nullptr : answer.job_id != job.record.job_id()) {
      Fail(absl::StrCat("enqueue: a job got the id ", answer.job_id));
      return;
    }
    const JobFacts facts = JobRules::FactsOf(c.queue, answer.job_id, job, moment);
    if (before != nullptr) {
      Explain(before, moment, "its id was given to a new job",
              [](const JobRules&, const Guess& guess, Guesses* out) {
                if (guess.gone) AddUnique(guess, out);
              });
    }
    Guess guess = JobRules::Enqueued(facts, moment);
    if (job.due_wall_ms.has_value() && answer.state == JobState::kReady) {
      guess.state = JobState::kReady;
      guess.due_wall_ms.reset();
    }
    Job* track = AddJob(facts, {guess});
    if (answer.state != guess.state ||
        (job.due_wall_ms.has_value() && answer.state == JobState::kReady &&
         *job.due_wall_ms > JobMoment(*track, moment).wall_high_ms)) {
      Fail(absl::StrCat("enqueued as ", engine::JobStateName(answer.state)), track);
    }
    if (either) {
      guess.gone = true;
      guess.gone_from_ms = moment.from_ms;
      AddUnique(guess, &track->guesses);
    }
  }
}

void Auditor::Answer(const Call& call, const engine::LeaseCommand& c, const Outcome& o) {
  if (!o.status.ok()) {
    Fail(absl::StrCat("lease: unexpected ", o.status.ToString()));
    return;
  }
  const auto& reply = std::get<engine::LeaseReply>(o.body);
  if (static_cast<int32_t>(reply.leases.size()) > c.max_jobs) {
    Fail(absl::StrCat("asked for ", c.max_jobs, " jobs, got ", reply.leases.size()));
  }
  if (reply.leases.empty()) CheckEmptyHands(call, c);
  const std::string key =
      c.worker.empty() || c.request_id.empty() ? "" : absl::StrCat(c.worker, "/", c.request_id);
  if (!key.empty() && static_cast<int32_t>(reply.leases.size()) < c.max_jobs) {
    // Leases of the same call that live for certain come again.
    const Moment moment = MomentOf(call);
    for (const Job* job : lease_requests_[key]) {
      if (job->lease_request != key || draining_) continue;
      const Guesses now = Closure(*job, moment);
      const bool lives = std::all_of(now.begin(), now.end(), [job](const Guess& guess) {
        return !guess.gone && guess.state == JobState::kLeased &&
               guess.owner == job->lease_request_token;
      });
      const bool there =
          std::any_of(reply.leases.begin(), reply.leases.end(), [&](const auto& lease) {
            return lease.job.job_id == job->facts.job_id && lease.job.queue == job->facts.queue;
          });
      if (lives && !there) Fail(absl::StrCat("a repeated lease call ", key, " lost a lease"), job);
    }
  }
  CheckOrder(call, reply);
  for (const engine::GrantedLease& lease : reply.leases) {
    if (!TakeLease(call, c, lease)) return;
  }
}

bool Auditor::TakeLease(const Call& call, const engine::LeaseCommand& c,
                        const engine::GrantedLease& lease) {
  const Moment moment = MomentOf(call);
  Job* job = FindJob({lease.job.queue, lease.job.job_id});
  if (job == nullptr ||
      std::find(c.queues.begin(), c.queues.end(), lease.job.queue) == c.queues.end()) {
    Fail(absl::StrCat("a lease on ", lease.job.queue, "/", lease.job.job_id,
                      ", a job that nobody enqueued there"));
    return false;
  }
  const std::string key =
      c.worker.empty() || c.request_id.empty() ? "" : absl::StrCat(c.worker, "/", c.request_id);
  const std::string what =
      absl::StrCat("lease with token ", lease.token, " {", lease.job.state.ShortDebugString(), "}");
  if (!tokens_.insert(lease.token).second) {
    if (!key.empty() && unanswered_tokens_.erase(lease.token) > 0) {
      // The repeat brings the answer that a crash swallowed.
      job->lease_request = key;
      job->lease_request_token = lease.token;
      lease_requests_[key].push_back(job);
    }
    if (key.empty() || job->lease_request != key) {
      Fail(absl::StrCat("token ", lease.token, " was granted twice"), job);
      return false;
    }
    return Explain(job, moment, "repeated " + what,
                   [&](const JobRules& rules, const Guess& guess, Guesses* out) {
                     if (guess.owner != lease.token || guess.state != JobState::kLeased) return;
                     rules.Seen(guess, &lease.job.record.payload(), lease.job.state, nullptr, false,
                                out);
                   });
  }
  if (lease.lease_ms != c.lease_ms) Fail("a lease of another duration than asked for", job);
  ExplainQueue(&QueueOf(lease.job.queue), what,
               [](const QueueGuess& guess) -> std::optional<QueueGuess> {
                 if (!guess.exists || guess.paused) return std::nullopt;
                 return guess;
               });
  const bool fine =
      Explain(job, moment, what, [&](const JobRules& rules, const Guess& guess, Guesses* out) {
        Guesses granted;
        rules.Grant(guess, c, &lease, &granted);
        for (const Guess& one : granted) {
          rules.Seen(one, &lease.job.record.payload(), lease.job.state, nullptr, false, out);
        }
      });
  GiveStalls(call, job);
  seen_ms_ = std::max(seen_ms_, lease.job.state.granted_ms());
  job->lease_request = key;
  job->lease_request_token = lease.token;
  if (!key.empty()) lease_requests_[key].push_back(job);
  return fine;
}

void Auditor::GiveStalls(const Call& call, Job* job) {
  for (const Stall& stall : stalls_) {
    if (stall.end_ms < call.from_ms) continue;
    for (Guess& guess : job->guesses) {
      if (guess.gone || guess.state != JobState::kLeased) continue;
      guess.lapse_by_ms = std::max(guess.lapse_by_ms,
                                   NowMs() + std::max(guess.lease_ms, options_.restart_grace_ms)) +
                          stall.gap_ms;
    }
  }
}

void Auditor::CheckEmptyHands(const Call& call, const engine::LeaseCommand& c) {
  if (draining_ || call.sent_again) return;
  const Moment moment = MomentOf(call);
  if (moment.by_ms - moment.from_ms < c.wait_ms) {
    Fail("a lease call was sent away before its wait was over");
  }
  // A job may have been set aside for another call that is under way.
  for (const auto& [id, other] : calls_) {
    if (std::holds_alternative<engine::LeaseCommand>(other.command)) return;
  }
  for (const std::string& name : c.queues) {
    Queue& queue = QueueOf(name);
    const bool open =
        std::all_of(queue.guesses.begin(), queue.guesses.end(),
                    [](const QueueGuess& guess) { return guess.exists && !guess.paused; });
    if (!open) continue;
    for (const Job* job : queue.jobs) {
      const Guesses now = Closure(*job, moment);
      const bool ready = std::all_of(now.begin(), now.end(), [](const Guess& guess) {
        return !guess.gone && guess.state == JobState::kReady;
      });
      if (ready) Fail("a lease call got nothing while this job was ready", job);
    }
  }
}

void Auditor::Answer(const Call& call, const engine::HeartbeatCommand& c, const Outcome& o) {
  if (!o.status.ok()) {
    Fail(absl::StrCat("heartbeat: unexpected ", o.status.ToString()));
    return;
  }
  const auto& reply = std::get<engine::HeartbeatReply>(o.body);
  if (reply.statuses.size() != c.items.size()) {
    Fail("heartbeat: not one answer for each lease");
    return;
  }
  for (size_t i = 0; i < c.items.size(); ++i) {
    const engine::HeartbeatItem& item = c.items[i];
    const LeaseStatus status = reply.statuses[i];
    Job* job = FindJob(item.job);
    if (job == nullptr) {
      if (status != LeaseStatus::kLost) Fail("a lease of no job was renewed");
      continue;
    }
    const Moment moment = MomentOf(call);
    Explain(job, moment,
            absl::StrCat("heartbeat with token ", item.token, ": ", static_cast<int>(status)),
            [&](const JobRules& rules, const Guess& guess, Guesses* out) {
              rules.Heartbeat(guess, item.token, c.session, status, out);
            });
  }
}

void Auditor::Answer(const Call& call, const engine::SettleCommand& c, const Outcome& o) {
  if (!o.status.ok()) {
    Fail(absl::StrCat("settle: unexpected ", o.status.ToString()));
    return;
  }
  const auto& reply = std::get<engine::SettleReply>(o.body);
  if (reply.results.size() != c.items.size()) {
    Fail("settle: not one answer for each item");
    return;
  }
  engine::SettleResult not_found;
  not_found.status = engine::MakeError(Reason::kJobNotFound, "");
  for (size_t i = 0; i < c.items.size(); ++i) {
    const engine::SettleItem& item = c.items[i];
    Job* job = FindSettled(item);
    if (job == nullptr) {
      if (ReasonOf(reply.results[i].status) != Reason::kJobNotFound) {
        Fail("a settle of no job was not refused with JOB_NOT_FOUND");
      }
      continue;
    }
    engine::SettleReply one;
    one.results = {reply.results[i]};
    Explain(job, MomentOf(call),
            absl::StrCat("settle kind ", static_cast<int>(item.kind), " with token ", item.token,
                         ": ", DescribeAnswer({absl::OkStatus(), one})),
            [&](const JobRules& rules, const Guess& guess, Guesses* out) {
              rules.Settle(guess, item, &reply.results[i], out);
              // Another job has the id now.
              if (guess.gone && job != FindJob(item.job) &&
                  ReasonOf(reply.results[i].status) == Reason::kLeaseLost) {
                rules.Settle(guess, item, &not_found, out);
              }
            });
  }
}

Auditor::Job* Auditor::FindSettled(const engine::SettleItem& item) {
  const auto it = by_id_.find({item.job.queue, item.job.job_id});
  if (it == by_id_.end()) return nullptr;
  for (Job* job : it->second) {
    for (const Guess& guess : job->guesses) {
      if (item.token != 0 && guess.settle.token == item.token) return job;
    }
  }
  return it->second.back();
}

void Auditor::Answer(const Call& call, const engine::CancelCommand& c, const Outcome& o) {
  JobCall(call, c.job, c.request, o, "cancel",
          [&](const JobRules& rules, const Guess& guess, Guesses* out) {
            std::optional<JobState> state;
            if (o.status.ok()) state = std::get<engine::StateReply>(o.body).state;
            rules.Cancel(guess, ReasonOf(o.status), state, out);
          });
}

void Auditor::Answer(const Call& call, const engine::RedriveCommand& c, const Outcome& o) {
  JobCall(call, c.job, c.request, o, "redrive",
          [&](const JobRules& rules, const Guess& guess, Guesses* out) {
            rules.Redrive(guess, ReasonOf(o.status), out);
          });
}

void Auditor::Answer(const Call& call, const engine::DeleteJobCommand& c, const Outcome& o) {
  JobCall(call, c.job, c.request, o, "delete",
          [&](const JobRules& rules, const Guess& guess, Guesses* out) {
            rules.Delete(guess, c.force, ReasonOf(o.status), out);
          });
}

void Auditor::Answer(const Call& call, const engine::UpdateJobCommand& c, const Outcome& o) {
  JobCall(call, c.job, c.request, o, "update",
          [&](const JobRules& rules, const Guess& guess, Guesses* out) {
            Guesses updated;
            rules.Update(guess, c, ReasonOf(o.status), &updated);
            for (const Guess& one : updated) {
              if (!o.status.ok()) {
                AddUnique(one, out);
              } else {
                const auto& job = std::get<engine::JobReply>(o.body).job;
                rules.Seen(one, nullptr, job.state, nullptr, false, out);
              }
            }
          });
}

void Auditor::JobCall(const Call& call, const engine::JobRef& ref,
                      const engine::RequestKey& request, const Outcome& outcome,
                      const std::string& what, const Effect& effect) {
  const Moment moment = MomentOf(call);
  const Repeat repeat = CheckRequest(request, outcome, moment);
  if (repeat == Repeat::kAgain || repeat == Repeat::kRefused) return;
  Job* job = FindJob(ref);
  if (job == nullptr) {
    if (ReasonOf(outcome.status) != Reason::kJobNotFound) {
      Fail(absl::StrCat(what, " of a job that never was: ", DescribeAnswer(outcome)));
    }
    return;
  }
  Explain(job, moment, absl::StrCat(what, ": ", DescribeAnswer(outcome)), effect,
          repeat != Repeat::kFirst);
}

void Auditor::Answer(const Call& call, const engine::WaitJobCommand& c, const Outcome& o) {
  const Moment moment = MomentOf(call);
  Job* job = FindJob(c.job);
  const std::string what = absl::StrCat("wait: ", DescribeAnswer(o));
  if (!o.status.ok()) {
    if (ReasonOf(o.status) != Reason::kJobNotFound) {
      Fail(absl::StrCat("wait: unexpected ", o.status.ToString()));
    } else if (job != nullptr && by_id_[{c.job.queue, c.job.job_id}].size() == 1) {
      Explain(job, moment, what, [](const JobRules&, const Guess& guess, Guesses* out) {
        if (guess.gone) AddUnique(guess, out);
      });
    }
    return;
  }
  if (job == nullptr) {
    Fail(absl::StrCat(what, ", of a job that never was"));
    return;
  }
  const auto& reply = std::get<engine::JobReply>(o.body);
  const bool ended = static_cast<JobState>(reply.job.state.state()) > JobState::kLeased;
  if (ended && c.wait_ms > 0) {
    // The state in which it ended; it may have gone on since, all in one group.
    Guesses seen;
    Guesses ends = Closure(*job, moment);
    for (const Job* one : by_id_[{c.job.queue, c.job.job_id}]) {
      ends.insert(ends.end(), one->ends.begin(), one->ends.end());
      for (const Guess& end : ends) {
        const record::QueueSettings any;
        const Moment own = JobMoment(*one, moment);
        JobRules(one->facts, any, own)
            .Seen(end, nullptr, reply.job.state, &reply.job.result, true, &seen);
      }
    }
    if (seen.empty()) Fail(absl::StrCat("nothing explains this: ", what), job);
    return;
  }
  if (!ended && !draining_ && moment.by_ms - moment.from_ms < c.wait_ms) {
    Fail("a wait ended before its time", job);
  }
  Explain(job, moment, what, [&](const JobRules& rules, const Guess& guess, Guesses* out) {
    rules.Seen(guess, nullptr, reply.job.state, &reply.job.result, false, out);
  });
}

void Auditor::Answer(const Call& call, const engine::BatchCommand& c, const Outcome& o) {
  const Moment moment = MomentOf(call);
  const Repeat repeat = CheckRequest(c.request, o, moment);
  if (repeat == Repeat::kAgain || repeat == Repeat::kRefused) return;
  const Reason reason = ReasonOf(o.status);
  const bool redrive = c.operation == engine::BatchCommand::Operation::kRedrive;
  if (reason == Reason::kQueueNotFound) return;
  if (redrive && (reason == Reason::kQueueFull || reason == Reason::kStoreLowSpace)) return;
  if (!o.status.ok()) {
    Fail(absl::StrCat("batch: unexpected ", o.status.ToString()));
    return;
  }
  const auto& reply = std::get<engine::BatchReply>(o.body);
  const auto jobs = static_cast<int64_t>(c.sequences.size());
  const int64_t seen = reply.changed + reply.moved + reply.cancelling;
  // Fewer only when a redrive found the queue full.
  if (seen > jobs || (seen < jobs && (!redrive || reply.next_sequence == 0))) {
    Fail(absl::StrCat("batch: ", jobs, " jobs, and the answer is ", DescribeAnswer(o)));
    return;
  }
  if (c.dry_run) return;
  for (const uint64_t sequence : c.sequences) {
    Job* job = FindJob({c.queue, storage::MakeJobId(sequence)});
    if (job == nullptr) {
      Fail("batch: a job that never was");
      return;
    }
    Explain(
        job, moment, absl::StrCat("batch: ", DescribeAnswer(o)),
        [&](const JobRules& rules, const Guess& guess, Guesses* out) {
          if (reply.changed < jobs) AddUnique(guess, out);
          if (reply.changed == 0) return;
          Guesses changed;
          rules.Batch(guess, c, &changed);
          for (Guess& one : changed) {
            if (one != guess) AddUnique(std::move(one), out);
          }
        },
        repeat != Repeat::kFirst);
  }
}

}  // namespace stint::sim
