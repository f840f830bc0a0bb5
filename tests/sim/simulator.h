// One seed, one history: a whole broker (engine, loop, tables over a memory store) with
// callers, faults and an auditor, in one thread on a clock that only this moves.
//
// How it is used: Simulate(seed) runs it to its end, in a few milliseconds, and reports the
// first broken promise, if any. The same seed gives the same trace. README.md tells how to
// read a failure and how to add to it.
#ifndef STINT_TESTS_SIM_SIMULATOR_H_
#define STINT_TESTS_SIM_SIMULATOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/api/edge.h"
#include "server/runtime/gateway.h"
#include "server/runtime/loop.h"
#include "storage/reader.h"
#include "tests/sim/auditor.h"
#include "tests/sim/callers.h"
#include "tests/sim/faulty_store.h"
#include "tests/sim/profile.h"
#include "tests/sim/random.h"
#include "tests/sim/streamers.h"
#include "tests/sim/trace.h"
#include "tests/support/broker_harness.h"

namespace stint::sim {

struct Report {
  // Empty: all promises were kept.
  std::string failure;
  uint64_t trace_hash = 0;
  // After a failure: the last lines, and those about the job it is about.
  std::vector<std::string> tail;
  // How many turns it took, the skipped ones included.
  size_t turns = 0;
  int64_t calls = 0;
  int64_t commits = 0;
  int64_t restarts = 0;
  int64_t virtual_ms = 0;
};

struct SimulationOptions {
  // The trace goes to standard output.
  bool echo = false;
  // The power goes right after this commit, from 1; 0: only by chance.
  int64_t power_after_commit = 0;
  // Turns that do not happen; beyond its end all do. Each turn has random numbers of its own, so
  // that the others are the same.
  std::vector<bool> skip = {};
};
Report Simulate(uint64_t seed, const SimulationOptions& options = {});
// Of a history that fails: leaves out what it can and the failure stays one. The turns to skip.
std::vector<bool> Shrink(uint64_t seed, SimulationOptions options);

class Simulator final : public Broker {
 public:
  Simulator(uint64_t seed, const SimulationOptions& options);
  ~Simulator() override;

  Report Run();

  void Call(engine::Command command, OnAnswer on_answer) override;
  void ActOnStream() override { streamers_.DoSomething(); }
  void AbandonOne() override;
  engine::BatchCommand FindBatch(const std::string& queue,
                                 engine::BatchCommand::Operation operation, bool force,
                                 uint64_t bound, uint64_t from) override;
  int64_t WallMs() const override { return clock_.wall_ms; }
  int64_t NowMs() const override { return auditor_.NowMs(); }

 private:
  // What the streams ask of the loop; the auditor sees it like any other call.
  class StreamGateway final : public runtime::Gateway {
   public:
    explicit StreamGateway(Simulator* simulator) : simulator_(simulator) {}
    absl::Status Submit(runtime::Call call) override {
      return simulator_->SubmitOfStream(std::move(call));
    }
    void BeginDrain() override {}

   private:
    Simulator* const simulator_;
  };
  absl::Status SubmitOfStream(runtime::Call call);

  struct OpenCall {
    OnAnswer on_answer;
    std::shared_ptr<bool> abandoned;
  };

  void Turn();
  void Fault();
  // Starts the broker on a store.
  void Boot(std::unique_ptr<storage::MemoryStore> inner);
  void OpenEdge();
  // The power goes, and comes back.
  void LosePower(const char* why);
  void Answered(CallId id, const engine::Outcome& outcome);
  // Runs something that may lose power. True: it did something.
  bool Guarded(const std::function<bool()>& run);
  bool Step();
  bool RunPosted();
  // Steps until nothing more happens at this instant.
  void Settle();
  // Time passes, with the broker running.
  void Pass(int64_t ms, int64_t step_ms);
  void MoveClocks(int64_t ms);
  // The engine's memory against the rows, and the rows against each other (storage/fsck).
  void CheckInvariants(absl::string_view when);
  void AuditStore();
  // Faults stop: everything has to come to an end.
  void Finish();
  void Note(std::string line);
  bool Failed() const {
    return !failure_.empty() || !auditor_.failure().empty() || !streamers_.failure().empty();
  }

  const SimulationOptions options_;
  const uint64_t seed_;
  Random random_;
  Trace trace_;
  Profile profile_;
  testing::ManualClock clock_;
  testing::ManualExecutor executor_;
  Auditor auditor_;
  Callers callers_;
  StreamGateway stream_gateway_{this};
  // What is in force now; `profile_.faults` or none.
  StoreFaults faults_;
  int power_at_answer_ = 0;
  int lost_answer_ = 0;
  std::unique_ptr<FaultyStore> store_;
  std::unique_ptr<runtime::Loop> loop_;
  std::unique_ptr<storage::Reader> reader_;
  std::unique_ptr<api::Edge> edge_;
  // Boot time of the last look at the sessions.
  int64_t ticked_ms_ = 0;
  Streamers streamers_;
  std::map<CallId, OpenCall> open_;
  CallId next_call_ = 1;
  std::string failure_;
  bool low_space_ = false;
  bool booting_ = false;
  int64_t looked_at_commit_ = 0;
  Report report_;
};

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_SIMULATOR_H_
