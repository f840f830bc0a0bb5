// What tests of the edge share: an exchange that keeps its answer, and a gateway that keeps
// its calls.
// Threads: any.
#ifndef STINT_TESTS_SUPPORT_EDGE_FIXTURE_H_
#define STINT_TESTS_SUPPORT_EDGE_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "server/api/exchange.h"
#include "server/engine/error.h"
#include "server/runtime/gateway.h"

namespace stint::testing {

class FakeExchange final : public api::Exchange {
 public:
  explicit FakeExchange(std::string identity = "",
                        std::optional<int64_t> remaining_ms = std::nullopt)
      : Exchange(std::move(identity), 100, remaining_ms) {}

  bool gone() const override { return gone_; }
  void set_gone() { gone_ = true; }

  bool TryReply(const google::protobuf::Message& response) override {
    if (!room_) {
      Answer(engine::MakeError(engine::Reason::kOverloaded, "no room"), "");
      return false;
    }
    Answer(absl::OkStatus(), response.SerializeAsString());
    return true;
  }
  // No answer is let through any more.
  void set_no_room() { room_ = false; }
  void Refuse(const absl::Status& status) override { Answer(status, ""); }

  bool answered() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return answered_;
  }
  // Each waits for the answer.
  absl::Status status() {
    Wait();
    return status_;
  }
  template <typename Response>
  Response response() {
    Wait();
    Response response;
    EXPECT_TRUE(status_.ok()) << status_;
    EXPECT_TRUE(response.ParseFromString(bytes_));
    return response;
  }

 private:
  void Answer(absl::Status status, std::string bytes) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      EXPECT_FALSE(answered_) << "answered twice";
      answered_ = true;
      status_ = std::move(status);
      bytes_ = std::move(bytes);
    }
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return answered_; });
  }

  std::atomic<bool> gone_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool answered_ = false;
  std::atomic<bool> room_ = true;
  absl::Status status_;
  std::string bytes_;
};

// Keeps the calls it is given until a test answers them.
class FakeGateway final : public runtime::Gateway {
 public:
  absl::Status Submit(runtime::Call call) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!refusal_.ok()) return refusal_;
      calls_.push_back(std::move(call));
    }
    changed_.notify_all();
    return absl::OkStatus();
  }
  void BeginDrain() override {}

  // Refuses everything from now on.
  void Refuse(absl::Status status) {
    const std::lock_guard<std::mutex> lock(mutex_);
    refusal_ = std::move(status);
  }
  // The oldest call; waits for one.
  runtime::Call Take() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !calls_.empty(); });
    runtime::Call call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }
  // The command of the oldest call; a test failure if it is another.
  template <typename Command>
  Command TakeCommand() {
    runtime::Call call = Take();
    Command* command = std::get_if<Command>(&call.command);
    EXPECT_NE(command, nullptr) << "another command came";
    return command == nullptr ? Command{} : std::move(*command);
  }
  bool empty() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return calls_.empty();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<runtime::Call> calls_;
  absl::Status refusal_;
};

}  // namespace stint::testing

#endif  // STINT_TESTS_SUPPORT_EDGE_FIXTURE_H_
