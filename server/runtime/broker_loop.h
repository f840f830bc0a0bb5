// The loop on a thread of its own, with a thread beside it that makes groups durable and
// gives out answers.
#ifndef STINT_SERVER_RUNTIME_BROKER_LOOP_H_
#define STINT_SERVER_RUNTIME_BROKER_LOOP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/runtime/gateway.h"
#include "server/runtime/loop.h"
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
  // Boot time in milliseconds at which the last pass ended. Any thread.
  int64_t last_pass_ms() const { return last_pass_ms_.load(std::memory_order_relaxed); }

 private:
  BrokerLoop(storage::Store* store, const LoopOptions& options, LoopHooks hooks);
  void Run();

  std::unique_ptr<Executor> executor_;
  Loop loop_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> last_pass_ms_{0};
  std::thread thread_;
};

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_BROKER_LOOP_H_
