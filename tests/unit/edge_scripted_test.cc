// The services without gRPC, against a gateway that a test answers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "server/api/admin_service.h"
#include "server/api/edge.h"
#include "server/api/job_service.h"
#include "server/api/worker_service.h"
#include "server/engine/error.h"
#include "storage/memory_store.h"
#include "storage/reader.h"
#include "tests/support/edge_fixture.h"

namespace stint::api {
namespace {

using engine::Reason;
using testing::FakeExchange;
using testing::FakeGateway;
using ::testing::SizeIs;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

std::shared_ptr<FakeExchange> NewExchange(std::optional<int64_t> remaining_ms = std::nullopt) {
  return std::make_shared<FakeExchange>("me", remaining_ms);
}

engine::GrantedLease Granted(const std::string& job_id, int64_t token) {
  engine::GrantedLease lease;
  lease.job.queue = "q";
  lease.job.job_id = job_id;
  lease.job.record.set_payload("work");
  lease.token = token;
  lease.lease_ms = 15'000;
  lease.max_attempts = 20;
  return lease;
}

class ScriptedTest : public ::testing::Test {
 protected:
  ScriptedTest() { edge_.Open(&gateway_, &reader_, RandomPageKey()); }

  storage::MemoryStore store_;
  storage::Reader reader_{&store_};
  FakeGateway gateway_;
  Edge edge_{EdgeOptions{}};
  WorkerService worker_{&edge_};
  JobService jobs_{&edge_};
};

TEST(EdgeTest, RefusesUntilItIsOpen) {
  Edge edge{EdgeOptions{}};
  auto write = NewExchange();
  JobService(&edge).EnqueueJob(Parse<v1::EnqueueJobRequest>("queue: 'q'"), write);
  EXPECT_EQ(engine::ReasonOf(write->status()), Reason::kStarting);
  auto read = NewExchange();
  JobService(&edge).GetJob(Parse<v1::GetJobRequest>("job: 'queues/q/jobs/j'"), read);
  EXPECT_EQ(engine::ReasonOf(read->status()), Reason::kStarting);
}

TEST(EdgeTest, DrainIsAnsweredBeforeItBegins) {
  bool answered_first = false;
  auto exchange = NewExchange();
  EdgeOptions options;
  options.begin_drain = [&] { answered_first = exchange->answered(); };
  Edge edge(std::move(options));
  AdminService(&edge).DrainServer({}, exchange);
  EXPECT_TRUE(answered_first);
}

TEST_F(ScriptedTest, InvalidRequestsNeverReachTheEngine) {
  auto exchange = NewExchange();
  jobs_.EnqueueJob({}, exchange);
  EXPECT_EQ(engine::ReasonOf(exchange->status()), Reason::kInvalidRequest);
  EXPECT_TRUE(gateway_.empty());
}

TEST_F(ScriptedTest, RefusalsOfTheGatewayAreAnswers) {
  gateway_.Refuse(engine::MakeError(Reason::kOverloaded, "full"));
  auto exchange = NewExchange();
  jobs_.EnqueueJob(Parse<v1::EnqueueJobRequest>("queue: 'q'"), exchange);
  EXPECT_EQ(engine::ReasonOf(exchange->status()), Reason::kOverloaded);
}

TEST_F(ScriptedTest, CallsCarryCallerSizeAndWhetherAnybodyWaits) {
  auto exchange = NewExchange();
  jobs_.EnqueueJob(Parse<v1::EnqueueJobRequest>("queue: 'q' request_id: 'r'"), exchange);
  const runtime::Call call = gateway_.Take();
  EXPECT_EQ(call.bytes, exchange->request_bytes());
  EXPECT_EQ(std::get<engine::EnqueueCommand>(call.command).request.identity, "me");
  EXPECT_NE(std::get<engine::EnqueueCommand>(call.command).request.fingerprint, 0u);
  EXPECT_FALSE(call.abandoned());
  exchange->set_gone();
  EXPECT_TRUE(call.abandoned());
}

TEST_F(ScriptedTest, WaitsEndBeforeTheDeadline) {
  const auto wait_ms = [this](const std::string& request, std::optional<int64_t> remaining_ms) {
    worker_.LeaseJobs(Parse<v1::LeaseJobsRequest>("queues: 'q' " + request),
                      NewExchange(remaining_ms));
    return gateway_.TakeCommand<engine::LeaseCommand>().wait_ms;
  };
  EXPECT_EQ(wait_ms("", std::nullopt), 20'000);
  EXPECT_EQ(wait_ms("wait { }", std::nullopt), 0);
  EXPECT_EQ(wait_ms("wait { seconds: 60 }", std::nullopt), 60'000);
  EXPECT_EQ(wait_ms("", 5000), 4800);
  EXPECT_EQ(wait_ms("wait { seconds: 1 }", 5000), 1000);
  EXPECT_EQ(wait_ms("", 200), 0);
  EXPECT_EQ(wait_ms("", 0), 0);
}

TEST_F(ScriptedTest, LeasesAreAnswered) {
  auto exchange = NewExchange();
  worker_.LeaseJobs(Parse<v1::LeaseJobsRequest>("queues: 'q' max_jobs: 2"), exchange);
  engine::LeaseReply reply;
  reply.leases.push_back(Granted("a", 11));
  reply.leases.back().job.state.set_total_losses(1);
  reply.leases.back().job.state.add_attempts()->set_attempt(1);
  gateway_.Take().done({absl::OkStatus(), std::move(reply)});
  const auto response = exchange->response<v1::LeaseJobsResponse>();
  ASSERT_EQ(response.leases_size(), 1);
  EXPECT_EQ(response.leases(0).job(), "queues/q/jobs/a");
  EXPECT_EQ(response.leases(0).token(), 11);
  EXPECT_EQ(response.leases(0).attempt(), 2);
  EXPECT_EQ(response.leases(0).payload(), "work");
  EXPECT_EQ(response.leases(0).heartbeat_interval().seconds(), 5);
  EXPECT_EQ(response.leases(0).last_attempt().attempt(), 1);
  EXPECT_FALSE(response.leases(0).has_run_limit());
}

// A caller that has gone gets no job, and the grant costs nothing.
TEST_F(ScriptedTest, JobsForACallerThatHasGoneAreReleased) {
  auto exchange = NewExchange();
  worker_.LeaseJobs(Parse<v1::LeaseJobsRequest>("queues: 'q' max_jobs: 2"), exchange);
  runtime::Call call = gateway_.Take();
  exchange->set_gone();
  engine::LeaseReply reply;
  reply.leases.push_back(Granted("a", 11));
  reply.leases.push_back(Granted("b", 12));
  call.done({absl::OkStatus(), std::move(reply)});
  EXPECT_EQ(exchange->status().code(), absl::StatusCode::kCancelled);
  const auto undo = gateway_.TakeCommand<engine::SettleCommand>();
  ASSERT_THAT(undo.items, SizeIs(2));
  for (const engine::SettleItem& item : undo.items) {
    EXPECT_EQ(item.kind, engine::SettleKind::kRelease);
    EXPECT_EQ(item.release_reason, engine::ReleaseReason::kNone);
    EXPECT_FALSE(item.delay_ms.has_value());
  }
  EXPECT_EQ(undo.items[1].job.job_id, "b");
  EXPECT_EQ(undo.items[1].token, 12);
}

// Callers that leave their answers unread make the broker refuse large ones, not hold them.
TEST_F(ScriptedTest, JobsThatThereIsNoRoomToAnswerAreReleased) {
  auto exchange = NewExchange();
  worker_.LeaseJobs(Parse<v1::LeaseJobsRequest>("queues: 'q'"), exchange);
  runtime::Call call = gateway_.Take();
  exchange->set_no_room();
  engine::LeaseReply reply;
  reply.leases.push_back(Granted("a", 11));
  call.done({absl::OkStatus(), std::move(reply)});
  EXPECT_EQ(exchange->status().code(), absl::StatusCode::kResourceExhausted);
  const auto undo = gateway_.TakeCommand<engine::SettleCommand>();
  ASSERT_THAT(undo.items, SizeIs(1));
  EXPECT_EQ(undo.items[0].job.job_id, "a");
  EXPECT_EQ(undo.items[0].token, 11);
}

TEST_F(ScriptedTest, NothingIsReleasedWhenNothingWasGranted) {
  auto exchange = NewExchange();
  worker_.LeaseJobs(Parse<v1::LeaseJobsRequest>("queues: 'q'"), exchange);
  runtime::Call call = gateway_.Take();
  exchange->set_gone();
  call.done({absl::OkStatus(), engine::LeaseReply{}});
  EXPECT_TRUE(exchange->answered());
  EXPECT_TRUE(gateway_.empty());
}

// A batch with bad items: each is refused alone, the others go on.
TEST_F(ScriptedTest, SettlesOfABatchStandAlone) {
  auto exchange = NewExchange();
  worker_.SettleJobs(Parse<v1::SettleJobsRequest>(R"(
      items { complete { job: "queues/q/jobs/a" token: 1 result: "r" } }
      items { }
      items { fail { job: "nonsense" token: 2 } }
      items { release { job: "queues/q/jobs/c" token: 3 } }
      items { fail { job: "queues/q/jobs/d" token: 4 error: "e" } })"),
                     exchange);
  runtime::Call call = gateway_.Take();
  const auto& command = std::get<engine::SettleCommand>(call.command);
  ASSERT_THAT(command.items, SizeIs(3));
  EXPECT_EQ(command.items[0].result, "r");
  EXPECT_EQ(command.items[2].error, "e");
  engine::SettleReply reply;
  reply.results.resize(3);
  reply.results[0].kind = engine::SettleKind::kComplete;
  reply.results[1].status = engine::MakeError(Reason::kLeaseLost, "lost");
  reply.results[2].kind = engine::SettleKind::kFail;
  reply.results[2].state = engine::JobState::kDelayed;
  reply.results[2].retry_delay_ms = 1500;
  reply.results[2].next_attempt = 2;
  call.done({absl::OkStatus(), std::move(reply)});
  const auto response = exchange->response<v1::SettleJobsResponse>();
  ASSERT_EQ(response.results_size(), 5);
  EXPECT_EQ(response.results(0).complete().state(), v1::JOB_STATE_COMPLETED);
  const auto reason_of = [&response](int i) {
    google::rpc::ErrorInfo info;
    EXPECT_TRUE(response.results(i).error().details(0).UnpackTo(&info));
    return info.reason();
  };
  EXPECT_EQ(reason_of(1), "INVALID_REQUEST");
  EXPECT_EQ(reason_of(2), "INVALID_REQUEST");
  EXPECT_EQ(reason_of(3), "LEASE_LOST");
  EXPECT_EQ(response.results(4).fail().state(), v1::JOB_STATE_DELAYED);
  EXPECT_EQ(response.results(4).fail().next_attempt(), 2);
}

TEST_F(ScriptedTest, ABatchOfNothingButBadItemsIsAnsweredAtOnce) {
  auto exchange = NewExchange();
  worker_.SettleJobs(Parse<v1::SettleJobsRequest>("items { } items { }"), exchange);
  EXPECT_EQ(exchange->response<v1::SettleJobsResponse>().results_size(), 2);
  EXPECT_TRUE(gateway_.empty());
}

// A thousand refusals at their largest still fit into an answer.
TEST_F(ScriptedTest, RefusedSettlesFitIntoOneAnswer) {
  v1::SettleJobsRequest request;
  const std::string name = absl::StrCat("queues/", std::string(128, 'q'), "/jobs/x");
  for (int i = 0; i < 1000; ++i) {
    auto* release = request.add_items()->mutable_release();
    release->set_job(name + "/");
    release->mutable_delay()->set_seconds(-1);
    release->set_reason(static_cast<v1::ReleaseReason>(77));
  }
  auto exchange = NewExchange();
  worker_.SettleJobs(std::move(request), exchange);
  EXPECT_LT(exchange->response<v1::SettleJobsResponse>().ByteSizeLong(), 3'670'016u);
}

TEST_F(ScriptedTest, HeartbeatsAreAnsweredInOrder) {
  auto exchange = NewExchange();
  worker_.Heartbeat(Parse<v1::HeartbeatRequest>(R"(worker: "w"
      leases { job: "queues/q/jobs/a" token: 1 } leases { job: "queues/q/jobs/b" token: 2 })"),
                    exchange);
  engine::HeartbeatReply reply;
  reply.statuses = {engine::LeaseStatus::kLost, engine::LeaseStatus::kCancelRequested};
  reply.draining = true;
  reply.next_interval_ms = 5000;
  gateway_.Take().done({absl::OkStatus(), std::move(reply)});
  const auto response = exchange->response<v1::HeartbeatResponse>();
  ASSERT_EQ(response.results_size(), 2);
  EXPECT_EQ(response.results(0).status(), v1::LEASE_STATUS_LOST);
  EXPECT_EQ(response.results(1).status(), v1::LEASE_STATUS_CANCEL_REQUESTED);
  EXPECT_EQ(response.results(1).job(), "queues/q/jobs/b");
  EXPECT_TRUE(response.draining());
  EXPECT_EQ(response.next_interval().seconds(), 5);
}

TEST_F(ScriptedTest, AnAnswerOfAnotherFormIsARefusal) {
  auto exchange = NewExchange();
  jobs_.EnqueueJob(Parse<v1::EnqueueJobRequest>("queue: 'q'"), exchange);
  gateway_.Take().done({absl::OkStatus(), engine::LeaseReply{}});
  EXPECT_EQ(exchange->status().code(), absl::StatusCode::kInternal);
}

TEST(ReadPoolTest, RefusesWhenTooMuchWaits) {
  std::mutex gate;
  std::condition_variable opened;
  bool open = false;
  std::atomic<int> ran = 0;
  std::atomic<bool> busy = false;
  {
    ReadPool pool(1, 2);
    ASSERT_TRUE(pool.Run([&] {
                      busy = true;
                      std::unique_lock<std::mutex> lock(gate);
                      opened.wait(lock, [&] { return open; });
                      ++ran;
                    })
                    .ok());
    while (!busy) std::this_thread::yield();
    std::promise<void> last;
    EXPECT_TRUE(pool.Run([&] { ++ran; }).ok());
    EXPECT_TRUE(pool.Run([&] {
                      ++ran;
                      last.set_value();
                    })
                    .ok());
    EXPECT_EQ(engine::ReasonOf(pool.Run([] {})), Reason::kOverloaded);
    {
      const std::lock_guard<std::mutex> lock(gate);
      open = true;
    }
    opened.notify_all();
    last.get_future().wait();
  }
  EXPECT_EQ(ran, 3);
}

}  // namespace
}  // namespace stint::api
