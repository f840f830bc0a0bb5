// What is durable against what was answered; and after a loss of power or of unsynced groups,
// what calls of unknown outcome may have done.
#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "storage/job_id.h"
#include "storage/records.h"
#include "tests/sim/auditor.h"

namespace stint::sim {

namespace {

// More than this and something else is wrong.
constexpr size_t kMostGuesses = 5000;

bool Names(const engine::JobRef& ref, const JobFacts& facts) {
  return ref.queue == facts.queue && ref.job_id == facts.job_id;
}

}  // namespace

Dump ReadAll(const storage::Store& store) {
  constexpr size_t kAll = 1'000'000;
  const storage::Reader reader(&store);
  Dump dump;
  const auto queues = reader.ListQueues("", "", kAll);
  if (!queues.ok()) return dump;
  for (const storage::StoredQueue& queue : queues->queues) {
    const auto jobs =
        reader.ListJobs(queue, 0, kAll, kAll, true, [](const storage::StoredJob&) { return true; });
    if (!jobs.ok()) return dump;
    dump.queues.push_back({queue, jobs->jobs});
  }
  return dump;
}

void Auditor::Stable(const Dump& dump, bool restarted) {
  std::map<std::string, const record::QueueRecord*> found;
  for (const Dump::Queue& queue : dump.queues) {
    found[queue.queue.record.name()] = &queue.queue.record;
    QueueOf(queue.queue.record.name());
  }
  for (auto& [name, queue] : queues_) {
    const auto it = found.find(name);
    queue.guesses = Doubtful(queue, it == found.end() ? nullptr : it->second);
  }
  StableJobs(dump, restarted);
  StableQueues(dump);
  if (!restarted) return;
  RememberDoubtful();
  doubts_.clear();
  for (Job& job : jobs_) {
    for (Guess& guess : job.guesses) {
      if (guess.gone || guess.state != JobState::kLeased) continue;
      guess.session = 0;  // those were in memory
      guess.leased_by_ms = NowMs();
      guess.lapse_from_ms = guess.lapse_by_ms =
          NowMs() + std::max(guess.lease_ms, options_.restart_grace_ms);
    }
  }
}

QueueGuesses Auditor::Doubtful(const Queue& queue, const record::QueueRecord* found) {
  QueueGuesses all = queue.guesses;
  for (size_t i = 0; i < all.size() && all.size() < kMostGuesses; ++i) {
    const QueueGuess guess = all[i];
    // Forgotten, if it was empty for a day.
    if (guess.ephemeral && NowMs() - queue.since_ms >= engine::kForgetQueueMs) {
      AddUnique(QueueGuess{}, &all);
    }
    for (const Call& call : doubts_) {
      std::optional<QueueGuess> after;
      if (const auto* c = std::get_if<engine::EnqueueCommand>(&call.command)) {
        if (c->queue == queue.name) after = AfterEnqueue(guess, std::nullopt);
      } else if (const auto* create = std::get_if<engine::CreateQueueCommand>(&call.command)) {
        if (create->queue == queue.name) after = AfterCreate(guess, *create, std::nullopt);
      } else if (const auto* update = std::get_if<engine::UpdateQueueCommand>(&call.command)) {
        if (update->queue == queue.name) after = AfterUpdate(guess, *update, std::nullopt);
      } else if (const auto* pause = std::get_if<engine::PauseQueueCommand>(&call.command)) {
        if (pause->queue == queue.name) after = AfterPause(guess, *pause, std::nullopt);
      } else if (const auto* gone = std::get_if<engine::DeleteQueueCommand>(&call.command)) {
        if (gone->queue == queue.name) after = AfterDelete(guess, std::nullopt);
      }
      // Versions grow: what is beyond the one found explains nothing.
      if (after.has_value() && after->version <= (found == nullptr ? 0 : found->version())) {
        AddUnique(*std::move(after), &all);
      }
    }
  }
  return all;
}

void Auditor::DoubtfulEffects(const Job& job, const JobRules& rules, const Call& call,
                              const Guess& guess, Guesses* out) {
  const JobFacts& facts = job.facts;
  if (const auto* lease = std::get_if<engine::LeaseCommand>(&call.command)) {
    if (std::find(lease->queues.begin(), lease->queues.end(), facts.queue) != lease->queues.end()) {
      rules.Grant(guess, *lease, nullptr, out);
    }
  } else if (const auto* beat = std::get_if<engine::HeartbeatCommand>(&call.command)) {
    for (const engine::HeartbeatItem& item : beat->items) {
      if (Names(item.job, facts))
        rules.Heartbeat(guess, item.token, beat->session, std::nullopt, out);
    }
  } else if (const auto* end = std::get_if<engine::EndSessionCommand>(&call.command)) {
    rules.EndSession(guess, *end, out);
  } else if (const auto* settle = std::get_if<engine::SettleCommand>(&call.command)) {
    for (const engine::SettleItem& item : settle->items) {
      if (Names(item.job, facts)) rules.Settle(guess, item, nullptr, out);
    }
  } else if (const auto* cancel = std::get_if<engine::CancelCommand>(&call.command)) {
    if (Names(cancel->job, facts)) rules.Cancel(guess, std::nullopt, std::nullopt, out);
  } else if (const auto* redrive = std::get_if<engine::RedriveCommand>(&call.command)) {
    if (Names(redrive->job, facts)) rules.Redrive(guess, std::nullopt, out);
  } else if (const auto* remove = std::get_if<engine::DeleteJobCommand>(&call.command)) {
    if (Names(remove->job, facts)) rules.Delete(guess, remove->force, std::nullopt, out);
  } else if (const auto* update = std::get_if<engine::UpdateJobCommand>(&call.command)) {
    if (Names(update->job, facts)) rules.Update(guess, *update, std::nullopt, out);
  } else if (const auto* batch = std::get_if<engine::BatchCommand>(&call.command)) {
    for (const uint64_t sequence : batch->sequences) {
      if (Names({batch->queue, storage::MakeJobId(sequence)}, facts)) {
        rules.Batch(guess, *batch, out);
      }
    }
  } else if (const auto* purge = std::get_if<engine::PurgeQueueCommand>(&call.command)) {
    if (purge->queue == facts.queue) rules.Purge(guess, purge->force, out);
  } else if (const auto* gone = std::get_if<engine::DeleteQueueCommand>(&call.command)) {
    if (gone->queue == facts.queue) rules.DeleteQueue(guess, out);
  }
}

Guesses Auditor::Doubtful(const Job& job, const record::JobState* found) {
  // A grant that nobody saw explains nothing but a lease like it, a job removed by force, for
  // which one grant is as good as another, or one given back by the end of its session.
  const auto ended = [this](uint64_t session) {
    return session != 0 && std::any_of(doubts_.begin(), doubts_.end(), [session](const Call& call) {
             const auto* end = std::get_if<engine::EndSessionCommand>(&call.command);
             return end != nullptr && end->session == session;
           });
  };
  std::vector<const Call*> doubts;
  bool granted = false;
  for (const Call& call : doubts_) {
    if (const auto* lease = std::get_if<engine::LeaseCommand>(&call.command)) {
      const bool leased = found != nullptr && found->state() == storage::kStateLeased;
      if (leased ? lease->worker != found->worker() || lease->lease_ms != found->lease_duration_ms()
                 : granted && !ended(lease->session)) {
        continue;
      }
      granted = true;
    }
    doubts.push_back(&call);
  }
  Moment now;
  now.from_ms = now.by_ms = NowMs();
  now.wall_high_ms = clock_->WallMs();
  Guesses all = Closure(job, now);
  const auto settings = SettingsOf(job.facts.queue);
  for (size_t i = 0; i < all.size() && all.size() < kMostGuesses; ++i) {
    const Guess guess = all[i];
    for (const record::QueueSettings& one : settings) {
      for (const Call* call : doubts) {
        const Moment moment = JobMoment(job, MomentOf(*call));
        DoubtfulEffects(job, JobRules(job.facts, one, moment), *call, guess, &all);
      }
      const Moment moment = JobMoment(job, now);
      JobRules(job.facts, one, moment).Closure(guess, &all);
    }
  }
  return all;
}

void Auditor::StableJobs(const Dump& dump, bool restarted) {
  Moment now;
  now.from_ms = now.by_ms = NowMs();
  now.quiet_ms = restarted ? 0 : quiet_ms_;
  now.wall_high_ms = clock_->WallMs();
  std::map<std::pair<std::string, std::string>, const storage::StoredJob*> stored;
  for (const Dump::Queue& queue : dump.queues) {
    for (const storage::StoredJob& job : queue.jobs) {
      stored[{queue.queue.record.name(), job.job_id}] = &job;
    }
  }
  // Only what was known before: jobs of doubtful calls are added on the way.
  const size_t known = jobs_.size();
  for (size_t i = 0; i < known; ++i) {
    Job& job = jobs_[i];
    const auto key = std::pair(job.facts.queue, job.facts.job_id);
    const auto it = stored.find(key);
    const bool there = it != stored.end() && by_id_[key].back() == &job &&
                       it->second->record.payload() == job.facts.job.record.payload();
    if (job.AllGone() && !there) {
      if (restarted) ForgetSettle(&job);
      continue;
    }
    Guesses before =
        restarted ? Doubtful(job, there ? &it->second->state : nullptr) : Closure(job, now);
    Guesses after;
    const Moment own = JobMoment(job, now);
    const record::QueueSettings any;
    const JobRules rules(job.facts, any, own);
    if (there) {
      for (const Guess& guess : before) {
        rules.Seen(guess, &it->second->record.payload(), it->second->state, &it->second->result,
                   false, &after);
      }
    }
    // It is gone; what is there may be another job, enqueued with the same content.
    const bool another = after.empty();
    for (const Guess& guess : before) {
      if (another && guess.gone) AddUnique(guess, &after);
    }
    if (after.empty()) {
      job.guesses = before;
      Fail(absl::StrCat(restarted ? "after a restart" : "in the store", ", nothing explains this: ",
                        there ? it->second->state.ShortDebugString() : "the job is gone"),
           &job);
      return;
    }
    if (!another) {
      SawToken(it->second->state.owner_token());
      stored.erase(it);
    }
    Take(&job, std::move(after));
  }
  for (const auto& [key, job] : stored) {
    FindDoubtfulJob(key.first, *job);
    if (!failure_.empty()) return;
  }
  CheckWholeBatches();
}

void Auditor::CheckWholeBatches() {
  for (const Call& call : doubts_) {
    const auto* c = std::get_if<engine::EnqueueCommand>(&call.command);
    if (c == nullptr || call.landed.empty()) continue;
    for (size_t i = 0; i < c->jobs.size(); ++i) {
      if (call.landed.count(i) > 0) continue;
      // It was there, unless it could go since.
      const Moment moment = MomentOf(call);
      Job job;
      job.facts = JobRules::FactsOf(c->queue, c->jobs[i].record.job_id(), c->jobs[i], moment);
      job.guesses = {JobRules::Enqueued(job.facts, moment)};
      job.guesses = Doubtful(job, nullptr);
      if (std::none_of(job.guesses.begin(), job.guesses.end(),
                       [](const Guess& guess) { return guess.gone; })) {
        Fail(absl::StrCat("after a restart, half a batch is there: not ",
                          c->jobs[i].record.payload().substr(0, 8)));
      }
    }
  }
}

void Auditor::ForgetSettle(Job* job) {
  // Deleting a queue forgets what its former jobs answered.
  for (const Call& call : doubts_) {
    const auto* deleted = std::get_if<engine::DeleteQueueCommand>(&call.command);
    if (deleted == nullptr || deleted->queue != job->facts.queue) continue;
    Guesses after = job->guesses;
    for (Guess guess : job->guesses) {
      guess.settle_kept = false;
      AddUnique(std::move(guess), &after);
    }
    job->guesses = std::move(after);
  }
}

void Auditor::FindDoubtfulJob(const std::string& queue, const storage::StoredJob& stored) {
  for (Call& call : doubts_) {
    const auto* c = std::get_if<engine::EnqueueCommand>(&call.command);
    if (c == nullptr || c->queue != queue) continue;
    for (size_t i = 0; i < c->jobs.size(); ++i) {
      const engine::NewJob& job = c->jobs[i];
      if (job.record.payload() != stored.record.payload() ||
          job.record.job_id() != stored.record.job_id()) {
        continue;
      }
      const Moment moment = MomentOf(call);
      JobFacts facts = JobRules::FactsOf(queue, stored.job_id, job, moment);
      Guess guess = JobRules::Enqueued(facts, moment);
      Job* track = AddJob(std::move(facts), {guess});
      if (i == 0) call.first_job = stored.job_id;
      call.landed.insert(i);
      const Guesses before = Doubtful(*track, &stored.state);
      Guesses after;
      const Moment own = JobMoment(*track, moment);
      const record::QueueSettings any;
      for (const Guess& one : before) {
        JobRules(track->facts, any, own)
            .Seen(one, &stored.record.payload(), stored.state, &stored.result, false, &after);
      }
      if (after.empty()) {
        track->guesses = before;
        Fail(absl::StrCat("after a restart, nothing explains this: ",
                          stored.state.ShortDebugString()),
             track);
        return;
      }
      SawToken(stored.state.owner_token());
      Take(track, std::move(after));
      return;
    }
  }
  Fail(absl::StrCat(
      "the store holds job ", queue, "/", stored.job_id,
      ", which nobody enqueued, or which was removed: ", stored.state.ShortDebugString()));
}

void Auditor::StableQueues(const Dump& dump) {
  Moment now;
  now.from_ms = now.by_ms = NowMs();
  now.wall_high_ms = clock_->WallMs();
  std::map<std::string, const Dump::Queue*> stored;
  for (const Dump::Queue& queue : dump.queues) stored[queue.queue.record.name()] = &queue;
  for (auto& [name, queue] : queues_) {
    const auto it = stored.find(name);
    ExplainQueue(&queue,
                 it == stored.end()
                     ? "it is not in the store"
                     : "in the store: " + it->second->queue.record.ShortDebugString(),
                 [&](const QueueGuess& guess) -> std::optional<QueueGuess> {
                   const bool fits =
                       it == stored.end() ? !guess.exists : Shows(guess, it->second->queue.record);
                   if (!fits) return std::nullopt;
                   return guess;
                 });
    if (it != stored.end()) CheckCounters(&queue, now, it->second->queue.counters);
  }
}

void Auditor::RememberDoubtful() {
  for (const Call& call : doubts_) {
    std::visit(
        [&](const auto& c) {
          if constexpr (requires { c.request; }) {
            const engine::RequestKey& key = c.request;
            if (key.request_id.empty()) return;
            auto& known = requests_[absl::StrCat(key.identity, "/", key.request_id)];
            for (const Request& request : known) {
              // Remembered before: the call in doubt was a repeat, if anything.
              if (request.certain && NowMs() - request.from_ms <= options_.request_window_ms) {
                return;
              }
            }
            Request request;
            request.fingerprint = key.fingerprint;
            request.from_ms = call.from_ms;
            request.certain = !call.landed.empty();
            request.first_job = call.first_job;
            if (request.certain) known.clear();
            known.push_back(std::move(request));
          }
        },
        call.command);
  }
}

}  // namespace stint::sim
