#include "server/runtime/broker_loop.h"

#include <random>
#include <utility>

#include "server/engine/error.h"

namespace stint::runtime {

absl::StatusOr<std::unique_ptr<BrokerLoop>> BrokerLoop::Start(storage::Store* store,
                                                              const LoopOptions& options,
                                                              LoopHooks hooks) {
  std::random_device random;
  hooks.entropy = uint64_t{random()} << 32 | random();
  std::unique_ptr<BrokerLoop> loop(new BrokerLoop(store, options, std::move(hooks)));
  if (absl::Status s = loop->loop_.Start(); !s.ok()) return s;
  loop->thread_ = std::thread([raw = loop.get()] { raw->Run(); });
  return loop;
}

BrokerLoop::BrokerLoop(storage::Store* store, const LoopOptions& options, LoopHooks hooks)
    : store_(store),
      executor_(MakeThreadExecutor()),
      loop_(store, &SystemClock(), executor_.get(), options, std::move(hooks)) {}

BrokerLoop::~BrokerLoop() {
  stopping_.store(true);
  loop_.inbox().Wake();
  if (thread_.joinable()) thread_.join();
  // The executor ends before the loop whose group it may hold.
  executor_.reset();
  if (!loop_.failed()) {
    loop_.Abort(engine::MakeError(engine::Reason::kDraining, "the broker has stopped"));
  }
}

void BrokerLoop::Run() {
  while (!stopping_.load()) {
    if (!loop_.Step()) loop_.inbox().Wait(loop_.WaitMs(), loop_.WantsCalls());
  }
}

}  // namespace stint::runtime
