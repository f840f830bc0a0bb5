// Renewing leases and what heartbeats say.
#include <atomic>

#include "client/cpp/worker.h"
#include "gmock/gmock.h"
#include "tests/unit/client_worker_fixture.h"

namespace stint::testing {
namespace {

using client::CancelReason;
using client::JobContext;
using client::Result;

TEST_F(WorkerTest, RenewsAllLeasesWithOneCallEveryThird) {
  Gate gate;
  options_.concurrency = 3;
  for (int i = 0; i < 3; ++i) broker_.AddJob("q");
  auto worker = Start([&](JobContext&) {
    gate.Pass();
    return Result::Complete();
  });
  gate.AwaitArrivals(3);
  clock_.Advance(absl::Milliseconds(4999));
  clock_.AwaitWaiter(absl::Milliseconds(1));
  EXPECT_EQ(broker_.Calls("Heartbeat"), 0);
  clock_.Advance(absl::Milliseconds(1));
  broker_.WaitForCalls("Heartbeat", 1);
  clock_.AwaitWaiter(absl::Seconds(5));
  clock_.Advance(absl::Seconds(5));
  broker_.WaitForCalls("Heartbeat", 2);
  for (const auto& request : broker_.Requests<v1::HeartbeatRequest>("Heartbeat")) {
    EXPECT_EQ(request.leases_size(), 3);
    EXPECT_EQ(request.worker(), "worker-1");
  }
  gate.Open();
  broker_.WaitForCount("q", v1::JOB_STATE_COMPLETED, 3);
}

TEST_F(WorkerTest, ProgressGoesWithTheNextHeartbeatThatArrives) {
  Gate gate;
  const std::string job = broker_.AddJob("q");
  broker_.Refuse("Heartbeat", {}, 1);
  auto worker = Start([&](JobContext& context) {
    context.SetProgress("one");
    context.SetProgress(std::string(5000, 'x'));
    gate.Pass();
    return Result::Complete();
  });
  gate.AwaitArrivals(1);
  clock_.Advance(absl::Seconds(5));
  broker_.WaitForCalls("Heartbeat", 1);
  clock_.AwaitWaiter(absl::Seconds(1));
  clock_.Advance(absl::Seconds(1));
  broker_.WaitForCalls("Heartbeat", 2);
  clock_.AwaitWaiter(absl::Seconds(5));
  clock_.Advance(absl::Seconds(5));
  broker_.WaitForCalls("Heartbeat", 3);
  const auto beats = broker_.Requests<v1::HeartbeatRequest>("Heartbeat");
  EXPECT_EQ(beats[0].leases(0).progress(), std::string(4096, 'x'));
  EXPECT_EQ(beats[1].leases(0).progress(), beats[0].leases(0).progress());
  EXPECT_FALSE(beats[2].leases(0).has_progress());
  EXPECT_EQ(broker_.GetJob(job).progress().size(), 4096U);
  gate.Open();
}

TEST_F(WorkerTest, SendsHeartbeatsAsOftenAsTheBrokerAsks) {
  Gate gate;
  broker_.SetHeartbeatInterval(absl::Seconds(2));
  broker_.AddJob("q");
  auto worker = Start([&](JobContext&) {
    gate.Pass();
    return Result::Complete();
  });
  gate.AwaitArrivals(1);
  clock_.Advance(absl::Seconds(5));
  broker_.WaitForCalls("Heartbeat", 1);
  clock_.AwaitWaiter(absl::Seconds(2));
  clock_.Advance(absl::Seconds(2));
  broker_.WaitForCalls("Heartbeat", 2);
  gate.Open();
}

// S29: each retry within 1 s; the handler goes on; one attempt.
TEST_F(WorkerTest, S29AFailedHeartbeatIsNotTheEnd) {
  Gate gate;
  const std::string job = broker_.AddJob("q");
  std::atomic<bool> cancelled{false};
  auto worker = Start([&](JobContext& context) {
    gate.Pass();
    cancelled = context.cancel().cancelled();
    return Result::Complete();
  });
  gate.AwaitArrivals(1);
  broker_.Refuse("Heartbeat", {}, 8);
  clock_.Advance(absl::Seconds(5));
  for (int call = 1; call <= 8; ++call) {
    broker_.WaitForCalls("Heartbeat", call);
    clock_.AwaitWaiter(absl::Seconds(1));
    clock_.Advance(absl::Seconds(1));
  }
  broker_.WaitForCalls("Heartbeat", 9);
  gate.Open();
  broker_.WaitForState(job, v1::JOB_STATE_COMPLETED);
  EXPECT_FALSE(cancelled);
  EXPECT_EQ(broker_.GetJob(job).attempt(), 1);
}

// S22: the next heartbeat says lost, the handler sees it, and its result is not sent.
TEST_F(WorkerTest, S22ALostLeaseCancelsTheHandlerAndDropsItsResult) {
  Gate started;
  started.Open();
  const std::string job = broker_.AddJob("q", "lost");
  std::atomic<CancelReason> reason{CancelReason::kNone};
  auto worker = Start([&](JobContext& context) {
    started.Pass();
    if (context.payload() == "lost") reason = UntilCancelled(context);
    return Result::Complete("late");
  });
  started.AwaitArrivals(1);
  broker_.TakeOver(job);
  clock_.Advance(absl::Seconds(5));
  const std::string next = broker_.AddJob("q", "next");
  broker_.WaitForState(next, v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(reason, CancelReason::kLeaseLost);
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_LEASED);
  EXPECT_EQ(broker_.GetJob(job).holder().worker(), "another");
  for (const auto& request : broker_.Requests<v1::SettleJobsRequest>("SettleJobs")) {
    for (const v1::SettleItem& item : request.items()) EXPECT_NE(item.complete().job(), job);
  }
  EXPECT_EQ(worker->stats().lost, 1);
}

TEST_F(WorkerTest, ASettleOfALostLeaseIsDroppedAndCounted) {
  Gate gate;
  const std::string job = broker_.AddJob("q", "lost");
  auto worker = Start([&](JobContext& context) {
    if (context.payload() == "lost") gate.Pass();
    return Result::Complete("late");
  });
  gate.AwaitArrivals(1);
  broker_.TakeOver(job);
  gate.Open();
  broker_.WaitForState(broker_.AddJob("q"), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_LEASED);
  EXPECT_EQ(worker->Stop(absl::Seconds(1)).unsettled, 0);
  EXPECT_EQ(worker->stats().lost, 1);
}

class VerdictTest : public WorkerTest,
                    public ::testing::WithParamInterface<std::pair<v1::LeaseStatus, CancelReason>> {
};

TEST_P(VerdictTest, ReachesTheHandler) {
  Gate started;
  started.Open();
  const std::string job = broker_.AddJob("q");
  Gate ended;
  ended.Open();
  std::atomic<CancelReason> reason{CancelReason::kNone};
  auto worker = Start([&](JobContext& context) {
    started.Pass();
    reason = UntilCancelled(context);
    ended.Pass();
    return Result::Fail("stopped as asked");
  });
  started.AwaitArrivals(1);
  broker_.SetVerdict(job, GetParam().first);
  clock_.Advance(absl::Seconds(5));
  ended.AwaitArrivals(1);
  EXPECT_EQ(reason, GetParam().second);
}

INSTANTIATE_TEST_SUITE_P(
    All, VerdictTest,
    ::testing::Values(std::pair(v1::LEASE_STATUS_CANCEL_REQUESTED, CancelReason::kCancelRequested),
                      std::pair(v1::LEASE_STATUS_LOST, CancelReason::kLeaseLost),
                      std::pair(v1::LEASE_STATUS_RUN_LIMIT, CancelReason::kRunLimit)));

// A cancel leaves the lease ours: it is renewed, and the handler's answer is sent.
TEST_F(WorkerTest, AgreesToACancel) {
  Gate started;
  started.Open();
  const std::string job = broker_.AddJob("q");
  auto worker = Start([&](JobContext& context) {
    started.Pass();
    UntilCancelled(context);
    return Result::Fail("stopped as asked");
  });
  started.AwaitArrivals(1);
  broker_.SetVerdict(job, v1::LEASE_STATUS_CANCEL_REQUESTED);
  clock_.Advance(absl::Seconds(5));
  broker_.WaitForState(job, v1::JOB_STATE_DELAYED);
  EXPECT_EQ(broker_.GetJob(job).last_error(), "stopped as asked");
}

TEST_F(WorkerTest, ALeaseNotRenewedForItsDurationIsUnconfirmedAndWorkGoesOn) {
  Gate started;
  started.Open();
  Gate gate;
  const std::string job = broker_.AddJob("q");
  const client::CancelToken* token = nullptr;
  auto worker = Start([&](JobContext& context) {
    token = &context.cancel();
    started.Pass();
    gate.Pass();
    return Result::Complete();
  });
  started.AwaitArrivals(1);
  broker_.Refuse("Heartbeat", {}, 12);
  clock_.Advance(absl::Seconds(5));
  for (int call = 1; call <= 12; ++call) {
    broker_.WaitForCalls("Heartbeat", call);
    clock_.AwaitWaiter(absl::Seconds(1));
    if (call == 5) {
      EXPECT_FALSE(token->unconfirmed());
    }
    if (call == 12) {
      EXPECT_TRUE(token->unconfirmed());
      EXPECT_FALSE(token->cancelled());
    }
    clock_.Advance(absl::Seconds(1));
  }
  broker_.WaitForCalls("Heartbeat", 13);
  clock_.AwaitWaiter(absl::Seconds(5));  // the answer has been read
  EXPECT_FALSE(token->unconfirmed());
  gate.Open();
  broker_.WaitForState(job, v1::JOB_STATE_COMPLETED);
}

TEST_F(WorkerTest, CancelsAnUnconfirmedLeaseOnlyWhenToldSo) {
  Gate started;
  started.Open();
  const std::string job = broker_.AddJob("q");
  options_.cancel_when_unconfirmed = true;
  options_.max_jobs = 1;
  std::atomic<CancelReason> reason{CancelReason::kNone};
  auto worker = Start([&](JobContext& context) {
    started.Pass();
    reason = UntilCancelled(context);
    return Result::Fail("gave up");
  });
  started.AwaitArrivals(1);
  broker_.Refuse("Heartbeat", {}, 1);
  clock_.Advance(absl::Seconds(15));
  EXPECT_TRUE(worker->Wait().ok());
  EXPECT_EQ(reason, CancelReason::kUnconfirmed);
  // Not the job's failure: it is handed back.
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_READY);
  EXPECT_EQ(broker_.GetJob(job).failures(), 0);
}

TEST_F(WorkerTest, RenewsTheLeaseOfAResultThatIsNotAnsweredYet) {
  const std::string job = broker_.AddJob("q");
  broker_.Refuse("SettleJobs", {}, 1);
  auto worker = Start([](JobContext&) { return Result::Complete(); });
  broker_.WaitForCalls("SettleJobs", 1);
  clock_.AwaitWaiter(absl::Milliseconds(100));
  broker_.Refuse("SettleJobs", {}, 1);
  clock_.Advance(absl::Seconds(5));
  broker_.WaitForCalls("Heartbeat", 1);
  broker_.WaitForCalls("SettleJobs", 2);
  clock_.AwaitWaiter(absl::Seconds(2));
  clock_.Advance(absl::Seconds(2));
  broker_.WaitForState(job, v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(broker_.Requests<v1::HeartbeatRequest>("Heartbeat")[0].leases(0).job(), job);
}

}  // namespace
}  // namespace stint::testing
