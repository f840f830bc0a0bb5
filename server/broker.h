// The broker put together: settings to store, to loop, to edge, to server; and taken apart
// again in order. No decisions about jobs.
//
// How it is used: one object, one Run, which returns when RequestDrain was called (by a signal
// or by DrainServer) or the store has failed. Thread rule: Run on one thread, RequestDrain on
// any.
#ifndef STINT_SERVER_BROKER_H_
#define STINT_SERVER_BROKER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/config.h"
#include "server/exit_codes.h"
#include "sync/mutex.h"

namespace stint {

namespace api {
class GrpcServer;
}  // namespace api
namespace ops {
class Health;
}  // namespace ops
namespace runtime {
class BrokerLoop;
class Sessions;
}  // namespace runtime
namespace storage {
class Store;
}  // namespace storage

class Broker {
 public:
  explicit Broker(Config config) : config_(std::move(config)) {}
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  ExitCode Run();
  void RequestDrain();

 private:
  // The first of the two to happen counts.
  struct Stop {
    bool drain = false;
    std::optional<absl::Status> failure;
  };
  Stop WaitForStop();
  absl::StatusOr<std::unique_ptr<runtime::BrokerLoop>> StartLoop(storage::Store* store,
                                                                 runtime::Sessions* sessions);
  ExitCode ServeUntilStopped(api::GrpcServer* server, runtime::BrokerLoop* loop,
                             ops::Health* health);

  const Config config_;
  Mutex mutex_;
  Condition changed_;
  Stop stop_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stint

#endif  // STINT_SERVER_BROKER_H_
