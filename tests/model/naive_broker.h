// What a broker should do, as plainly as it can be said: lists that are walked, rules written
// from the design and not from the engine. The model test compares the two after each command.
//
// How it is used: one call for each command, with what only the real broker can know (job ids,
// tokens) taken from its answers; Tick after each step of time. It keeps no order of its own but
// that of the design, and is as slow as it is simple.
//
// What it leaves out: groups, syncs, waits, bytes, jitter, back-off after losses. Used by one
// thread.
#ifndef STINT_TESTS_MODEL_NAIVE_BROKER_H_
#define STINT_TESTS_MODEL_NAIVE_BROKER_H_

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/error.h"
#include "server/engine/types.h"

namespace stint::model {

using engine::EndReason;
using engine::JobState;
using engine::LeaseStatus;
using engine::Reason;
using engine::SettleKind;

// What is said of a job when it is enqueued. Numbers of 0 mean "not said".
struct Spec {
  std::string own_id;
  int priority = 5;
  int64_t delay_ms = 0;
  int64_t due_wall_ms = 0;
  int64_t expire_after_ms = 0;
  int64_t run_limit_ms = 0;
  int max_attempts = 0;
};

struct SettleAnswer {
  Reason reason = Reason::kNone;
  JobState state = JobState::kCompleted;
  EndReason end = EndReason::kNone;
  int64_t wait_ms = 0;
  int next_attempt = 0;
  // Of a job that went more than ten minutes ago: may be forgotten by now.
  bool old = false;
};

struct Settled {
  int64_t token = 0;
  SettleKind kind = SettleKind::kComplete;
  SettleAnswer answer;
};

struct Job {
  std::string id;
  uint64_t order = 0;  // of enqueue
  Spec spec;
  JobState state = JobState::kReady;
  int priority = 5;
  int64_t ready_ms = 0;
  int64_t due_ms = 0;
  int64_t due_wall_ms = 0;
  int64_t expiry_ms = 0;
  bool started = false;
  int failures_ever = 0;
  int losses_ever = 0;
  int failures = 0;
  int losses_in_a_row = 0;
  int max_attempts = 0;  // set later; 0: as said or as the queue says
  // Who may settle; 0: nobody.
  int64_t token = 0;
  int64_t lease_ms = 0;
  int64_t deadline_ms = 0;
  int64_t run_limit_at_ms = 0;
  int64_t cancel_at_ms = 0;  // 0: not asked for
  int64_t run_limit_token = 0;
  int64_t end_ms = 0;
  EndReason end = EndReason::kNone;
  Settled settled;

  int attempt() const { return 1 + failures_ever + losses_ever; }
  bool waiting() const { return state <= JobState::kReady; }
  bool ended() const { return state >= JobState::kCompleted; }
};

struct QueueRules {
  int max_attempts = 20;
  int max_losses = 3;
  int64_t retry_ms = 1'000;  // doubling
  int64_t cancel_grace_ms = 10'000;
  int64_t finished_age_ms = 86'400'000;
  int64_t finished_count = 1'000'000;
  int64_t max_jobs = 0;  // 0: no limit
};

struct Queue {
  QueueRules rules;
  bool paused = false;
  bool draining = false;
  bool by_use = true;
  int64_t forget_ms = 0;
  uint64_t grants = 0;
  std::list<Job> jobs;  // in order of enqueue
  // Settles of jobs that are gone, by token.
  struct Removed {
    std::string id;
    Settled settled;
    int64_t ms = 0;
  };
  std::map<int64_t, Removed> removed;

  int64_t Count(JobState state) const;
  int64_t Live() const;
};

class NaiveBroker {
 public:
  // Time has come to `now_ms` of broker time and `wall_ms`.
  void Tick(int64_t now_ms, int64_t wall_ms);
  // The broker stood still for `gap_ms`, or started.
  void Stall(int64_t gap_ms);
  void Restart(int64_t now_ms, int64_t wall_ms);

  Reason CheckEnqueue(const std::string& queue, const std::vector<Spec>& specs) const;
  void Enqueue(const std::string& queue, const std::vector<Spec>& specs,
               const std::vector<std::string>& ids);
  // The job that the next grant is for; nullptr: there is none.
  Job* Next(const std::vector<std::string>& queues, std::string* queue);
  void Grant(const std::string& queue, Job* job, int64_t token, int64_t lease_ms);
  SettleAnswer Settle(const std::string& queue, const std::string& id, int64_t token,
                      SettleKind kind, std::optional<int64_t> wait_ms, bool no_retry);
  LeaseStatus Heartbeat(const std::string& queue, const std::string& id, int64_t token);
  Reason Cancel(const std::string& queue, const std::string& id);
  Reason Redrive(const std::string& queue, const std::string& id);
  Reason Delete(const std::string& queue, const std::string& id, bool force);
  Reason Update(const std::string& queue, const std::string& id, std::optional<int> priority,
                std::optional<int64_t> delay_ms, std::optional<int> max_attempts);
  Reason Pause(const std::string& queue, bool paused);
  Reason SetRules(const std::string& queue, const QueueRules& rules, bool draining);
  // How many are gone; −1: there is no such queue.
  int64_t Purge(const std::string& queue, bool force);
  Reason DeleteQueue(const std::string& queue, bool force);

  const std::map<std::string, Queue>& queues() const { return queues_; }
  const Job* Find(const std::string& queue, const std::string& id) const;

 private:
  Job* FindJob(const std::string& queue, const std::string& id);
  Queue* AddQueue(const std::string& name, bool by_use);
  int MaxAttempts(const Queue& queue, const Job& job) const;
  static void Disown(Job* job);
  void End(Job* job, JobState state, EndReason reason);
  // Retry or the end; returns the wait.
  int64_t ChargeFailure(const Queue& queue, Job* job, std::optional<int64_t> wait_ms);
  void Lapse(const Queue& queue, Job* job);
  void Revoke(const Queue& queue, Job* job);
  void KeepHistory(Queue* queue);
  void Remove(Queue* queue, const std::string& id);
  void NoteEmpty(Queue* queue);

  std::map<std::string, Queue> queues_;
  int64_t now_ms_ = 0;
  int64_t wall_ms_ = 0;
  uint64_t orders_ = 0;
};

}  // namespace stint::model

#endif  // STINT_TESTS_MODEL_NAIVE_BROKER_H_
