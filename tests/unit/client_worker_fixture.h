// What the worker tests share: a fake broker, a connection to it, gates for handlers.
#ifndef STINT_TESTS_UNIT_CLIENT_WORKER_FIXTURE_H_
#define STINT_TESTS_UNIT_CLIENT_WORKER_FIXTURE_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "client/cpp/connection.h"
#include "client/cpp/worker.h"
#include "gtest/gtest.h"
#include "tests/support/fake_broker.h"
#include "tests/unit/client_fake_clock.h"

namespace stint::testing {

// Holds handlers until it is opened, and says how many have come.
class Gate {
 public:
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void AwaitArrivals(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= count; });
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool open_ = false;
};

// Holds a handler until its job is cancelled.
inline client::CancelReason UntilCancelled(const client::JobContext& job) {
  while (!job.cancel().WaitFor(absl::Hours(1))) {
  }
  return job.cancel().reason();
}

class WorkerTest : public ::testing::Test {
 protected:
  WorkerTest() {
    client::ConnectionOptions options;
    options.address = broker_.address();
    connection_ = *client::Connection::Open(options);
    options_.queues = {"q"};
    options_.worker = "worker-1";
    options_.stream = false;
  }

  // Starts a worker with `options_` and the manual clock.
  std::unique_ptr<client::Worker> Start(client::Handler handler) {
    options_.clock = &clock_;
    auto worker = std::make_unique<client::Worker>(connection_, options_, std::move(handler));
    EXPECT_TRUE(worker->Start().ok());
    return worker;
  }

  FakeBroker broker_;
  ManualClock clock_;
  std::shared_ptr<client::Connection> connection_;
  client::WorkerOptions options_;
};

}  // namespace stint::testing

#endif  // STINT_TESTS_UNIT_CLIENT_WORKER_FIXTURE_H_
