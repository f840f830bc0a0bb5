// The one door from the edge to the engine: calls go in, each gets exactly one answer.
#ifndef STINT_SERVER_RUNTIME_GATEWAY_H_
#define STINT_SERVER_RUNTIME_GATEWAY_H_

#include <functional>

#include "absl/status/status.h"
#include "server/engine/command.h"
#include "server/engine/outcome.h"

namespace stint::runtime {

// A command with the way back to whoever asked.
struct Call {
  engine::Command command;
  // Called exactly once, when the answer is durable, from the publishing thread; must not
  // block.
  std::function<void(engine::Outcome)> done;
  // True when nobody waits for the answer any more (deadline passed, cancelled): then the
  // call is dropped if it was not applied yet. Cheap, callable from any thread until `done`
  // has been called. May be empty.
  std::function<bool()> abandoned;
  // Bytes the command holds, for the lanes' limits.
  size_t bytes = 0;
};

class Gateway {
 public:
  virtual ~Gateway() = default;

  // Takes the call, or refuses it at once (OVERLOADED, STARTING, DRAINING, STORE_FAILED);
  // a refused call's `done` is never called. Any thread.
  virtual absl::Status Submit(Call call) = 0;

  // Begins an orderly stop; see AdminService.DrainServer. Any thread, any number of times.
  virtual void BeginDrain() = 0;

 protected:
  Gateway() = default;
  Gateway(const Gateway&) = default;
  Gateway& operator=(const Gateway&) = default;
};

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_GATEWAY_H_
