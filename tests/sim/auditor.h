// Judges a broker by what it was asked and what it answered.
//
// How it is used: the simulator tells it each call it submits and each answer in the order of
// release, which is the order in which calls took effect; each loss of power, stall and step
// of the wall clock; and shows it now and then what the store holds for good (Stable). It
// keeps for each job and queue the set of states that explain all of that (job_model.h,
// queue_model.h), and for each request id what has to be repeated.
//
// What it checks: nothing answered is lost (P1); one holder, tokens that grow, a call with an
// older token changes nothing, a completed job is never granted again (P2); a lease lapses
// when it should and never earlier (P3); repeated calls have one effect and one answer (P5);
// budgets (P6); broker time (P8); nothing unsynced is ever seen.
//
// What it does not know: the engine, its memory, its rows. Used by one thread.
#ifndef STINT_TESTS_SIM_AUDITOR_H_
#define STINT_TESTS_SIM_AUDITOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/limits.h"
#include "server/runtime/clock.h"
#include "storage/reader.h"
#include "tests/sim/job_model.h"
#include "tests/sim/queue_model.h"

namespace stint::sim {

using CallId = int64_t;

// All that is in a store for good.
struct Dump {
  struct Queue {
    storage::StoredQueue queue;
    std::vector<storage::StoredJob> jobs;
  };
  std::vector<Queue> queues;
};
Dump ReadAll(const storage::Store& store);

class Auditor {
 public:
  struct Options {
    int64_t restart_grace_ms = 0;
    int64_t request_window_ms = 0;
  };
  // `clock` outlives the auditor.
  Auditor(const Options& options, const runtime::Clock* clock) : options_(options), clock_(clock) {}

  void Submitted(CallId id, const engine::Command& command);
  // Nobody waits for the answer any more.
  void Abandoned(CallId id);
  void Answered(CallId id, const engine::Outcome& outcome);

  // Calls under way will not be answered.
  void PowerLost();
  // The broker is up again and says what time it is.
  void Started(int64_t broker_ms);
  // What is durable now. `restarted`: memory was built from it just now.
  void Stable(const Dump& dump, bool restarted);
  // A pass of the loop ended and left nothing half done; `quiet`: nor anything to do.
  void Passed(bool quiet);
  // The clock went on by this much while the broker stood still.
  void Froze(int64_t gap_ms);
  // The wall clock is about to step.
  void WallSteps();
  void Drains() { draining_ = true; }
  void DiskNearlyFull() { was_low_ = true; }

  int64_t NowMs() const { return clock_->BootMs() + offset_ms_; }
  // The first broken promise; empty: none.
  const std::string& failure() const { return failure_; }
  // The job it is about, if any.
  const std::string& failed_job() const { return failed_job_; }
  size_t open_calls() const { return calls_.size(); }
  // Tokens of the leases that are in force and belong to a session, for certain.
  std::set<int64_t> LeasesOf(uint64_t session);
  // Whether there may be jobs that have not ended; there must be none.
  bool AnythingLives();
  void NothingLives();

 private:
  struct Call {
    engine::Command command;
    int64_t from_ms = 0;
    int64_t quiet_ms = 0;
    bool abandoned = false;
    // LeaseJobs: sent again since, which ends its wait.
    bool sent_again = false;
    // An enqueue whose answer nobody saw: which of its jobs are there, and the first one's id.
    std::set<size_t> landed;
    std::string first_job;
  };
  struct Job {
    JobFacts facts;
    Guesses guesses;
    // States in which it has ended before.
    Guesses ends;
    // "worker/request id" of the call that got the lease in force.
    std::string lease_request;
    // The token of that grant.
    int64_t lease_request_token = 0;
    // Since when it has been READY for certain; INT64_MAX: it may be something else.
    int64_t ready_since_ms = INT64_MAX;
    bool AllGone() const;
    bool CertainlyReady() const;
  };
  struct Queue {
    std::string name;
    QueueGuesses guesses = {QueueGuess{}};
    int64_t since_ms = 0;
    std::vector<Job*> jobs;
  };
  struct Request {
    uint64_t fingerprint = 0;
    // Unset: the call took effect, or may have, and nobody saw its answer.
    std::optional<engine::Outcome> answer;
    int64_t from_ms = 0;
    // It is remembered for certain.
    bool certain = false;
    // An enqueue without an answer: the job that the answer has to name first.
    std::string first_job;
  };
  // kLearned: it had its effect before for certain, and nobody saw its answer.
  enum class Repeat { kFirst, kAgain, kLearned, kEither, kRefused };
  using Effect = std::function<void(const JobRules&, const Guess&, Guesses*)>;
  using QueueEffect = std::function<std::optional<QueueGuess>(const QueueGuess&)>;

  void Fail(std::string why, const Job* job = nullptr);
  Moment MomentOf(const Call& call) const;
  Moment JobMoment(const Job& job, const Moment& moment) const;
  Queue& QueueOf(const std::string& name);
  Job* FindJob(const engine::JobRef& ref);
  // The job of that id that was last settled with the item's token; else the one there now.
  Job* FindSettled(const engine::SettleItem& item);
  Job* AddJob(JobFacts facts, Guesses guesses);
  std::vector<record::QueueSettings> SettingsOf(const std::string& queue);
  Guesses Closure(const Job& job, const Moment& moment);
  void Take(Job* job, Guesses guesses);
  // Throws out what does not explain an answer. `either`: perhaps it was only a repeat.
  bool Explain(Job* job, const Moment& moment, const std::string& what, const Effect& effect,
               bool either = false);
  bool ExplainQueue(Queue* queue, const std::string& what, const QueueEffect& effect,
                    bool either = false);
  // For all jobs of a queue: what they may have become until now.
  void SettleTime(Queue* queue);

  Repeat CheckRequest(const engine::RequestKey& key, const engine::Outcome& outcome,
                      const Moment& moment);
  // One for each command.
  void Answer(const Call& call, const engine::EnqueueCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::LeaseCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::HeartbeatCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::EndSessionCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::SettleCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::CancelCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::RedriveCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::DeleteJobCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::UpdateJobCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::WaitJobCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::BatchCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::CreateQueueCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::UpdateQueueCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::DeleteQueueCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::PauseQueueCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::PurgeQueueCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::QueueStatsCommand& c, const engine::Outcome& o);
  void Answer(const Call& call, const engine::ServerInfoCommand& c, const engine::Outcome& o);
  template <typename Command>
  void Answer(const Call&, const Command&, const engine::Outcome&) {}

  // A call about one job, which changes it by `effect`.
  void JobCall(const Call& call, const engine::JobRef& ref, const engine::RequestKey& request,
               const engine::Outcome& outcome, const std::string& what, const Effect& effect);
  bool OnlyRepeats(const engine::EnqueueCommand& c, const engine::EnqueueReply& reply,
                   const Moment& moment);
  void AddEnqueued(const Call& call, const engine::EnqueueCommand& c,
                   const engine::EnqueueReply& reply, Repeat repeat);
  // Nothing that was READY all the time may be passed over by a lease behind it.
  void CheckOrder(const Call& call, const engine::LeaseReply& reply);
  // Stalls between a call that set the time of a lease and its answer count for the lease.
  void GiveStalls(const Call& call, Job* job);
  void CheckEmptyHands(const Call& call, const engine::LeaseCommand& c);
  bool TakeLease(const Call& call, const engine::LeaseCommand& c,
                 const engine::GrantedLease& lease);
  void SettingsChange(const Call& call, Queue* queue, const engine::RequestKey& request,
                      const engine::Outcome& outcome, const std::string& what,
                      const QueueEffect& effect);
  struct Counts {
    int64_t low = 0;
    int64_t high = 0;
  };
  // How many jobs of a queue are for certain, and perhaps, as `is` says.
  Counts Count(Queue* queue, const Moment& moment, const std::function<bool(const Guess&)>& is);

  void CheckCounters(Queue* queue, const Moment& moment, const record::QueueCounters& counters);

  // auditor_stable.cc
  void StableQueues(const Dump& dump);
  void StableJobs(const Dump& dump, bool restarted);
  void FindDoubtfulJob(const std::string& queue, const storage::StoredJob& stored);
  // An enqueue adds all of its jobs or none.
  void CheckWholeBatches();
  void ForgetSettle(Job* job);
  void RememberDoubtful();
  // What a job may be after calls of unknown outcome, any of them, in any order, as far as it
  // can explain what was found; nullptr: it was not found.
  Guesses Doubtful(const Job& job, const record::JobState* found);
  QueueGuesses Doubtful(const Queue& queue, const record::QueueRecord* found);
  void DoubtfulEffects(const Job& job, const JobRules& rules, const Call& call, const Guess& guess,
                       Guesses* out);

  const Options options_;
  const runtime::Clock* clock_;
  int64_t offset_ms_ = 0;
  bool started_ = false;
  // The latest broker time that was part of a durable answer.
  int64_t seen_ms_ = 0;
  int64_t quiet_ms_ = 0;
  int64_t last_idle_ms_ = 0;
  bool draining_ = false;
  bool was_low_ = false;
  struct Stall {
    int64_t end_ms;
    int64_t gap_ms;
  };
  std::vector<Stall> stalls_;
  // Before each step of the wall clock: broker time, wall clock.
  std::vector<std::pair<int64_t, int64_t>> wall_peaks_;

  std::map<CallId, Call> calls_;
  std::vector<Call> doubts_;
  std::deque<Job> jobs_;
  std::map<std::pair<std::string, std::string>, std::vector<Job*>> by_id_;
  std::map<std::string, Queue> queues_;
  std::map<std::string, std::vector<Request>> requests_;
  // "worker/request id" -> jobs granted in this run.
  std::map<std::string, std::vector<Job*>> lease_requests_;
  std::set<int64_t> tokens_;
  // Of grants that are in the store and whose answers a crash swallowed.
  std::set<int64_t> unanswered_tokens_;
  void SawToken(int64_t token) {
    if (token != 0 && tokens_.insert(token).second) unanswered_tokens_.insert(token);
  }
  std::string failure_;
  std::string failed_job_;
};

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_AUDITOR_H_
