// A whole broker without threads, network or disk: the real engine and loop over a memory
// store, on a clock that only the test moves. Deterministic; time passes in no time.
//
// How it is used: Call gives the answer to a command; Start lets a call wait, and the test
// looks at it when it has moved the clock. Crash continues on what was durable.
//
// Syncs are as fast as they can be, unless set_late_syncs makes them as slow as they can be:
// then the next group is always applied before the one in front of it is durable.
#ifndef STINT_TESTS_SUPPORT_BROKER_HARNESS_H_
#define STINT_TESTS_SUPPORT_BROKER_HARNESS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/command.h"
#include "server/engine/error.h"
#include "server/engine/outcome.h"
#include "server/runtime/clock.h"
#include "server/runtime/executor.h"
#include "server/runtime/loop.h"
#include "storage/memory_store.h"

namespace stint::testing {

class ManualClock final : public runtime::Clock {
 public:
  int64_t BootMs() const override { return boot_ms; }
  int64_t WallMs() const override { return wall_ms; }
  std::string BootId() const override { return boot_id; }

  int64_t boot_ms = 1'000'000;
  int64_t wall_ms = 1'760'000'000'000;
  std::string boot_id = "boot-1";
};

// Keeps what is posted until the test, or the harness, runs it.
class ManualExecutor final : public runtime::Executor {
 public:
  void Post(std::function<void()> work) override { posted_.push_back(std::move(work)); }
  // False: there was nothing.
  bool RunOne();
  void Clear() { posted_.clear(); }

 private:
  std::deque<std::function<void()>> posted_;
};

// A call under way.
struct PendingCall {
  std::optional<engine::Outcome> outcome;
  bool abandoned = false;
};

class BrokerHarness {
 public:
  explicit BrokerHarness(runtime::LoopOptions options = {}, storage::MemoryFaults faults = {});
  ~BrokerHarness();

  // Submits a command and runs until nothing more happens without time.
  std::shared_ptr<PendingCall> Start(engine::Command command);
  // The same without running anything: what is submitted until Settle comes into one group.
  std::shared_ptr<PendingCall> Submit(engine::Command command);
  // The answer; a test failure and an INTERNAL status if it has to wait.
  engine::Outcome Call(engine::Command command);
  // Runs the loop and the executor until there is nothing to do at this instant.
  void Settle();
  // Moves both clocks, in steps of at most `step_ms`, running the loop at each.
  void Advance(int64_t ms, int64_t step_ms = 250);
  // Moves only the wall clock.
  void StepWall(int64_t ms);
  // Both clocks move at once, with the broker standing still.
  void Freeze(int64_t ms);

  // Loses everything that is not durable and starts again after `down_ms`. Calls under way
  // are never answered.
  void Crash(int64_t down_ms = 0, size_t unsynced_kept = 0);
  void set_late_syncs(bool late) { late_syncs_ = late; }

  // Shorthand.
  static engine::NewJob Job(std::string payload = "");
  engine::EnqueueReply Enqueue(const std::string& queue, engine::NewJob job = Job());
  engine::EnqueueReply EnqueueMany(const std::string& queue, std::vector<engine::NewJob> jobs);
  // Without waiting; empty if there is none.
  std::vector<engine::GrantedLease> Lease(const std::string& queue, int jobs = 1,
                                          int64_t lease_ms = 15'000,
                                          const std::string& worker = "w1");
  static engine::LeaseCommand LeaseCall(const std::string& queue, int64_t wait_ms,
                                        const std::string& worker = "w1");
  engine::SettleResult Settle(engine::SettleItem item);
  // One item of a settle of many.
  static engine::SettleItem Completion(const engine::GrantedLease& lease, std::string result = "");
  engine::SettleResult Complete(const engine::GrantedLease& lease, std::string result = "");
  engine::SettleResult Fail(const engine::GrantedLease& lease,
                            std::optional<int64_t> retry_after_ms = std::nullopt,
                            bool no_retry = false);
  engine::SettleResult Release(const engine::GrantedLease& lease,
                               std::optional<int64_t> delay_ms = std::nullopt);
  engine::LeaseStatus Heartbeat(const engine::GrantedLease& lease);
  engine::JobSnapshot Get(const std::string& queue, const std::string& job_id);
  engine::QueueStatsReply Stats(const std::string& queue);
  static engine::JobRef Ref(const engine::GrantedLease& lease) {
    return {lease.job.queue, lease.job.job_id};
  }

  // OK when every row, index and counter agrees with every other and with memory.
  absl::Status Check();

  // The most rounds of fetching that any group has needed.
  uint64_t most_rounds() const { return most_rounds_; }

  ManualClock& clock() { return clock_; }
  ManualExecutor& executor() { return executor_; }
  storage::MemoryStore& store() { return *store_; }
  runtime::Loop& loop() { return *loop_; }
  // Gets what sessions have to be told.
  void set_on_verdict(std::function<void(engine::SessionVerdict)> tell) {
    on_verdict_ = std::move(tell);
  }
  // Lines the loop had to say.
  const std::vector<std::string>& notices() const { return notices_; }
  const absl::Status& fatal() const { return fatal_; }

 private:
  void Open(std::unique_ptr<storage::MemoryStore> store);
  bool Step();

  runtime::LoopOptions options_;
  ManualClock clock_;
  ManualExecutor executor_;
  std::unique_ptr<storage::MemoryStore> store_;
  std::unique_ptr<runtime::Loop> loop_;
  std::function<void(engine::SessionVerdict)> on_verdict_;
  std::vector<std::string> notices_;
  absl::Status fatal_;
  bool late_syncs_ = false;
  uint64_t most_rounds_ = 0;
};

}  // namespace stint::testing

#endif  // STINT_TESTS_SUPPORT_BROKER_HARNESS_H_
