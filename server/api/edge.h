// What all services share: the way to the engine, the way to the store, limits and facts
// about the server. Until Open every call is refused with STARTING.
//
// Thread rule: Open once; everything else from any thread.
#ifndef STINT_SERVER_API_EDGE_H_
#define STINT_SERVER_API_EDGE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "server/api/exchange.h"
#include "server/api/page_token.h"
#include "server/api/read_pool.h"
#include "server/api/validate.h"
#include "server/ops/rpc_counts.h"
#include "server/runtime/clock.h"
#include "server/runtime/gateway.h"
#include "server/runtime/sessions.h"
#include "server/runtime/workers.h"
#include "storage/reader.h"

namespace stint::api {

// The engine's answer is not one that the command can have: a bug, and never a reason to crash.
absl::Status UnexpectedAnswer();

// What GetServerInfo says that does not change.
struct ServerFacts {
  std::string version;
  int32_t format = 0;
  std::string store;
  int64_t start_wall_ms = 0;
};

struct EdgeOptions {
  EdgeLimits limits;
  size_t read_threads = 2;
  size_t max_waiting_reads = 1000;
  ServerFacts facts;
  // Of sessions.
  const runtime::Clock* clock = &runtime::SystemClock();
  runtime::Sessions::Numbers session_numbers = nullptr;
  // DrainServer was called; begins what SIGTERM begins.
  std::function<void()> begin_drain;
};

class Edge {
 public:
  explicit Edge(EdgeOptions options)
      : options_(std::move(options)),
        sessions_(options_.clock, options_.session_numbers),
        workers_(options_.clock),
        reads_(options_.read_threads, options_.max_waiting_reads) {}

  // The broker is ready. `gateway` and `reader` must stay until no call arrives any more.
  void Open(runtime::Gateway* gateway, const storage::Reader* reader, std::string page_key) {
    gateway_ = gateway;
    reader_ = reader;
    page_tokens_.emplace(std::move(page_key));
    open_.store(true, std::memory_order_release);
  }

  const EdgeLimits& limits() const { return options_.limits; }
  runtime::Sessions* sessions() { return &sessions_; }
  runtime::Workers* workers() { return &workers_; }
  // Once it is open.
  const PageTokens& page_tokens() const { return *page_tokens_; }
  const runtime::Clock* clock() const { return options_.clock; }
  // STARTING until Open.
  absl::Status CheckOpen() const;
  const ServerFacts& facts() const { return options_.facts; }
  // Where every call that ends is counted.
  ops::RpcCounts& counts() { return counts_; }
  void BeginDrain() const { options_.begin_drain(); }

  // Hands a command to the engine. `finish(Reply&&, Exchange&)` is called with the answer;
  // a refusal goes straight to the caller.
  template <typename Reply, typename Finish>
  void Submit(ExchangePtr exchange, engine::Command command, Finish finish) {
    runtime::Call call;
    call.command = std::move(command);
    call.bytes = exchange->request_bytes();
    call.abandoned = [exchange] { return exchange->gone(); };
    call.done = [exchange, finish = std::move(finish)](engine::Outcome outcome) mutable {
      if (!outcome.status.ok()) return exchange->Refuse(outcome.status);
      Reply* reply = std::get_if<Reply>(&outcome.body);
      if (reply == nullptr) return exchange->Refuse(UnexpectedAnswer());
      finish(std::move(*reply), *exchange);
    };
    const absl::Status status = Submit(std::move(call));
    if (!status.ok()) exchange->Refuse(status);
  }

  // Hands a call to the engine; a refused call's `done` is never called.
  absl::Status Submit(runtime::Call call);

  // Hands a command to the engine for which nobody waits.
  void SubmitUnattended(engine::Command command);

  // Runs `read(reader, page_tokens)` on the read pool; it answers the exchange. A read whose
  // caller has gone before it begins is dropped.
  template <typename Read>
  void RunRead(ExchangePtr exchange, Read read) {
    if (absl::Status status = CheckOpen(); !status.ok()) return exchange->Refuse(status);
    const absl::Status status = reads_.Run([this, exchange, read = std::move(read)] {
      if (!exchange->gone()) read(*reader_, *page_tokens_);
    });
    if (!status.ok()) exchange->Refuse(status);
  }

 private:
  const EdgeOptions options_;
  ops::RpcCounts counts_;
  runtime::Sessions sessions_;
  runtime::Workers workers_;
  std::atomic<bool> open_ = false;
  runtime::Gateway* gateway_ = nullptr;
  const storage::Reader* reader_ = nullptr;
  std::optional<PageTokens> page_tokens_;
  ReadPool reads_;  // last: its threads end before what they read goes
};

// How long a waiting call may wait: what it asked, or the default, and never beyond its
// deadline less a margin for the answer.
int64_t WaitMillis(std::optional<int64_t> asked_ms, const Exchange& exchange);

}  // namespace stint::api

#endif  // STINT_SERVER_API_EDGE_H_
