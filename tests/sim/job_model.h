// What may have become of one job, told from requests and answers alone.
//
// A Guess is one state the job may be in. The auditor keeps a set of them per job: time and
// calls whose outcome is not known make it larger, each answer throws out what does not
// explain it. No guess left: the broker has broken a promise. The rules stand here a second
// time, on purpose and in other words than the engine's.
#ifndef STINT_TESTS_SIM_JOB_MODEL_H_
#define STINT_TESTS_SIM_JOB_MODEL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/command.h"
#include "server/engine/error.h"
#include "server/engine/outcome.h"

namespace stint::sim {

using engine::JobState;

// The token of a grant whose answer nobody saw.
inline constexpr int64_t kSomeToken = -1;

// The answer of the last settle that was accepted.
struct SettleFact {
  int64_t token = 0;
  engine::SettleKind kind = engine::SettleKind::kComplete;
  JobState state = JobState::kReady;
  engine::EndReason reason = engine::EndReason::kNone;
  // Retry delay: between these.
  int64_t delay_low_ms = 0;
  int64_t delay_high_ms = 0;
  int32_t next_attempt = 0;
  friend bool operator==(const SettleFact&, const SettleFact&) = default;
};

// All times are broker time. "From" is the earliest at which something may happen, "by" the
// time at which it is due for certain, if anybody looks.
struct Guess {
  // Its rows are gone; the rest says how it was before.
  bool gone = false;
  // Gone: whether its last settle is still remembered, and since when at the earliest.
  bool settle_kept = false;
  int64_t gone_from_ms = 0;

  JobState state = JobState::kReady;
  int64_t owner = 0;
  int64_t lease_ms = 0;
  int64_t lapse_from_ms = 0;
  int64_t lapse_by_ms = INT64_MAX;
  int64_t leased_by_ms = 0;       // LEASED: since then at the latest
  uint64_t session = 0;           // LEASED: the one it belongs to; 0: none
  int64_t run_limit_from_ms = 0;  // 0: none
  int64_t run_limit_by_ms = INT64_MAX;
  bool cancel = false;
  int64_t cancel_from_ms = 0;
  int64_t cancel_by_ms = INT64_MAX;

  int32_t failures = 0;
  int32_t losses = 0;
  int32_t total_failures = 0;
  int32_t total_losses = 0;
  int32_t kind_releases = 0;
  int64_t run_limit_token = 0;

  int64_t due_from_ms = 0;
  int64_t due_by_ms = INT64_MAX;
  std::optional<int64_t> due_wall_ms;
  bool started = false;
  bool moved = false;  // an operator changed its due time
  int32_t priority = 0;
  std::optional<int32_t> max_attempts;
  std::optional<int32_t> max_losses;

  engine::EndReason end_reason = engine::EndReason::kNone;
  int64_t end_from_ms = 0;
  SettleFact settle;
  std::string worker;
  std::string result;

  bool live() const { return !gone && state <= JobState::kLeased; }
  bool waiting() const { return !gone && state <= JobState::kReady; }
  bool ended() const { return !gone && state > JobState::kLeased; }
  // Whether `token` may settle it or renew its lease.
  bool OwnedBy(int64_t token) const;
  int32_t attempt() const { return 1 + total_failures + total_losses; }
  friend bool operator==(const Guess&, const Guess&) = default;
};
using Guesses = std::vector<Guess>;

// What the enqueue call said.
struct JobFacts {
  std::string queue;
  std::string job_id;
  engine::NewJob job;
  // Tokens grow for ever: the highest that was seen.
  int64_t max_token = 0;
  int64_t expiry_from_ms = 0;  // 0: none
  int64_t expiry_by_ms = INT64_MAX;
  int64_t enqueued_from_ms = 0;
  int64_t enqueued_by_ms = 0;
};

// When a call took effect, and what held then.
struct Moment {
  int64_t from_ms = 0;
  int64_t by_ms = 0;
  // At this time, before the call was made, nothing that was due was left to do.
  int64_t quiet_ms = 0;
  // The wall clock never showed more than this.
  int64_t wall_high_ms = 0;
  // The disk was nearly full at some time: finished jobs may have gone to make room.
  bool was_low = false;
};

// The rules for one job at one moment.
class JobRules {
 public:
  JobRules(const JobFacts& facts, const record::QueueSettings& settings, const Moment& moment)
      : facts_(facts), settings_(settings), moment_(moment) {}

  // A job that was enqueued at the moment, and what it is then.
  static JobFacts FactsOf(const std::string& queue, const std::string& job_id,
                          const engine::NewJob& job, const Moment& moment);
  static Guess Enqueued(const JobFacts& facts, const Moment& moment);

  // All a guess may become by itself until the moment, itself included unless it could not
  // have stayed.
  void Closure(const Guess& guess, Guesses* out) const;

  // Each adds what a guess becomes when the call is applied to it with the given answer; adds
  // nothing when the guess does not explain the answer. Without an answer: all it may become.
  void Grant(const Guess& guess, const engine::LeaseCommand& call,
             const engine::GrantedLease* lease, Guesses* out) const;
  void Heartbeat(const Guess& guess, int64_t token, uint64_t session,
                 std::optional<engine::LeaseStatus> status, Guesses* out) const;
  void EndSession(const Guess& guess, const engine::EndSessionCommand& call, Guesses* out) const;
  void Settle(const Guess& guess, const engine::SettleItem& item,
              const engine::SettleResult* answer, Guesses* out) const;
  // `reason`: kNone when it was accepted.
  void Cancel(const Guess& guess, std::optional<engine::Reason> reason,
              std::optional<JobState> state, Guesses* out) const;
  void Redrive(const Guess& guess, std::optional<engine::Reason> reason, Guesses* out) const;
  void Delete(const Guess& guess, bool force, std::optional<engine::Reason> reason,
              Guesses* out) const;
  // As one of many.
  void Batch(const Guess& guess, const engine::BatchCommand& call, Guesses* out) const;
  void Update(const Guess& guess, const engine::UpdateJobCommand& call,
              std::optional<engine::Reason> reason, Guesses* out) const;
  void Purge(const Guess& guess, bool force, Guesses* out) const;
  void DeleteQueue(const Guess& guess, Guesses* out) const;
  // The guess if it explains a snapshot, sharpened by it. `passing`: the job may be gone, if
  // it ended in the state shown.
  void Seen(const Guess& guess, const std::string* payload, const record::JobState& state,
            const std::string* result, bool passing, Guesses* out) const;

 private:
  void Silent(const Guess& guess, Guesses* out) const;
  void Lapse(const Guess& guess, Guesses* out) const;
  void Fail(Guess guess, std::optional<int64_t> delay_ms, Guesses* out) const;
  Guess Ended(Guess guess, engine::EndReason reason, int64_t from_ms,
              absl::string_view result) const;
  bool Overdue(const Guess& guess) const;
  int32_t MaxAttempts(const Guess& guess) const;
  int32_t MaxLosses(const Guess& guess) const;
  int64_t LossBackoffMs() const;
  // Shortest and longest wait after the n-th failure.
  std::pair<int64_t, int64_t> RetryDelayMs(int32_t failures) const;
  bool Forgets(JobState state) const;
  bool MayDrop(const Guess& guess) const;

  const JobFacts& facts_;
  const record::QueueSettings& settings_;
  const Moment& moment_;
};

void AddUnique(Guess guess, Guesses* to);
std::string Describe(const Guess& guess);

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_JOB_MODEL_H_
