// The thread of decisions, as a state machine that somebody steps: takes what waits in the
// inbox, applies it as one group, commits the group, and has it made durable and its answers
// given out by an executor while it applies the next.
//
//   inbox ─► open group: applied, not committed ─► group in sync: committed, not durable ─► answers
//
// At most one group is in each place. Nothing is answered before everything it could have
// seen is durable; a group without writes waits only for the group in sync before it.
//
// How it is used: Start, then Step until it says there was nothing to do, then wait until
// the inbox wakes or WaitMs has passed, and again. Submit may be called from any thread, all
// else from one. BrokerLoop (broker_loop.h) is the thread; the simulator steps it itself.
#ifndef STINT_SERVER_RUNTIME_LOOP_H_
#define STINT_SERVER_RUNTIME_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "server/engine/engine.h"
#include "server/runtime/clock.h"
#include "server/runtime/executor.h"
#include "server/runtime/gateway.h"
#include "server/runtime/inbox.h"
#include "server/runtime/loop_metrics.h"
#include "server/runtime/matcher.h"
#include "storage/row_view.h"
#include "storage/store.h"
#include "sync/mutex.h"

namespace stint::runtime {

struct LoopOptions {
  engine::EngineOptions engine;
  InboxLimits inbox;
  size_t max_parked_calls = engine::kMaxParkedCalls;
  size_t max_parked_bytes = engine::kMaxParkedBytes;
  // Without calls for this long after a group, a trailer is written: a group of nothing that
  // says the one before it is durable, so that damage to that one cannot be taken for a torn
  // tail.
  int64_t trailer_ms = 20;
  // Queues with a label of their own in the metrics.
  size_t labelled_queues = kDefaultLabelledQueues;
};

// The answer to a call that was dropped because nobody waited for it any more.
absl::Status CallExpired();

struct LoopHooks {
  // The store failed for good; called once, from any thread. The process has to stop.
  std::function<void(const absl::Status&)> on_fatal;
  // One line for the log, such as recovery from a full disk.
  std::function<void(const std::string&)> on_notice;
  // Something of a lease that its session has to be told; after the answers of its group, from
  // the publishing thread; must not block.
  std::function<void(engine::SessionVerdict)> on_verdict;
  // Seed of all jitter.
  uint64_t entropy = 0;
};

class Loop final : public Gateway {
 public:
  // `store`, `clock` and `executor` outlive the loop; `executor` must be empty when it ends.
  Loop(storage::Store* store, const Clock* clock, Executor* executor, const LoopOptions& options,
       LoopHooks hooks);
  ~Loop() override;

  // Builds memory from the store. Before it, Submit refuses with STARTING.
  absl::Status Start();

  absl::Status Submit(Call call) override;
  void BeginDrain() override;

  // One pass. True: something was done, step again.
  bool Step();
  // How long to wait before the next Step when there is nothing to do.
  int64_t WaitMs();
  // Whether a call that comes in ends the wait; else only Inbox::Wake does.
  bool WantsCalls() const { return !open_.has_value(); }
  Inbox& inbox() { return inbox_; }
  const Inbox& inbox() const { return inbox_; }

  // Drain was asked for, and every call taken has been answered.
  bool Drained() const;
  bool failed() const { return failed_; }
  // What was done so far, for operators. Any thread.
  const LoopMetrics& metrics() const { return metrics_; }
  // Boot time in milliseconds of the last pass that was not held up by a sync; now, while the
  // store is opened again. Any thread.
  int64_t last_progress_ms() const {
    return recovering_.load() ? clock_->BootMs() : last_progress_ms_.load();
  }
  // Answers everything that waits with `reason` and takes no more.
  void Abort(const absl::Status& reason);

  // For the simulator and tests.
  engine::Engine& engine() { return engine_; }
  const storage::RowView& rows() const { return rows_; }
  bool Idle() const { return !open_.has_value() && syncing_ == nullptr; }
  uint64_t synced_group() const { return synced_.load(std::memory_order_acquire); }

 private:
  struct Reply {
    std::function<void(engine::Outcome)> done;
    engine::Outcome outcome;
  };
  struct Group {
    // Spelled out for clang 14, which cannot make one inside this class otherwise.
    Group() : number(0), writes(false) {}
    uint64_t number;
    bool writes;
    std::vector<Reply> replies;
    engine::GroupEffects effects;
    GroupFigures figures;
    std::vector<engine::SessionVerdict> verdicts;
  };
  // A command on its way through the passes of a group.
  struct Item {
    // Exactly one of the two, or neither for a command of the engine's own.
    std::optional<Call> call;
    std::optional<ParkedCall> parked;
    engine::Command own;
    bool done = false;
    // Not done, and to be applied again in the next group.
    bool again = false;
    // Groups in which it did not come to an end for want of rows.
    int carried = 0;
    const engine::Command& command() const;
  };

  engine::Now Now();
  bool Pass();
  // Takes note of how the group in sync came out.
  bool FinishSync();
  void NoticeStall(const engine::Now& now);
  void EverySecond(const engine::Now& now);
  void StartDraining(std::vector<Item>* items);
  // Collects and applies the next group; false: there was nothing to do.
  bool OpenGroup(const engine::Now& now);
  absl::Status ApplyAll(std::vector<Item>* items, std::vector<Item>* due, const engine::Now& now);
  // One walk over what is not done; true: something still needs rows.
  bool ApplyPass(std::vector<Item>* items, std::vector<Item>* due, const engine::Now& now);
  // Puts what is not done by for the next group.
  absl::Status Carry(std::vector<Item>* items, std::vector<Item>* carried);
  void ApplyItem(Item* item, const engine::Now& now);
  // Hands jobs that became ready to calls that wait; adds calls that need rows to `items`.
  void ServeWoken(std::vector<Item>* items, const engine::Now& now);
  void AnswerEnded();
  // Ends a wait without what was waited for.
  void EndWait(ParkedCall parked, std::vector<Item>* items);
  void Answer(Call* call, engine::Outcome outcome);
  void EndEarlierSending(const engine::Command& command);
  void ParkItem(Item* item, const engine::Result& result, const engine::Now& now);
  void CommitGroup();
  void Publish(Group* group);
  void Publish(std::vector<Reply>* replies);
  void StoreFailed(const absl::Status& why);
  // Full disk: answers the groups under way, opens the store again, rebuilds memory.
  void Recover(const absl::Status& why);
  // Tries to open the store again, about once a second; true: something was done.
  bool Reopen();
  void Fail(const absl::Status& why);
  void AnswerGroups(const absl::Status& status);

  storage::Store* store_;
  const Clock* clock_;
  Executor* executor_;
  const LoopOptions options_;
  LoopHooks hooks_;

  storage::RowView rows_;
  engine::Engine engine_;
  BrokerTime broker_time_;
  Inbox inbox_;
  Matcher matcher_;
  LoopMetrics metrics_;
  std::string boot_id_;

  std::atomic<bool> started_{false};
  std::atomic<bool> drain_asked_{false};
  std::atomic<uint64_t> synced_{0};
  std::atomic<bool> failed_{false};
  std::atomic<size_t> unanswered_{0};
  std::atomic<int64_t> last_progress_ms_{0};

  // How the group in sync came out; set by the executor.
  Mutex sync_mutex_;
  std::optional<absl::Status> sync_result_ ABSL_GUARDED_BY(sync_mutex_);

  std::optional<Group> open_;
  // Shared with the executor, which alone touches it until it has set sync_result_.
  std::shared_ptr<Group> syncing_;
  // Why the group at hand could not be applied; acted on when no sync is under way.
  absl::Status failure_;
  uint64_t last_group_ = 0;
  uint64_t passes_ = 0;
  bool draining_ = false;
  bool hold_lapses_ = false;
  // The store is closed for want of space; see Reopen.
  std::atomic<bool> recovering_{false};
  int64_t last_reopen_boot_ms_ = 0;
  int64_t last_pass_boot_ms_ = 0;
  int64_t last_second_boot_ms_ = 0;
  // Boot time at which a trailer is due; INT64_MAX: none.
  int64_t trailer_at_ms_ = INT64_MAX;
  bool write_trailer_ = false;
  // Queues with ready jobs that waiting calls have not been offered yet.
  absl::btree_set<std::string> runnable_;
  // Operations of calls that the group at hand serves out of their wait.
  size_t served_ = 0;
  // What the last group could not bring to an end: calls, and commands of the engine's own.
  std::vector<Item> carried_;
  std::vector<Item> carried_due_;
};

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_LOOP_H_
