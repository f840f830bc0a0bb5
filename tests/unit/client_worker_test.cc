// Taking jobs, running handlers, settling. Leases and their renewal: client_lease_test.cc;
// stopping: client_stop_test.cc.
#include <atomic>
#include <new>
#include <set>
#include <stdexcept>

#include "client/cpp/worker.h"
#include "gmock/gmock.h"
#include "tests/unit/client_worker_fixture.h"

namespace stint::testing {
namespace {

using client::JobContext;
using client::Result;
using ::testing::Each;
using ::testing::HasSubstr;

std::vector<v1::SettleItem> SettledItems(const FakeBroker& broker) {
  std::vector<v1::SettleItem> items;
  for (const auto& request : broker.Requests<v1::SettleJobsRequest>("SettleJobs")) {
    items.insert(items.end(), request.items().begin(), request.items().end());
  }
  return items;
}

TEST_F(WorkerTest, RunsTheHandlerAndKeepsItsResult) {
  v1::JobSpec spec;
  spec.set_payload("hello");
  (*spec.mutable_headers())["traceparent"] = "00-1";
  const std::string job = broker_.AddJob("q", spec);
  int64_t token = 0;
  auto worker = Start([&](JobContext& context) {
    token = context.fencing_token();
    EXPECT_EQ(context.job(), job);
    EXPECT_EQ(context.attempt(), 1);
    EXPECT_EQ(context.lease().headers().at("traceparent"), "00-1");
    EXPECT_FALSE(context.cancel().cancelled());
    return Result::Complete(context.payload() + " world");
  });
  broker_.WaitForState(job, v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(broker_.GetJob(job).result(), "hello world");
  const auto items = SettledItems(broker_);
  ASSERT_EQ(items.size(), 1U);
  EXPECT_EQ(items[0].complete().token(), token);
}

TEST_F(WorkerTest, AsksWithItsIdAndLeaseAndForNoMoreThanItsPlaces) {
  options_.concurrency = 3;
  options_.lease_duration = absl::Seconds(40);
  auto worker = Start([](JobContext&) { return Result::Complete(); });
  broker_.WaitForCalls("LeaseJobs", 1);
  const auto request = broker_.Requests<v1::LeaseJobsRequest>("LeaseJobs").front();
  EXPECT_EQ(request.worker(), "worker-1");
  EXPECT_EQ(request.max_jobs(), 3);
  EXPECT_EQ(request.lease_duration().seconds(), 40);
  EXPECT_EQ(request.request_id().size(), 32U);
  EXPECT_EQ(request.wait().seconds(), 20);
}

// S21, S53: what is leased runs; nothing waits in a buffer where its lease could lapse or a
// cancel could not reach it.
TEST_F(WorkerTest, S21NeverHoldsMoreLeasesThanItRuns) {
  Gate gate;
  options_.concurrency = 2;
  for (int i = 0; i < 6; ++i) broker_.AddJob("q");
  auto worker = Start([&](JobContext&) {
    gate.Pass();
    return Result::Complete();
  });
  gate.AwaitArrivals(2);
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_LEASED), 2);
  gate.Open();
  broker_.WaitForCount("q", v1::JOB_STATE_COMPLETED, 6);
  for (const auto& request : broker_.Requests<v1::LeaseJobsRequest>("LeaseJobs")) {
    EXPECT_LE(request.max_jobs(), 2);
  }
}

TEST_F(WorkerTest, S91OneSlowJobDoesNotHoldTheOtherPlaces) {
  Gate gate;
  options_.concurrency = 3;
  broker_.AddJob("q", "slow");
  for (int i = 0; i < 30; ++i) broker_.AddJob("q", "fast");
  auto worker = Start([&](JobContext& job) {
    if (job.payload() == "slow") gate.Pass();
    return Result::Complete();
  });
  broker_.WaitForCount("q", v1::JOB_STATE_COMPLETED, 30);
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_LEASED), 1);
  gate.Open();
  broker_.WaitForCount("q", v1::JOB_STATE_COMPLETED, 31);
}

TEST_F(WorkerTest, S36EveryWayOutOfAHandlerFreesItsPlace) {
  options_.concurrency = 2;
  const std::string no_memory = broker_.AddJob("q", "bad_alloc");
  const std::string number = broker_.AddJob("q", "42");
  const std::string error = broker_.AddJob("q", "error");
  std::vector<std::string> good;
  for (int i = 0; i < 10; ++i) good.push_back(broker_.AddJob("q"));
  auto worker = Start([](JobContext& job) -> Result {
    if (job.payload() == "bad_alloc") throw std::bad_alloc();
    if (job.payload() == "42") throw 42;
    if (job.payload() == "error") throw std::runtime_error("boom \xff");
    return Result::Complete();
  });
  for (const std::string& job : good) broker_.WaitForState(job, v1::JOB_STATE_COMPLETED);
  broker_.WaitForCount("q", v1::JOB_STATE_DELAYED, 3);
  EXPECT_THAT(broker_.GetJob(no_memory).last_error(), HasSubstr("out of memory"));
  EXPECT_THAT(broker_.GetJob(number).last_error(), HasSubstr("not an exception"));
  EXPECT_EQ(broker_.GetJob(error).last_error(),
            "the handler threw an exception: boom \xEF\xBF\xBD");
}

TEST_F(WorkerTest, FailureSaysWhatHappensNext) {
  const std::string never = broker_.AddJob("q", "never");
  const std::string later = broker_.AddJob("q", "later");
  auto worker = Start([](JobContext& job) {
    if (job.payload() == "never") return Result::Fail("no such user").NoRetry();
    return Result::Fail("busy").RetryAfter(absl::Seconds(90));
  });
  broker_.WaitForState(never, v1::JOB_STATE_DEAD);
  broker_.WaitForState(later, v1::JOB_STATE_DELAYED);
  const auto items = SettledItems(broker_);
  ASSERT_EQ(items.size(), 2U);
  EXPECT_TRUE(items[0].fail().no_retry());
  EXPECT_EQ(items[1].fail().retry_after().seconds(), 90);
}

TEST_F(WorkerTest, GivesBackAJobOfAKindItDoesNotKnow) {
  v1::JobSpec spec;
  spec.set_kind("unknown");
  const std::string unknown = broker_.AddJob("q", spec);
  spec.set_kind("known");
  const std::string known = broker_.AddJob("q", spec);
  options_.clock = &clock_;
  const std::map<std::string, client::Handler> handlers = {
      {"known", [](JobContext&) { return Result::Complete(); }}};
  client::Worker worker(connection_, options_, handlers);
  ASSERT_TRUE(worker.Start().ok());
  broker_.WaitForState(known, v1::JOB_STATE_COMPLETED);
  broker_.WaitForState(unknown, v1::JOB_STATE_DELAYED);
  EXPECT_EQ(SettledItems(broker_)[0].release().reason(), v1::RELEASE_REASON_KIND_UNKNOWN);
}

TEST_F(WorkerTest, ALostAnswerIsNotALostLease) {
  broker_.LoseAnswers("LeaseJobs");
  const std::string job = broker_.AddJob("q");
  auto worker = Start([](JobContext&) { return Result::Complete(); });
  clock_.AwaitWaiter(absl::Milliseconds(100));  // the first wait before a repeat
  clock_.Advance(absl::Milliseconds(100));
  broker_.WaitForState(job, v1::JOB_STATE_COMPLETED);
  const auto requests = broker_.Requests<v1::LeaseJobsRequest>("LeaseJobs");
  EXPECT_EQ(requests[0].request_id(), requests[1].request_id());
  EXPECT_EQ(broker_.GetJob(job).attempt(), 1);
  EXPECT_EQ(broker_.MostLeased(), 1);
}

TEST_F(WorkerTest, RepeatsASettleUntilItIsAnswered) {
  broker_.LoseAnswers("SettleJobs");
  broker_.Refuse("SettleJobs", {absl::StatusCode::kUnavailable, "STORE_RECOVERING", "", {}, {}});
  const std::string job = broker_.AddJob("q");
  auto worker = Start([](JobContext&) { return Result::Complete("once"); });
  clock_.AwaitWaiter(absl::Milliseconds(100));
  clock_.Advance(absl::Milliseconds(100));
  broker_.WaitForCalls("SettleJobs", 2);
  clock_.AwaitWaiter(absl::Seconds(2));
  clock_.Advance(absl::Seconds(2));
  broker_.WaitForCalls("SettleJobs", 3);
  EXPECT_EQ(worker->Stop(absl::Seconds(1)).unsettled, 0);
  EXPECT_EQ(worker->stats().completed, 1);
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_COMPLETED);
}

// S65: over the broker's limit for results, and over gRPC's limit for a call.
TEST_F(WorkerTest, S65AResultTooLargeFailsTheAttemptAndSaysSo) {
  const std::string large = broker_.AddJob("q", std::to_string(2 * 1024 * 1024));
  const std::string huge = broker_.AddJob("q", std::to_string(20 * 1024 * 1024));
  const std::string small = broker_.AddJob("q", "10");
  auto worker = Start([](JobContext& job) {
    return Result::Complete(std::string(std::stoul(job.payload()), 'x'));
  });
  broker_.WaitForState(large, v1::JOB_STATE_DELAYED);
  broker_.WaitForState(huge, v1::JOB_STATE_DELAYED);
  broker_.WaitForState(small, v1::JOB_STATE_COMPLETED);
  EXPECT_THAT(broker_.GetJob(large).last_error(), HasSubstr("refused the result of 2097152 bytes"));
  EXPECT_THAT(broker_.GetJob(huge).last_error(), HasSubstr("refused the result of 20971520 bytes"));
}

TEST_F(WorkerTest, S65AnErrorTextTooLargeIsShortened) {
  const std::string job = broker_.AddJob("q");
  auto worker = Start([](JobContext&) { return Result::Fail(std::string(20 * 1024 * 1024, 'e')); });
  broker_.WaitForState(job, v1::JOB_STATE_DELAYED);
  const std::string error = broker_.GetJob(job).last_error();
  EXPECT_EQ(error.size(), 8192U);
  EXPECT_THAT(error, HasSubstr("[shortened, was 20971520 bytes]"));
}

// One settle that the broker cannot take does not hold up the others of the same call.
TEST_F(WorkerTest, ARefusedCallIsSentAgainOneByOne) {
  Gate gate;
  options_.concurrency = 5;
  for (int i = 0; i < 5; ++i) broker_.AddJob("q", std::to_string(i));
  // Nothing is answered until all five results are there.
  broker_.Refuse("SettleJobs", {}, 1);
  auto worker = Start([&](JobContext&) {
    gate.Pass();
    return Result::Complete();
  });
  gate.AwaitArrivals(5);
  gate.Open();
  clock_.AwaitWaiter(absl::Milliseconds(100));
  broker_.Refuse("SettleJobs", {absl::StatusCode::kInvalidArgument, "INVALID_REQUEST", "", {}, {}});
  clock_.Advance(absl::Milliseconds(100));
  broker_.WaitForCount("q", v1::JOB_STATE_LEASED, 0);
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_COMPLETED) + broker_.Count("q", v1::JOB_STATE_DELAYED),
            5);
}

TEST_F(WorkerTest, EndsAfterMaxJobs) {
  options_.max_jobs = 2;
  for (int i = 0; i < 5; ++i) broker_.AddJob("q");
  auto worker = Start([](JobContext&) { return Result::Complete(); });
  EXPECT_TRUE(worker->Wait().ok());
  EXPECT_EQ(worker->stats().completed, 2);
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_READY), 3);
}

TEST_F(WorkerTest, EndsWhenTheQueueIsEmpty) {
  options_.exit_when_empty = true;
  options_.concurrency = 2;
  for (int i = 0; i < 5; ++i) broker_.AddJob("q");
  auto worker = Start([](JobContext&) { return Result::Complete(); });
  EXPECT_TRUE(worker->Wait().ok());
  EXPECT_EQ(worker->stats().completed, 5);
}

TEST_F(WorkerTest, EndsWhenTheBrokerRefusesItForGood) {
  broker_.RequireToken("another");
  auto worker = Start([](JobContext&) { return Result::Complete(); });
  EXPECT_TRUE(absl::IsUnauthenticated(worker->Wait()));
}

// S88: waits start small again after each success, and nothing is ever used up.
TEST_F(WorkerTest, S88GoesOnAfterAnyNumberOfFailures) {
  SteppingClock clock;
  options_.clock = &clock;
  broker_.Refuse("LeaseJobs", {}, 40);
  client::Worker worker(connection_, options_, [](JobContext&) { return Result::Complete(); });
  ASSERT_TRUE(worker.Start().ok());
  broker_.WaitForCalls("LeaseJobs", 41);
  const std::vector<absl::Duration> waits = clock.Waits();
  ASSERT_EQ(waits.size(), 40U);
  EXPECT_LE(waits.front(), absl::Milliseconds(100));
  EXPECT_LE(*std::max_element(waits.begin(), waits.end()), absl::Seconds(2));
}

TEST_F(WorkerTest, ObeysTheWaitTheBrokerAsksFor) {
  SteppingClock clock;
  options_.clock = &clock;
  broker_.Refuse("LeaseJobs",
                 {absl::StatusCode::kResourceExhausted, "OVERLOADED", "", absl::Seconds(7), {}});
  client::Worker worker(connection_, options_, [](JobContext&) { return Result::Complete(); });
  ASSERT_TRUE(worker.Start().ok());
  broker_.WaitForCalls("LeaseJobs", 2);
  EXPECT_GE(clock.Waits().front(), absl::Seconds(7));
}

TEST_F(WorkerTest, TellsOfAnOutageOnceAndOfItsEnd) {
  std::mutex mutex;
  std::vector<client::WorkerEvent::Kind> kinds;
  SteppingClock clock;
  options_.clock = &clock;
  options_.exit_when_empty = true;
  options_.on_event = [&](const client::WorkerEvent& event) {
    const std::lock_guard<std::mutex> lock(mutex);
    kinds.push_back(event.kind);
  };
  broker_.Refuse("LeaseJobs", {}, 5);
  client::Worker worker(connection_, options_, [](JobContext&) { return Result::Complete(); });
  ASSERT_TRUE(worker.Start().ok());
  ASSERT_TRUE(worker.Wait().ok());
  const std::lock_guard<std::mutex> lock(mutex);
  EXPECT_EQ(kinds,
            (std::vector<client::WorkerEvent::Kind>{client::WorkerEvent::Kind::kBrokerUnreachable,
                                                    client::WorkerEvent::Kind::kBrokerBack}));
}

TEST_F(WorkerTest, RefusesOptionsThatCannotWork) {
  const auto start = [&](client::WorkerOptions options, client::Handler handler) {
    return client::Worker(connection_, std::move(options), std::move(handler)).Start();
  };
  const client::Handler handler = [](JobContext&) { return Result::Complete(); };
  EXPECT_TRUE(absl::IsInvalidArgument(start({}, handler)));
  EXPECT_TRUE(absl::IsInvalidArgument(start(options_, nullptr)));
  options_.concurrency = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(start(options_, handler)));
  options_.concurrency = 1;
  options_.lease_duration = absl::Milliseconds(999);
  EXPECT_TRUE(absl::IsInvalidArgument(start(options_, handler)));
}

// S52: pause and resume in quick succession never leave the worker standing.
TEST_F(WorkerTest, S52PauseAndResumeInQuickSuccession) {
  auto worker = Start([](JobContext&) { return Result::Complete(); });
  for (int round = 0; round < 100; ++round) {
    worker->Pause();
    worker->Resume();
    if (round % 3 == 0) {
      worker->Pause();
      worker->Resume();
    }
    broker_.WaitForState(broker_.AddJob("q"), v1::JOB_STATE_COMPLETED);
  }
  EXPECT_EQ(worker->Stop(absl::Hours(1)).unsettled, 0);
  EXPECT_EQ(worker->stats().completed, 100);
}

TEST_F(WorkerTest, APausedWorkerTakesNothing) {
  auto worker = Start([](JobContext&) { return Result::Complete(); });
  broker_.WaitForCalls("LeaseJobs", 1);
  worker->Pause();
  broker_.WaitForCalls("LeaseJobs", 2);  // asks for what the ended call may have been given
  EXPECT_EQ(broker_.Requests<v1::LeaseJobsRequest>("LeaseJobs")[1].wait().seconds(), 0);
  const std::string job = broker_.AddJob("q");
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_READY);
  EXPECT_EQ(broker_.Calls("LeaseJobs"), 2);
  worker->Resume();
  broker_.WaitForState(job, v1::JOB_STATE_COMPLETED);
}

}  // namespace
}  // namespace stint::testing
