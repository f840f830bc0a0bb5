// The loop on a thread of its own, with a thread beside it that makes groups durable and
// gives out answers.
#ifndef STINT_SERVER_RUNTIME_BROKER_LOOP_H_
#define STINT_SERVER_RUNTIME_BROKER_LOOP_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/runtime/clock.h"
#include "server/runtime/gateway.h"
#include "server/runtime/inbox.h"
#include "server/runtime/loop.h"
#include "server/runtime/loop_metrics.h"
#include "storage/store.h"

namespace stint::runtime {

class BrokerLoop final : public Gateway {
 public:
  // Loads the store and starts both threads. `store` outlives the loop. `hooks.entropy` is
  // filled in.
  static absl::StatusOr<std::unique_ptr<BrokerLoop>> Start(storage::Store* store,
                                                           const LoopOptions& options,
                                                           LoopHooks hooks);
  // Stops at once; what was not answered is answered with DRAINING.
  ~BrokerLoop() override;

  absl::Status Submit(Call call) override { return loop_.Submit(std::move(call)); }
  void BeginDrain() override { loop_.BeginDrain(); }

  // Every call taken has been answered; only after BeginDrain. Any thread.
  bool Drained() const { return loop_.Drained(); }
  // For how long the loop has made no progress. Any thread.
  int64_t stuck_ms() const {
    // Read first: the loop may go on while the clock is asked.
    const int64_t progress_ms = loop_.last_progress_ms();
    return SystemClock().BootMs() - progress_ms;
  }
  // For operators; any thread.
  const LoopMetrics& metrics() const { return loop_.metrics(); }
  std::array<Inbox::LaneFill, 3> inbox_fill() const { return loop_.inbox().Fill(); }
  storage::StoreFigures store_figures() const { return store_->Figures(); }

 private:
  BrokerLoop(storage::Store* store, const LoopOptions& options, LoopHooks hooks);
  void Run();

  storage::Store* const store_;
  std::unique_ptr<Executor> executor_;
  Loop loop_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_BROKER_LOOP_H_
