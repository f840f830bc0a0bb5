// Time, calls, sets of guesses, repeated requests.
#include "tests/sim/auditor.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "tests/sim/describe.h"

namespace stint::sim {

using engine::Outcome;
using engine::Reason;
using engine::ReasonOf;

bool Auditor::Job::AllGone() const {
  return std::all_of(guesses.begin(), guesses.end(), [](const Guess& g) { return g.gone; });
}

bool Auditor::Job::CertainlyReady() const {
  return std::all_of(guesses.begin(), guesses.end(),
                     [](const Guess& g) { return !g.gone && g.state == JobState::kReady; });
}

void Auditor::Fail(std::string why, const Job* job) {
  if (!failure_.empty()) return;
  failure_ = std::move(why);
  if (job == nullptr) return;
  failed_job_ = job->facts.job_id;
  absl::StrAppend(&failure_, "\n  job ", job->facts.queue, "/", job->facts.job_id,
                  ", highest token ", job->facts.max_token);
  for (const Guess& guess : job->guesses) absl::StrAppend(&failure_, "\n  was ", Describe(guess));
}

void Auditor::Submitted(CallId id, const engine::Command& command) {
  if (const auto* lease = std::get_if<engine::LeaseCommand>(&command)) {
    for (auto& [earlier, call] : calls_) {
      const auto* sent = std::get_if<engine::LeaseCommand>(&call.command);
      call.sent_again = call.sent_again ||
                        (sent != nullptr && !lease->request_id.empty() &&
                         sent->worker == lease->worker && sent->request_id == lease->request_id);
    }
  }
  Call& call = calls_[id];
  call.command = command;
  call.from_ms = NowMs();
  call.quiet_ms = quiet_ms_;
}

void Auditor::Abandoned(CallId id) {
  const auto it = calls_.find(id);
  if (it != calls_.end()) it->second.abandoned = true;
}

void Auditor::Answered(CallId id, const Outcome& outcome) {
  const auto it = calls_.find(id);
  if (it == calls_.end()) {
    Fail(absl::StrCat("call ", id, " was answered twice, or after a loss of power"));
    return;
  }
  const Call call = std::move(it->second);
  calls_.erase(it);
  const Reason reason = ReasonOf(outcome.status);
  if (!outcome.status.ok() && reason == Reason::kNone) {
    Fail(absl::StrCat("a refusal without a reason: ", outcome.status.ToString()));
    return;
  }
  switch (reason) {
    case Reason::kStoreRecovering:
    case Reason::kStoreFailed:
      doubts_.push_back(call);
      return;
    case Reason::kCallExpired:
      if (!call.abandoned) Fail("CALL_EXPIRED to a caller that waits");
      return;
    case Reason::kOverloaded:
    case Reason::kStarting:
      return;
    case Reason::kDraining:
      if (!draining_ || !std::holds_alternative<engine::LeaseCommand>(call.command)) {
        Fail("DRAINING without a drain, or to more than a new lease");
      }
      return;
    case Reason::kCorruptRecord:
      Fail(absl::StrCat("CORRUPT_RECORD: ", outcome.status.message()));
      return;
    default:
      break;
  }
  std::visit([&](const auto& command) { Answer(call, command, outcome); }, call.command);
}

void Auditor::PowerLost() {
  for (auto& [id, call] : calls_) doubts_.push_back(std::move(call));
  calls_.clear();
}

void Auditor::Started(int64_t broker_ms) {
  if (started_ && broker_ms < seen_ms_) {
    Fail(absl::StrCat("broker time went back: ", broker_ms, " after an answer said ", seen_ms_));
  }
  started_ = true;
  offset_ms_ = broker_ms - clock_->BootMs();
  last_idle_ms_ = quiet_ms_ = broker_ms;
  stalls_.clear();
  draining_ = false;
}

void Auditor::Passed(bool quiet) {
  const int64_t now = NowMs();
  const int64_t gap = now - last_idle_ms_;
  if (gap > engine::kStallMs) {
    // The broker may have given every lease as much.
    stalls_.push_back({now, gap});
    for (Job& job : jobs_) {
      for (Guess& guess : job.guesses) {
        if (guess.gone || guess.state != JobState::kLeased) continue;
        guess.lapse_by_ms += gap;
        if (gap > engine::kLongStallMs) {
          guess.lapse_by_ms = std::max(guess.lapse_by_ms,
                                       now + std::max(guess.lease_ms, options_.restart_grace_ms));
        }
      }
    }
  } else if (quiet) {
    quiet_ms_ = now;
  }
  last_idle_ms_ = now;
}

void Auditor::Froze(int64_t gap_ms) {
  if (gap_ms <= engine::kStallMs) return;
  // What could lapse could do so before.
  Moment before;
  before.by_ms = NowMs() - gap_ms;
  before.wall_high_ms = clock_->WallMs();
  for (Job& job : jobs_) {
    if (job.AllGone()) continue;
    Guesses guesses = Closure(job, before);
    for (Guess& guess : guesses) {
      if (guess.gone || guess.state != JobState::kLeased) continue;
      guess.lapse_from_ms += gap_ms;
      if (gap_ms > engine::kLongStallMs) {
        guess.lapse_from_ms = std::max(
            guess.lapse_from_ms, NowMs() + std::max(guess.lease_ms, options_.restart_grace_ms));
      }
    }
    Take(&job, std::move(guesses));
  }
}

void Auditor::WallSteps() { wall_peaks_.emplace_back(NowMs(), clock_->WallMs()); }

Moment Auditor::MomentOf(const Call& call) const {
  Moment moment;
  moment.from_ms = call.from_ms;
  moment.by_ms = NowMs();
  moment.quiet_ms = call.quiet_ms;
  moment.wall_high_ms = clock_->WallMs();
  return moment;
}

Moment Auditor::JobMoment(const Job& job, const Moment& moment) const {
  Moment own = moment;
  own.was_low = was_low_;
  for (const auto& [at_ms, wall_ms] : wall_peaks_) {
    if (at_ms >= job.facts.enqueued_from_ms) {
      own.wall_high_ms = std::max(own.wall_high_ms, wall_ms);
    }
  }
  return own;
}

Auditor::Queue& Auditor::QueueOf(const std::string& name) {
  Queue& queue = queues_[name];
  queue.name = name;
  return queue;
}

Auditor::Job* Auditor::FindJob(const engine::JobRef& ref) {
  const auto it = by_id_.find({ref.queue, ref.job_id});
  return it == by_id_.end() ? nullptr : it->second.back();
}

Auditor::Job* Auditor::AddJob(JobFacts facts, Guesses guesses) {
  jobs_.push_back({std::move(facts), {}, {}, "", 0});
  Job* job = &jobs_.back();
  Take(job, std::move(guesses));
  by_id_[{job->facts.queue, job->facts.job_id}].push_back(job);
  QueueOf(job->facts.queue).jobs.push_back(job);
  return job;
}

std::vector<record::QueueSettings> Auditor::SettingsOf(const std::string& queue) {
  std::vector<record::QueueSettings> settings;
  for (const QueueGuess& guess : QueueOf(queue).guesses) settings.push_back(guess.settings);
  return settings;
}

Guesses Auditor::Closure(const Job& job, const Moment& moment) {
  Guesses all;
  const Moment own = JobMoment(job, moment);
  for (const record::QueueSettings& settings : SettingsOf(job.facts.queue)) {
    const JobRules rules(job.facts, settings, own);
    for (const Guess& guess : job.guesses) rules.Closure(guess, &all);
  }
  return all;
}

void Auditor::Take(Job* job, Guesses guesses) {
  for (const Guess& guess : guesses) {
    if (guess.state > JobState::kLeased) AddUnique(guess, &job->ends);
    if (guess.owner > job->facts.max_token) job->facts.max_token = guess.owner;
  }
  job->guesses = std::move(guesses);
  if (!job->CertainlyReady()) {
    job->ready_since_ms = INT64_MAX;
  } else if (job->ready_since_ms == INT64_MAX) {
    job->ready_since_ms = NowMs();
  }
}

bool Auditor::Explain(Job* job, const Moment& moment, const std::string& what, const Effect& effect,
                      bool either) {
  const Guesses before = Closure(*job, moment);
  const Moment own = JobMoment(*job, moment);
  Guesses after;
  for (const record::QueueSettings& settings : SettingsOf(job->facts.queue)) {
    const JobRules rules(job->facts, settings, own);
    for (const Guess& guess : before) {
      effect(rules, guess, &after);
      if (either) AddUnique(guess, &after);
    }
  }
  if (after.empty()) {
    job->guesses = before;
    Fail(absl::StrCat("nothing explains this: ", what, "\n  at ", moment.from_ms, "..",
                      moment.by_ms, ", quiet at ", moment.quiet_ms),
         job);
    return false;
  }
  Take(job, std::move(after));
  return true;
}

bool Auditor::ExplainQueue(Queue* queue, const std::string& what, const QueueEffect& effect,
                           bool either) {
  // A queue that appeared by use and is empty is forgotten after a day.
  QueueGuesses before;
  for (const QueueGuess& guess : queue->guesses) {
    AddUnique(guess, &before);
    if (!guess.exists || !guess.ephemeral) continue;
    if (NowMs() - queue->since_ms < engine::kForgetQueueMs) continue;
    Moment now;
    now.by_ms = NowMs();
    now.wall_high_ms = clock_->WallMs();
    const Counts there = Count(queue, now, [](const Guess& g) { return !g.gone; });
    if (there.low == 0) AddUnique(QueueGuess{}, &before);
  }
  QueueGuesses after;
  for (const QueueGuess& guess : before) {
    if (auto changed = effect(guess)) AddUnique(*std::move(changed), &after);
    if (either) AddUnique(guess, &after);
  }
  if (after.empty()) {
    std::string was;
    for (const QueueGuess& guess : before) absl::StrAppend(&was, "\n  was ", Describe(guess));
    Fail(absl::StrCat("nothing explains this: ", what, "\n  queue ", queue->name, was));
    return false;
  }
  queue->guesses = std::move(after);
  return true;
}

void Auditor::SettleTime(Queue* queue) {
  Moment now;
  now.by_ms = NowMs();
  now.wall_high_ms = clock_->WallMs();
  for (Job* job : queue->jobs) {
    if (!job->AllGone()) Take(job, Closure(*job, now));
  }
}

Auditor::Counts Auditor::Count(Queue* queue, const Moment& moment,
                               const std::function<bool(const Guess&)>& is) {
  Counts counts;
  for (const Job* job : queue->jobs) {
    if (job->AllGone()) continue;
    bool some = false;
    bool all = true;
    for (const Guess& guess : Closure(*job, moment)) {
      const bool yes = is(guess);
      some = some || yes;
      all = all && yes;
    }
    counts.low += all ? 1 : 0;
    counts.high += some ? 1 : 0;
  }
  return counts;
}

bool Auditor::AnythingLives() {
  return std::any_of(jobs_.begin(), jobs_.end(), [](const Job& job) {
    return std::any_of(job.guesses.begin(), job.guesses.end(),
                       [](const Guess& guess) { return guess.live(); });
  });
}

void Auditor::NothingLives() {
  for (const Job& job : jobs_) {
    for (const Guess& guess : job.guesses) {
      if (guess.live()) Fail("without faults, and with time, this job came to no end", &job);
    }
  }
}

Auditor::Repeat Auditor::CheckRequest(const engine::RequestKey& key, const Outcome& outcome,
                                      const Moment& moment) {
  if (key.request_id.empty()) return Repeat::kFirst;
  const std::string name = absl::StrCat(key.identity, "/", key.request_id);
  std::vector<Request>& known = requests_[name];
  const Reason reason = ReasonOf(outcome.status);
  for (Request& request : known) {
    if (!request.certain || moment.by_ms - request.from_ms > options_.request_window_ms) continue;
    // It must be remembered.
    if (request.fingerprint != key.fingerprint) {
      if (reason != Reason::kRequestIdReused) {
        Fail(absl::StrCat("request id ", name, " was taken for other content"));
      }
      return Repeat::kRefused;
    }
    if (!outcome.status.ok()) {
      Fail(absl::StrCat("request id ", name,
                        " succeeded before and is now refused: ", outcome.status.ToString()));
      return Repeat::kRefused;
    }
    if (request.answer.has_value() && !SameAnswer(*request.answer, outcome)) {
      Fail(absl::StrCat("request id ", name, " got two different answers"));
      return Repeat::kRefused;
    }
    const auto* enqueued = std::get_if<engine::EnqueueReply>(&outcome.body);
    if (!request.first_job.empty() && enqueued != nullptr &&
        (enqueued->jobs.empty() || enqueued->jobs.front().job_id != request.first_job)) {
      Fail(absl::StrCat("request id ", name, " had its effect before and had it again"));
      return Repeat::kRefused;
    }
    const bool learned = !request.answer.has_value();
    request.answer = outcome;
    return learned ? Repeat::kLearned : Repeat::kAgain;
  }
  if (reason == Reason::kRequestIdReused) {
    for (const Request& request : known) {
      if (request.fingerprint != key.fingerprint) return Repeat::kRefused;
    }
    Fail(absl::StrCat("request id ", name, " was never used for other content"));
    return Repeat::kRefused;
  }
  if (!outcome.status.ok()) return Repeat::kFirst;
  Repeat repeat = Repeat::kFirst;
  Request remembered{key.fingerprint, outcome, moment.from_ms, true, ""};
  for (const Request& request : known) {
    if (request.fingerprint != key.fingerprint) continue;
    if (request.answer.has_value() && !SameAnswer(*request.answer, outcome)) continue;
    repeat = Repeat::kEither;
    remembered.from_ms = std::min(remembered.from_ms, request.from_ms);
  }
  known = {std::move(remembered)};
  return repeat;
}

}  // namespace stint::sim
