#include "tests/sim/job_model.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/engine/limits.h"

namespace stint::sim {

using engine::EndReason;
using engine::LeaseStatus;
using engine::Reason;
using engine::SettleKind;

namespace {

void ClearOwner(Guess* guess) {
  guess->owner = 0;
  guess->worker.clear();
  guess->lease_ms = 0;
  guess->lapse_from_ms = 0;
  guess->lapse_by_ms = INT64_MAX;
  guess->leased_by_ms = 0;
  guess->session = 0;
  guess->run_limit_from_ms = 0;
  guess->run_limit_by_ms = INT64_MAX;
  guess->cancel = false;
  guess->cancel_from_ms = 0;
  guess->cancel_by_ms = INT64_MAX;
}

void ClearDue(Guess* guess) {
  guess->due_from_ms = 0;
  guess->due_by_ms = INT64_MAX;
  guess->due_wall_ms.reset();
}

// From LEASED to waiting with the owner kept: nothing of the lease's times is left.
void ClearTimes(Guess* guess) {
  guess->lapse_from_ms = 0;
  guess->lapse_by_ms = INT64_MAX;
  guess->leased_by_ms = 0;
  guess->session = 0;
}

// The old holder speaks up: the loss is taken back.
Guess TakenBack(Guess guess) {
  guess.state = JobState::kLeased;
  --guess.total_losses;
  --guess.losses;
  ClearDue(&guess);
  return guess;
}

int32_t Budget(const std::optional<int32_t>& updated, bool own_set, int32_t own, bool queue_set,
               int32_t queue, int32_t fallback) {
  if (updated.has_value()) return *updated;
  if (own_set) return own;
  return queue_set ? queue : fallback;
}

bool Matches(const SettleFact& fact, const engine::SettleResult& answer) {
  return answer.status.ok() && answer.kind == fact.kind && answer.state == fact.state &&
         answer.end_reason == fact.reason && answer.next_attempt == fact.next_attempt &&
         answer.retry_delay_ms >= fact.delay_low_ms && answer.retry_delay_ms <= fact.delay_high_ms;
}

}  // namespace

bool Guess::OwnedBy(int64_t token) const {
  return !gone && state <= JobState::kLeased && state != JobState::kHeld && token > 0 &&
         owner == token;
}

void AddUnique(Guess guess, Guesses* to) {
  if (std::find(to->begin(), to->end(), guess) == to->end()) to->push_back(std::move(guess));
}

JobFacts JobRules::FactsOf(const std::string& queue, const std::string& job_id,
                           const engine::NewJob& job, const Moment& moment) {
  JobFacts facts;
  facts.queue = queue;
  facts.job_id = job_id;
  facts.job = job;
  facts.enqueued_from_ms = moment.from_ms;
  facts.enqueued_by_ms = moment.by_ms;
  if (job.expire_after_ms.has_value()) {
    facts.expiry_from_ms = moment.from_ms + *job.expire_after_ms;
    facts.expiry_by_ms = moment.by_ms + *job.expire_after_ms;
  }
  return facts;
}

Guess JobRules::Enqueued(const JobFacts& facts, const Moment& moment) {
  Guess guess;
  guess.priority = facts.job.record.priority();
  if (facts.job.due_wall_ms.has_value()) {
    // Whether that was still to come, the answer tells.
    guess.state = JobState::kDelayed;
    guess.due_wall_ms = facts.job.due_wall_ms;
  } else if (facts.job.delay_ms.value_or(0) > 0) {
    guess.state = JobState::kDelayed;
    guess.due_from_ms = moment.from_ms + *facts.job.delay_ms;
    guess.due_by_ms = moment.by_ms + *facts.job.delay_ms;
  }
  return guess;
}

int32_t JobRules::MaxAttempts(const Guess& guess) const {
  const record::JobRecord& own = facts_.job.record;
  return Budget(guess.max_attempts, own.has_max_attempts(), own.max_attempts(),
                settings_.has_max_attempts(), settings_.max_attempts(),
                engine::kDefaultMaxAttempts);
}

int32_t JobRules::MaxLosses(const Guess& guess) const {
  const record::JobRecord& own = facts_.job.record;
  return Budget(guess.max_losses, own.has_max_losses(), own.max_losses(),
                settings_.has_max_losses(), settings_.max_losses(), engine::kDefaultMaxLosses);
}

int64_t JobRules::LossBackoffMs() const {
  if (facts_.job.record.has_loss_backoff_ms()) return facts_.job.record.loss_backoff_ms();
  return settings_.has_loss_backoff_ms() ? settings_.loss_backoff_ms()
                                         : engine::kDefaultLossBackoffMs;
}

std::pair<int64_t, int64_t> JobRules::RetryDelayMs(int32_t failures) const {
  // The job's word on each field, else the queue's.
  record::RetryPolicy policy;
  policy.set_initial_delay_ms(engine::kDefaultInitialRetryMs);
  policy.set_multiplier(engine::kDefaultRetryMultiplier);
  policy.set_max_delay_ms(engine::kDefaultMaxRetryMs);
  policy.set_jitter(engine::kDefaultRetryJitter);
  policy.MergeFrom(settings_.retry());
  policy.MergeFrom(facts_.job.record.retry());
  const auto longest = static_cast<double>(policy.max_delay_ms());
  double wait = static_cast<double>(policy.initial_delay_ms());
  for (int32_t i = 1; i < failures && wait < longest; ++i) wait *= policy.multiplier();
  wait = std::min(wait, longest);
  if (wait <= 0) return {0, 0};
  const double spread = wait * policy.jitter();
  const double low = std::max(1.0, wait - spread - 1);
  const double high = std::min(std::max(1.0, longest), wait + spread + 1);
  return {static_cast<int64_t>(low), static_cast<int64_t>(std::ceil(high))};
}

bool JobRules::Forgets(JobState state) const {
  const record::Retention& keep = settings_.retention();
  if (state == JobState::kDead) {
    return (keep.has_dead_age_ms() && keep.dead_age_ms() == 0) ||
           (keep.has_dead_count() && keep.dead_count() == 0) ||
           (keep.has_dead_bytes() && keep.dead_bytes() == 0);
  }
  return (keep.has_finished_age_ms() && keep.finished_age_ms() == 0) ||
         (keep.has_finished_count() && keep.finished_count() == 0) ||
         (keep.has_finished_bytes() && keep.finished_bytes() == 0);
}

bool JobRules::MayDrop(const Guess& guess) const {
  const record::Retention& keep = settings_.retention();
  const bool dead = guess.state == JobState::kDead;
  if (!dead && moment_.was_low) return true;
  if (dead ? keep.has_dead_count() || keep.has_dead_bytes()
           : keep.has_finished_count() || keep.has_finished_bytes()) {
    return true;
  }
  const int64_t age =
      dead ? (keep.has_dead_age_ms() ? keep.dead_age_ms() : engine::kDefaultDeadAgeMs)
           : (keep.has_finished_age_ms() ? keep.finished_age_ms() : engine::kDefaultFinishedAgeMs);
  return guess.end_from_ms + age <= moment_.by_ms;
}

Guess JobRules::Ended(Guess guess, EndReason reason, int64_t from_ms,
                      absl::string_view result) const {
  ClearOwner(&guess);
  ClearDue(&guess);
  guess.state = reason == EndReason::kCompleted ? JobState::kCompleted
                : reason == EndReason::kCancelledByClient || reason == EndReason::kExpired
                    ? JobState::kCancelled
                    : JobState::kDead;
  guess.end_reason = reason;
  guess.end_from_ms = from_ms;
  guess.result = std::string(result);
  if (Forgets(guess.state)) {
    guess.gone = true;
    guess.settle_kept = true;
    guess.gone_from_ms = from_ms;
  }
  return guess;
}

bool JobRules::Overdue(const Guess& guess) const {
  const int64_t quiet_ms = moment_.quiet_ms;
  if (guess.waiting() && !guess.started && facts_.expiry_by_ms < quiet_ms) return true;
  if (guess.gone) return false;
  if (guess.state == JobState::kLeased) {
    return guess.leased_by_ms < quiet_ms &&
           std::min({guess.lapse_by_ms, guess.run_limit_by_ms, guess.cancel_by_ms}) < quiet_ms;
  }
  return guess.state == JobState::kDelayed && !guess.due_wall_ms.has_value() &&
         guess.due_by_ms < quiet_ms;
}

void JobRules::Closure(const Guess& guess, Guesses* out) const {
  Guesses all = {guess};
  for (size_t i = 0; i < all.size(); ++i) {
    const Guess from = all[i];
    Silent(from, &all);
  }
  for (Guess& one : all) {
    if (!Overdue(one)) AddUnique(std::move(one), out);
  }
}

void JobRules::Silent(const Guess& guess, Guesses* out) const {
  if (guess.gone) return;
  const int64_t now = moment_.by_ms;
  if (guess.state == JobState::kLeased) {
    if (guess.lapse_from_ms <= now) Lapse(guess, out);
    if (guess.run_limit_from_ms != 0 && guess.run_limit_from_ms <= now) {
      if (guess.cancel) {
        AddUnique(Ended(guess, EndReason::kCancelledByClient, guess.run_limit_from_ms, ""), out);
      } else {
        Guess revoked = guess;
        revoked.run_limit_token = guess.owner;
        Fail(std::move(revoked), std::nullopt, out);
      }
    }
    if (guess.cancel && guess.cancel_from_ms <= now) {
      AddUnique(Ended(guess, EndReason::kCancelledByClient, guess.cancel_from_ms, ""), out);
    }
  }
  if (guess.state == JobState::kDelayed &&
      (guess.due_wall_ms.has_value() ? *guess.due_wall_ms <= moment_.wall_high_ms
                                     : guess.due_from_ms <= now)) {
    Guess ready = guess;
    ready.state = JobState::kReady;
    ClearDue(&ready);
    AddUnique(std::move(ready), out);
  }
  if (guess.waiting() && !guess.started) {
    const bool expired = facts_.expiry_from_ms != 0
                             ? facts_.expiry_from_ms <= now
                             : facts_.job.record.has_expiry_wall_ms() &&
                                   facts_.job.record.expiry_wall_ms() <= moment_.wall_high_ms;
    if (expired) AddUnique(Ended(guess, EndReason::kExpired, facts_.expiry_from_ms, ""), out);
  }
  if (guess.ended() && MayDrop(guess)) {
    Guess dropped = guess;
    dropped.gone = true;
    dropped.settle_kept = true;
    dropped.gone_from_ms = guess.end_from_ms;
    AddUnique(std::move(dropped), out);
  }
}

void JobRules::Lapse(const Guess& guess, Guesses* out) const {
  Guess after = guess;
  ++after.total_losses;
  ++after.losses;
  if (guess.cancel) {
    AddUnique(Ended(after, EndReason::kCancelledByClient, guess.lapse_from_ms, ""), out);
    return;
  }
  if (after.losses >= MaxLosses(after)) {
    AddUnique(Ended(after, EndReason::kLeasesLost, guess.lapse_from_ms, ""), out);
    return;
  }
  ClearTimes(&after);
  ClearDue(&after);
  after.state = JobState::kReady;
  AddUnique(after, out);
  if (after.losses < 2 || LossBackoffMs() == 0) return;
  after.state = JobState::kDelayed;
  after.due_from_ms = guess.lapse_from_ms;
  AddUnique(std::move(after), out);
}

// A failure without a settle: the run limit.
void JobRules::Fail(Guess guess, std::optional<int64_t> delay_ms, Guesses* out) const {
  const int64_t from_ms = guess.run_limit_from_ms;
  ++guess.failures;
  ++guess.total_failures;
  guess.losses = 0;
  if (guess.failures >= MaxAttempts(guess)) {
    AddUnique(Ended(std::move(guess), EndReason::kAttemptsExhausted, from_ms, ""), out);
    return;
  }
  const auto [low, high] = RetryDelayMs(guess.failures);
  ClearOwner(&guess);
  ClearDue(&guess);
  if (delay_ms.value_or(high) == 0) {
    guess.state = JobState::kReady;
  } else {
    guess.state = JobState::kDelayed;
    guess.due_from_ms = from_ms + delay_ms.value_or(low);
  }
  AddUnique(std::move(guess), out);
}

void JobRules::Grant(const Guess& guess, const engine::LeaseCommand& call,
                     const engine::GrantedLease* lease, Guesses* out) const {
  if (guess.gone || guess.state != JobState::kReady) return;
  Guess after = guess;
  ClearOwner(&after);
  ClearDue(&after);
  after.state = JobState::kLeased;
  after.started = true;
  after.worker = call.worker;
  after.lease_ms = call.lease_ms;
  after.owner = lease == nullptr ? kSomeToken : lease->token;
  int64_t from_ms = moment_.from_ms;
  int64_t by_ms = moment_.by_ms;
  if (lease != nullptr) {
    if (lease->token <= facts_.max_token) return;
    const int64_t granted_ms = lease->job.state.granted_ms();
    if (granted_ms < from_ms || granted_ms > by_ms) return;
    // Whoever grants it looks at the clock first: its time to start may be over.
    const record::JobRecord& own = facts_.job.record;
    if (!guess.started && ((facts_.expiry_from_ms != 0 && facts_.expiry_by_ms <= granted_ms) ||
                           (own.has_expiry_wall_ms() &&
                            own.expiry_wall_ms() <= lease->job.state.granted_wall_ms()))) {
      return;
    }
    from_ms = by_ms = granted_ms;
  }
  after.lapse_from_ms = from_ms + call.lease_ms;
  after.lapse_by_ms = by_ms + call.lease_ms;
  after.leased_by_ms = moment_.by_ms;
  after.session = call.session;
  const int64_t limit = facts_.job.record.has_run_limit_ms() ? facts_.job.record.run_limit_ms()
                                                             : settings_.run_limit_ms();
  if (limit > 0) {
    after.run_limit_from_ms = from_ms + limit;
    after.run_limit_by_ms = by_ms + limit;
  }
  AddUnique(std::move(after), out);
}

void JobRules::Heartbeat(const Guess& guess, int64_t token, uint64_t session,
                         std::optional<LeaseStatus> status, Guesses* out) const {
  if (!guess.OwnedBy(token)) {
    // Of a job that is gone nothing else need be told.
    const bool told = token > 0 && guess.run_limit_token == token;
    if (!status.has_value() || *status == (told ? LeaseStatus::kRunLimit : LeaseStatus::kLost) ||
        (guess.gone && *status == LeaseStatus::kLost)) {
      AddUnique(guess, out);
    }
    return;
  }
  Guess after = guess.state == JobState::kLeased ? guess : TakenBack(guess);
  if (status.has_value() &&
      *status != (after.cancel ? LeaseStatus::kCancelRequested : LeaseStatus::kRenewed)) {
    return;
  }
  const bool lapsed = guess.state != JobState::kLeased;
  after.lapse_from_ms = std::max(after.lapse_from_ms, moment_.from_ms + after.lease_ms);
  after.lapse_by_ms = lapsed ? moment_.by_ms + after.lease_ms
                             : std::max(after.lapse_by_ms, moment_.by_ms + after.lease_ms);
  if (lapsed) after.leased_by_ms = moment_.by_ms;
  after.session = session;
  AddUnique(std::move(after), out);
}

void JobRules::EndSession(const Guess& guess, const engine::EndSessionCommand& call,
                          Guesses* out) const {
  if (guess.gone || guess.state != JobState::kLeased || guess.session != call.session ||
      guess.worker != call.worker) {
    return AddUnique(guess, out);
  }
  if (!call.grace_ms.has_value()) {
    engine::SettleItem release;
    release.token = guess.owner;
    release.kind = SettleKind::kRelease;
    release.release_reason = engine::ReleaseReason::kShutdown;
    return Settle(guess, release, nullptr, out);
  }
  Guess after = guess;
  after.lapse_from_ms = std::min(after.lapse_from_ms, moment_.from_ms + *call.grace_ms);
  after.lapse_by_ms = std::min(after.lapse_by_ms, moment_.by_ms + *call.grace_ms);
  AddUnique(std::move(after), out);
}

void JobRules::Settle(const Guess& guess, const engine::SettleItem& item,
                      const engine::SettleResult* answer, Guesses* out) const {
  const bool owned =
      guess.OwnedBy(item.token) ||
      (answer == nullptr && guess.owner == kSomeToken && guess.state == JobState::kLeased &&
       (item.token == kSomeToken || item.token > facts_.max_token));
  if (!owned) {
    if (answer == nullptr) return;
    const Reason refusal = engine::ReasonOf(answer->status);
    const bool repeats =
        item.token != 0 && guess.settle.token == item.token && guess.settle.kind == item.kind;
    if (guess.gone) {
      const bool kept = guess.settle_kept && repeats;
      const bool must = kept && moment_.by_ms < guess.gone_from_ms + engine::kRemovedSettleWindowMs;
      if ((kept && Matches(guess.settle, *answer)) || (!must && refusal == Reason::kJobNotFound)) {
        AddUnique(guess, out);
      }
    } else if (repeats ? Matches(guess.settle, *answer) : refusal == Reason::kLeaseLost) {
      AddUnique(guess, out);
    }
    return;
  }

  Guess after = guess.state == JobState::kLeased ? guess : TakenBack(guess);
  const bool cancel = after.cancel;
  if (item.release_reason != engine::ReleaseReason::kKindUnknown) after.kind_releases = 0;
  EndReason reason = EndReason::kNone;
  int64_t low = 0;
  int64_t high = 0;
  switch (item.kind) {
    case SettleKind::kComplete:
      reason = EndReason::kCompleted;
      after.losses = 0;
      break;
    case SettleKind::kFail:
      ++after.failures;
      ++after.total_failures;
      after.losses = 0;
      if (after.failures >= MaxAttempts(after)) reason = EndReason::kAttemptsExhausted;
      if (item.no_retry) reason = EndReason::kRejectedByWorker;
      if (cancel) reason = EndReason::kCancelledByClient;
      std::tie(low, high) = item.delay_ms.has_value() ? std::pair(*item.delay_ms, *item.delay_ms)
                                                      : RetryDelayMs(after.failures);
      break;
    case SettleKind::kRelease:
      low = high = item.delay_ms.value_or(0);
      if (item.release_reason == engine::ReleaseReason::kKindUnknown) {
        ++after.kind_releases;
        if (!item.delay_ms.has_value()) {
          low = high =
              std::min<int64_t>(int64_t{2000} << std::min(after.kind_releases - 1, 10), 60'000);
        }
      }
      if (cancel) reason = EndReason::kCancelledByClient;
      break;
  }
  const bool ends = reason != EndReason::kNone;
  SettleFact& fact = after.settle;
  fact = {};
  fact.token = item.token;
  fact.kind = item.kind;
  fact.reason = reason;
  if (ends) {
    Guess ended = Ended(after, reason, moment_.from_ms, item.result);
    ended.settle.state = ended.state;
    if (answer == nullptr || Matches(ended.settle, *answer)) AddUnique(std::move(ended), out);
    return;
  }
  fact.next_attempt = after.attempt();
  fact.state = high > 0 ? JobState::kDelayed : JobState::kReady;
  if (item.kind == SettleKind::kFail) {
    fact.delay_low_ms = low;
    fact.delay_high_ms = high;
    if (answer != nullptr) {
      if (!Matches(fact, *answer)) return;
      low = high = fact.delay_low_ms = fact.delay_high_ms = answer->retry_delay_ms;
    }
  } else if (answer != nullptr && !Matches(fact, *answer)) {
    return;
  }
  ClearOwner(&after);
  ClearDue(&after);
  after.state = fact.state;
  if (after.state == JobState::kDelayed) {
    after.due_from_ms = moment_.from_ms + low;
    after.due_by_ms = moment_.by_ms + high;
  }
  AddUnique(std::move(after), out);
}

void JobRules::Cancel(const Guess& guess, std::optional<Reason> reason,
                      std::optional<JobState> state, Guesses* out) const {
  Reason expected = Reason::kNone;
  Guess after = guess;
  JobState answered = JobState::kCancelled;
  if (guess.gone) {
    expected = Reason::kJobNotFound;
  } else if (guess.state == JobState::kLeased) {
    answered = JobState::kLeased;
    if (!after.cancel) {
      after.cancel = true;
      const int64_t grace_ms = settings_.has_cancel_grace_ms() ? settings_.cancel_grace_ms()
                                                               : engine::kDefaultCancelGraceMs;
      after.cancel_from_ms = moment_.from_ms + grace_ms;
      after.cancel_by_ms = moment_.by_ms + grace_ms;
    }
  } else if (guess.waiting()) {
    after = Ended(guess, EndReason::kCancelledByClient, moment_.from_ms, "");
  } else if (guess.state != JobState::kCancelled) {
    expected = Reason::kWrongState;
  }
  if (reason.has_value() && *reason != expected) return;
  if (state.has_value() && *state != answered) return;
  AddUnique(std::move(after), out);
}

void JobRules::Redrive(const Guess& guess, std::optional<Reason> reason, Guesses* out) const {
  // Refused for want of room: nothing changes, whatever it was.
  if (reason == Reason::kQueueFull || reason == Reason::kStoreLowSpace) {
    if (guess.ended() && guess.state != JobState::kCompleted) AddUnique(guess, out);
    return;
  }
  Reason expected = Reason::kNone;
  Guess after = guess;
  if (guess.gone) {
    expected = Reason::kJobNotFound;
  } else if (guess.state != JobState::kDead && guess.state != JobState::kCancelled) {
    expected = Reason::kWrongState;
  } else {
    ClearOwner(&after);
    ClearDue(&after);
    after.state = JobState::kReady;
    after.failures = after.losses = after.kind_releases = 0;
    after.end_reason = EndReason::kNone;
    after.end_from_ms = 0;
    after.result.clear();
    after.started = true;
  }
  if (reason.has_value() && *reason != expected) return;
  AddUnique(std::move(after), out);
}

void JobRules::Delete(const Guess& guess, bool force, std::optional<Reason> reason,
                      Guesses* out) const {
  Reason expected = Reason::kNone;
  Guess after = guess;
  if (guess.gone) {
    expected = Reason::kJobNotFound;
  } else if (guess.state == JobState::kLeased && !force) {
    expected = Reason::kWrongState;
  } else {
    after.gone = true;
    after.settle_kept = true;
    after.gone_from_ms = moment_.from_ms;
  }
  if (reason.has_value() && *reason != expected) return;
  AddUnique(std::move(after), out);
}

void JobRules::Batch(const Guess& guess, const engine::BatchCommand& call, Guesses* out) const {
  using Operation = engine::BatchCommand::Operation;
  if (call.dry_run) return;
  if (call.operation == Operation::kCancel) Cancel(guess, Reason::kNone, std::nullopt, out);
  if (call.operation == Operation::kRedrive) Redrive(guess, Reason::kNone, out);
  if (call.operation == Operation::kDelete) Delete(guess, call.force, Reason::kNone, out);
}

void JobRules::Update(const Guess& guess, const engine::UpdateJobCommand& call,
                      std::optional<Reason> reason, Guesses* out) const {
  const bool moves = call.delay_ms.has_value() || call.due_wall_ms.has_value();
  Reason expected = Reason::kNone;
  Guess after = guess;
  if (guess.gone) {
    expected = Reason::kJobNotFound;
  } else if (guess.ended() || (moves && guess.state == JobState::kLeased)) {
    expected = Reason::kWrongState;
  } else {
    if (call.priority.has_value()) after.priority = *call.priority;
    if (call.max_attempts.has_value()) after.max_attempts = call.max_attempts;
    if (call.max_losses.has_value()) after.max_losses = call.max_losses;
    if (moves) {
      after.moved = true;
      ClearDue(&after);
      after.state = JobState::kDelayed;
      if (call.due_wall_ms.has_value()) {
        after.due_wall_ms = call.due_wall_ms;
      } else if (*call.delay_ms > 0) {
        after.due_from_ms = moment_.from_ms + *call.delay_ms;
        after.due_by_ms = moment_.by_ms + *call.delay_ms;
      } else {
        after.state = JobState::kReady;
      }
    }
  }
  if (reason.has_value() && *reason != expected) return;
  if (expected == Reason::kNone && after.due_wall_ms.has_value() && moves &&
      *after.due_wall_ms <= moment_.wall_high_ms) {
    Guess ready = after;
    ready.state = JobState::kReady;
    ClearDue(&ready);
    AddUnique(std::move(ready), out);
  }
  AddUnique(std::move(after), out);
}

void JobRules::Purge(const Guess& guess, bool force, Guesses* out) const {
  Guess after = guess;
  if (guess.waiting() || (force && guess.live())) {
    after.gone = true;
    after.settle_kept = false;
    after.gone_from_ms = moment_.from_ms;
  }
  AddUnique(std::move(after), out);
}

void JobRules::DeleteQueue(const Guess& guess, Guesses* out) const {
  Guess after = guess;
  after.gone = true;
  after.settle_kept = false;
  after.gone_from_ms = moment_.from_ms;
  AddUnique(std::move(after), out);
}

namespace {

// What a stored state says without any doubt of time, against what is believed.
bool SamePlainState(const Guess& guess, const record::JobState& state) {
  return state.failures() == guess.failures && state.consecutive_losses() == guess.losses &&
         state.total_failures() == guess.total_failures &&
         state.total_losses() == guess.total_losses && state.cancel_requested() == guess.cancel &&
         state.kind_releases() == guess.kind_releases && state.priority() == guess.priority &&
         state.has_max_attempts() == guess.max_attempts.has_value() &&
         state.max_attempts() == guess.max_attempts.value_or(0) &&
         state.has_max_losses() == guess.max_losses.has_value() &&
         state.max_losses() == guess.max_losses.value_or(0) && state.worker() == guess.worker &&
         state.started() == guess.started &&
         state.end_reason() == static_cast<int32_t>(guess.end_reason);
}

bool SameSettle(const SettleFact& fact, int64_t max_token, const record::SettleAnswer& settle) {
  if (fact.token == kSomeToken ? settle.token() <= max_token : settle.token() != fact.token) {
    return false;
  }
  return fact.token == 0 || (settle.kind() == static_cast<int32_t>(fact.kind) &&
                             settle.state() == static_cast<int32_t>(fact.state) &&
                             settle.end_reason() == static_cast<int32_t>(fact.reason) &&
                             settle.next_attempt() == fact.next_attempt &&
                             settle.retry_delay_ms() >= fact.delay_low_ms &&
                             settle.retry_delay_ms() <= fact.delay_high_ms);
}

}  // namespace

void JobRules::Seen(const Guess& guess, const std::string* payload, const record::JobState& state,
                    const std::string* result, bool passing, Guesses* out) const {
  if (guess.gone && !(passing && guess.state > JobState::kLeased)) return;
  const bool leased = guess.state == JobState::kLeased;
  if (static_cast<JobState>(state.state()) != guess.state) return;
  if (guess.owner == kSomeToken ? state.owner_token() <= facts_.max_token
                                : state.owner_token() != guess.owner) {
    return;
  }
  if (!SamePlainState(guess, state) ||
      !SameSettle(guess.settle, facts_.max_token, state.settle())) {
    return;
  }
  if (guess.owner != 0 && state.lease_duration_ms() != guess.lease_ms) return;
  if (guess.run_limit_token != kSomeToken && state.run_limit_token() != guess.run_limit_token) {
    return;
  }
  if (payload != nullptr && *payload != facts_.job.record.payload()) return;
  if (result != nullptr && *result != guess.result) return;
  Guess after = guess;
  after.owner = state.owner_token();
  after.run_limit_token = state.run_limit_token();
  after.settle.token = state.settle().token();
  after.settle.delay_low_ms = after.settle.delay_high_ms = state.settle().retry_delay_ms();
  if (guess.state == JobState::kDelayed) {
    if (state.has_due_wall_ms() != guess.due_wall_ms.has_value()) return;
    if (guess.due_wall_ms.has_value()) {
      if (state.due_wall_ms() != *guess.due_wall_ms) return;
    } else {
      if (state.due_ms() < guess.due_from_ms || state.due_ms() > guess.due_by_ms) return;
      after.due_from_ms = after.due_by_ms = state.due_ms();
    }
  }
  if (leased) {
    if ((state.run_limit_at_ms() != 0) != (guess.run_limit_from_ms != 0) ||
        state.run_limit_at_ms() < guess.run_limit_from_ms) {
      return;
    }
    if (guess.run_limit_from_ms != 0) {
      if (state.run_limit_at_ms() > guess.run_limit_by_ms) return;
      after.run_limit_from_ms = after.run_limit_by_ms = state.run_limit_at_ms();
    }
    if (guess.cancel) {
      if (state.cancel_at_ms() < guess.cancel_from_ms ||
          state.cancel_at_ms() > guess.cancel_by_ms) {
        return;
      }
      after.cancel_from_ms = after.cancel_by_ms = state.cancel_at_ms();
    }
  }
  if (guess.state > JobState::kLeased) {
    if (state.end_ms() < guess.end_from_ms) return;
    after.end_from_ms = state.end_ms();
  }
  AddUnique(std::move(after), out);
}

std::string Describe(const Guess& guess) {
  return absl::StrCat(
      guess.gone ? "gone/" : "", engine::JobStateName(guess.state), " owner=", guess.owner,
      guess.cancel ? " cancel" : "", " failures=", guess.failures, "/", guess.total_failures,
      " losses=", guess.losses, "/", guess.total_losses,
      " reason=", static_cast<int>(guess.end_reason), " lapse=", guess.lapse_from_ms, "..",
      guess.lapse_by_ms, " due=", guess.due_from_ms, "..", guess.due_by_ms,
      " settle=", guess.settle.token, "/", static_cast<int>(guess.settle.kind),
      " prio=", guess.priority);
}

}  // namespace stint::sim
