// A worker on its stream, against a whole broker.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/client.h"
#include "client/cpp/clock.h"
#include "client/cpp/stream_link.h"
#include "client/cpp/worker.h"
#include "tests/support/fake_broker.h"
#include "tests/support/threaded_broker.h"

namespace stint::testing {
namespace {

using client::JobContext;
using client::Result;
using client::Worker;
using client::WorkerEvent;

// What workers told, to be waited for.
class Events {
 public:
  void Note(const WorkerEvent& event) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Only what ends a job counts as settled.
    if (event.kind == WorkerEvent::Kind::kSettled && event.result == Result::Kind::kRelease) return;
    kinds_.push_back(event.kind);
    changed_.notify_all();
  }
  void Await(WorkerEvent::Kind kind, long count = 1) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return std::count(kinds_.begin(), kinds_.end(), kind) >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<WorkerEvent::Kind> kinds_;
};

// Holds its stream, as its stream holds it, and says when it goes.
class Circle final : public client::StreamEvents {
 public:
  explicit Circle(std::promise<void>* gone) : gone_(gone) {}
  ~Circle() override { gone_->set_value(); }
  google::protobuf::MessageLite* NextMessage() override { return &received_; }
  void OnMessage() override {}
  void OnSent() override {}
  void OnEnd(const absl::Status& /*status*/) override {}

  std::shared_ptr<client::Stream> stream;

 private:
  std::promise<void>* const gone_;
  v1::StreamJobsResponse received_;
};

class ClientStreamTest : public ::testing::Test {
 protected:
  ClientStreamTest() {
    client::ConnectionOptions options;
    options.address = broker_.address();
    connection_ = *client::Connection::Open(options);
    client_ = std::make_unique<client::Client>(connection_);
  }

  std::unique_ptr<Worker> Work(const std::string& queue, int concurrency, client::Handler handler) {
    client::WorkerOptions options;
    options.queues = {queue};
    options.concurrency = concurrency;
    options.worker = "w" + std::to_string(++workers_);
    options.on_event = [this](const WorkerEvent& event) { events_.Note(event); };
    auto worker = std::make_unique<Worker>(connection_, options, std::move(handler));
    EXPECT_TRUE(worker->Start().ok());
    return worker;
  }
  std::string Enqueue(const std::string& queue) {
    v1::EnqueueJobRequest request;
    request.set_queue(queue);
    const auto answer = client_->EnqueueJob(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->job() : "";
  }
  v1::Job Get(const std::string& job) {
    v1::GetJobRequest request;
    request.set_job(job);
    const auto answer = client_->GetJob(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? answer->job() : v1::Job();
  }

  ThreadedBroker broker_;
  std::shared_ptr<client::Connection> connection_;
  std::unique_ptr<client::Client> client_;
  Events events_;
  int workers_ = 0;
};

TEST_F(ClientStreamTest, JobsArePushedAndSettled) {
  const auto worker = Work("q", 4, [](JobContext& job) { return Result::Complete(job.job()); });
  std::vector<std::string> jobs;
  for (int i = 0; i < 200; ++i) jobs.push_back(Enqueue("q"));
  events_.Await(WorkerEvent::Kind::kSettled, 200);
  for (const std::string& job : jobs) {
    const v1::Job got = Get(job);
    EXPECT_EQ(got.state(), v1::JOB_STATE_COMPLETED);
    EXPECT_EQ(got.result(), job);
    EXPECT_EQ(got.attempt(), 1);
  }
  EXPECT_EQ(broker_.sessions()->size(), 1U);
  EXPECT_EQ(worker->Stop(absl::Seconds(5)).unsettled, 0);
  EXPECT_EQ(broker_.sessions()->size(), 0U);  // it said goodbye
}

TEST_F(ClientStreamTest, ACancelReachesTheHandlerAtOnce) {
  const auto worker = Work("q", 1, [](JobContext& job) {
    while (!job.cancel().WaitFor(absl::Hours(1))) {
    }
    return Result::Fail("stopped");
  });
  const std::string job = Enqueue("q");
  events_.Await(WorkerEvent::Kind::kStarted);
  v1::CancelJobRequest cancel;
  cancel.set_job(job);
  ASSERT_TRUE(client_->CancelJob(cancel).ok());
  events_.Await(WorkerEvent::Kind::kSettled);
  EXPECT_EQ(Get(job).state(), v1::JOB_STATE_CANCELLED);
}

TEST_F(ClientStreamTest, ABrokerThatComesBackFindsEverythingInHand) {
  std::mutex mutex;
  std::condition_variable changed;
  bool go = false;
  const auto worker = Work("q", 2, [&](JobContext&) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return go; });
    return Result::Complete();
  });
  const std::vector<std::string> jobs = {Enqueue("q"), Enqueue("q")};
  events_.Await(WorkerEvent::Kind::kStarted, 2);
  broker_.Stop();
  {
    const std::lock_guard<std::mutex> lock(mutex);
    go = true;
    changed.notify_all();
  }
  broker_.Start();
  events_.Await(WorkerEvent::Kind::kSettled, 2);
  for (const std::string& job : jobs) {
    EXPECT_EQ(Get(job).state(), v1::JOB_STATE_COMPLETED);
    EXPECT_EQ(Get(job).attempt(), 1);
  }
  Enqueue("q");
  events_.Await(WorkerEvent::Kind::kSettled, 3);
}

TEST_F(ClientStreamTest, APausedWorkerTakesNothing) {
  const auto paused = Work("q", 8, [](JobContext&) { return Result::Complete(); });
  Enqueue("q");
  events_.Await(WorkerEvent::Kind::kSettled);
  paused->Pause();
  const auto other = Work("q", 1, [](JobContext&) { return Result::Complete(); });
  std::vector<std::string> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back(Enqueue("q"));
  events_.Await(WorkerEvent::Kind::kSettled, 21);
  for (const std::string& job : jobs) EXPECT_EQ(Get(job).attempt(), 1);
  const int64_t before = paused->stats().completed;
  other->Stop(absl::Seconds(5));
  paused->Resume();
  Enqueue("q");
  events_.Await(WorkerEvent::Kind::kSettled, 22);
  EXPECT_EQ(paused->stats().completed, before + 1);
}

TEST_F(ClientStreamTest, AStreamThatHasEndedKeepsNothing) {
  std::promise<void> gone;
  auto circle = std::make_shared<Circle>(&gone);
  circle->stream = connection_->OpenStream("/stint.v1.WorkerService/StreamJobs", circle);
  circle->stream->Cancel();
  circle = nullptr;
  // By whoever uses the connection next, since gRPC's own threads must not.
  std::future<void> ended = gone.get_future();
  while (ended.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    connection_->ReplaceChannel(0);
    std::this_thread::yield();
  }
}

TEST_F(ClientStreamTest, RoomThatWasGivenCanBeTakenBackBetweenTwoCalls) {
  v1::Hello hello;
  hello.set_worker("w");
  hello.add_queues("q");
  client::StreamLinkHooks hooks;
  hooks.held = [] { return std::vector<v1::HeartbeatItem>(); };
  hooks.on_verdict = [](const v1::HeartbeatResult&, std::optional<absl::Duration>) {};
  hooks.on_leave = [] {};
  client::StreamLink link(connection_, hello, client::Clock::System(), hooks);
  EXPECT_FALSE(link.JobsMayCome());
  const std::string first = Enqueue("q");
  v1::LeaseJobsRequest request;
  request.set_max_jobs(5);
  request.mutable_wait()->set_seconds(60);
  v1::LeaseJobsResponse response;
  ASSERT_TRUE(link.Lease(request, &response, absl::Minutes(1), nullptr).ok());
  ASSERT_EQ(response.leases_size(), 1);
  EXPECT_EQ(response.leases(0).job(), first);
  EXPECT_TRUE(link.JobsMayCome());  // four more
  request.mutable_wait()->Clear();
  response.Clear();
  ASSERT_TRUE(link.Lease(request, &response, absl::Minutes(1), nullptr).ok());
  EXPECT_EQ(response.leases_size(), 0);
  EXPECT_FALSE(link.JobsMayCome());
  const auto other = Work("q", 1, [](JobContext&) { return Result::Complete(); });
  Enqueue("q");
  events_.Await(WorkerEvent::Kind::kSettled);
}

TEST_F(ClientStreamTest, WhatIsLeftAtTheEndIsHandedBackAtNoCost) {
  std::mutex mutex;
  std::condition_variable changed;
  bool go = false;
  auto worker = Work("q", 1, [&](JobContext&) {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return go; });
    return Result::Complete();
  });
  const std::string job = Enqueue("q");
  events_.Await(WorkerEvent::Kind::kStarted);
  EXPECT_EQ(worker->Stop(absl::ZeroDuration()).still_running, 1);
  EXPECT_EQ(Get(job).state(), v1::JOB_STATE_READY);
  EXPECT_EQ(Get(job).attempt(), 1);
  const std::lock_guard<std::mutex> lock(mutex);
  go = true;
  changed.notify_all();
}

TEST_F(ClientStreamTest, AWorkerThatShallLeaveFinishesAndEnds) {
  const auto worker = Work("q", 2, [](JobContext&) { return Result::Complete(); });
  Enqueue("q");
  events_.Await(WorkerEvent::Kind::kSettled);
  broker_.sessions()->DrainWorkers(
      [](const runtime::SessionInfo& info) { return info.worker == "w1"; });
  EXPECT_TRUE(worker->Wait().ok());
}

TEST(ClientFallbackTest, ABrokerWithoutStreamsIsServedByCalls) {
  FakeBroker broker;
  client::ConnectionOptions connection;
  connection.address = broker.address();
  client::WorkerOptions options;
  options.queues = {"q"};
  Events events;
  options.on_event = [&](const WorkerEvent& event) { events.Note(event); };
  Worker worker(*client::Connection::Open(connection), options,
                [](JobContext&) { return Result::Complete(); });
  ASSERT_TRUE(worker.Start().ok());
  client::Client client(*client::Connection::Open(connection));
  v1::EnqueueJobRequest request;
  request.set_queue("q");
  ASSERT_TRUE(client.EnqueueJob(request).ok());
  events.Await(WorkerEvent::Kind::kSettled);
}

}  // namespace
}  // namespace stint::testing
