// A whole broker in the test's process, with its threads and a gRPC port, over a memory store that
// outlives restarts: for tests of clients that a scripted broker (fake_broker.h) cannot serve.
// Thread rule: one thread starts and stops it; its port is any thread's.
#ifndef STINT_TESTS_SUPPORT_THREADED_BROKER_H_
#define STINT_TESTS_SUPPORT_THREADED_BROKER_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "server/api/edge.h"
#include "server/api/grpc_server.h"
#include "server/runtime/broker_loop.h"
#include "storage/memory_store.h"
#include "storage/reader.h"

namespace stint::testing {

class ThreadedBroker {
 public:
  ThreadedBroker() { Start(); }
  ~ThreadedBroker() { Stop(); }

  const std::string& address() const { return address_; }

  void Start() {
    api::EdgeOptions edge_options;
    edge_options.begin_drain = [this] { loop_->BeginDrain(); };
    edge_ = std::make_unique<api::Edge>(std::move(edge_options));
    api::GrpcServerOptions options;
    options.listen = address_;
    auto server = api::GrpcServer::Start(std::move(options), edge_.get());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    address_ = server_->address();
    runtime::LoopHooks hooks;
    hooks.on_verdict = [edge = edge_.get()](const engine::SessionVerdict& verdict) {
      edge->sessions()->Tell(verdict);
    };
    auto loop = runtime::BrokerLoop::Start(&store_, runtime::LoopOptions{}, std::move(hooks));
    ASSERT_TRUE(loop.ok()) << loop.status();
    loop_ = *std::move(loop);
    edge_->sessions()->Start();
    edge_->Open(loop_.get(), &reader_, std::string(32, 'k'));
    server_->SetServing(true);
  }
  // In the order of a drain.
  void Stop() {
    if (server_ == nullptr) return;
    loop_->BeginDrain();
    server_->Shutdown(1000);
    server_ = nullptr;
    loop_ = nullptr;
    edge_ = nullptr;
  }

  runtime::Sessions* sessions() { return edge_->sessions(); }

 private:
  std::string address_ = "127.0.0.1:0";
  storage::MemoryStore store_;
  storage::Reader reader_{&store_};
  std::unique_ptr<api::Edge> edge_;
  std::unique_ptr<runtime::BrokerLoop> loop_;
  std::unique_ptr<api::GrpcServer> server_;
};

}  // namespace stint::testing

#endif  // STINT_TESTS_SUPPORT_THREADED_BROKER_H_
