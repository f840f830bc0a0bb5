// The orderly end of a worker.
#include <atomic>
#include <future>

#include "client/cpp/worker.h"
#include "gmock/gmock.h"
#include "tests/unit/client_worker_fixture.h"

namespace stint::testing {
namespace {

using client::CancelReason;
using client::JobContext;
using client::Result;
using client::StopReport;

std::future<StopReport> StopInBackground(client::Worker* worker, absl::Duration grace) {
  return std::async(std::launch::async, [worker, grace] { return worker->Stop(grace); });
}

TEST_F(WorkerTest, StopOfAnIdleWorkerNeedsNoGrace) {
  auto worker = Start([](JobContext&) { return Result::Complete(); });
  broker_.WaitForCalls("LeaseJobs", 1);
  const StopReport report = worker->Stop(absl::Hours(1));
  EXPECT_EQ(report.unsettled, 0);
  EXPECT_EQ(report.still_running, 0);
  EXPECT_TRUE(worker->Wait().ok());
}

// S28: intake ends, renewal goes on to the end of the job.
TEST_F(WorkerTest, S28HeartbeatsGoOnWhileItStops) {
  Gate gate;
  const std::string job = broker_.AddJob("q");
  auto worker = Start([&](JobContext&) {
    gate.Pass();
    return Result::Complete();
  });
  gate.AwaitArrivals(1);
  auto stopped = StopInBackground(worker.get(), absl::Seconds(60));
  clock_.AwaitWaiterFor(absl::Seconds(60));
  for (int beat = 1; beat <= 7; ++beat) {
    clock_.AwaitWaiter(absl::Seconds(5));
    clock_.Advance(absl::Seconds(5));
    broker_.WaitForCalls("Heartbeat", beat);
  }
  const std::string later = broker_.AddJob("q");
  gate.Open();
  EXPECT_EQ(stopped.get().unsettled, 0);
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(broker_.GetJob(later).state(), v1::JOB_STATE_READY);
}

// S57: at the end of the grace the handler is cancelled and the job goes back at once.
TEST_F(WorkerTest, S57LessGraceThanTheJobNeeds) {
  Gate started;
  started.Open();
  const std::string job = broker_.AddJob("q");
  std::atomic<CancelReason> reason{CancelReason::kNone};
  auto worker = Start([&](JobContext& context) {
    started.Pass();
    reason = UntilCancelled(context);
    return Result::Fail("interrupted");
  });
  started.AwaitArrivals(1);
  auto stopped = StopInBackground(worker.get(), absl::Seconds(3));
  clock_.AwaitWaiterFor(absl::Seconds(3));
  clock_.Advance(absl::Seconds(3));
  const StopReport report = stopped.get();
  EXPECT_EQ(report.unsettled, 0);
  EXPECT_EQ(report.still_running, 0);
  EXPECT_EQ(reason, CancelReason::kStopping);
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_READY);
  EXPECT_EQ(broker_.GetJob(job).attempt(), 1);
  EXPECT_EQ(broker_.GetJob(job).failures(), 0);
}

TEST_F(WorkerTest, HandsBackAJobWhoseHandlerIgnoresItsCancel) {
  Gate gate;
  const std::string job = broker_.AddJob("q");
  auto worker = Start([&](JobContext&) {
    gate.Pass();
    return Result::Complete("too late");
  });
  gate.AwaitArrivals(1);
  auto stopped = StopInBackground(worker.get(), absl::ZeroDuration());
  clock_.AwaitWaiterFor(absl::Milliseconds(500));
  clock_.Advance(absl::Milliseconds(500));
  broker_.WaitForState(job, v1::JOB_STATE_READY);
  const StopReport report = stopped.get();
  EXPECT_EQ(report.still_running, 1);
  EXPECT_EQ(report.unsettled, 0);
  gate.Open();
  worker.reset();
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_READY);
}

TEST_F(WorkerTest, ASecondStopShortensTheGrace) {
  Gate started;
  started.Open();
  const std::string job = broker_.AddJob("q");
  auto worker = Start([&](JobContext& context) {
    started.Pass();
    UntilCancelled(context);
    return Result::Fail("interrupted");
  });
  started.AwaitArrivals(1);
  auto first = StopInBackground(worker.get(), absl::Hours(1));
  clock_.AwaitWaiterFor(absl::Hours(1));
  EXPECT_EQ(worker->Stop(absl::ZeroDuration()).unsettled, 0);
  first.get();
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_READY);
}

// S58, second run: the broker is away when the worker stops, and comes back within the grace.
TEST_F(WorkerTest, S58ResultsAreDeliveredWhenTheBrokerComesBackInTime) {
  options_.concurrency = 50;
  for (int i = 0; i < 50; ++i) broker_.AddJob("q");
  Gate gate;
  auto worker = Start([&](JobContext&) {
    gate.Pass();
    return Result::Complete();
  });
  gate.AwaitArrivals(50);
  broker_.SetDown(true);
  auto stopped = StopInBackground(worker.get(), absl::Seconds(10));
  clock_.AwaitWaiterFor(absl::Seconds(10));
  gate.Open();
  broker_.WaitForCalls("SettleJobs", 1);
  clock_.AwaitWaiter(absl::Milliseconds(100));
  clock_.Advance(absl::Milliseconds(100));
  broker_.WaitForCalls("SettleJobs", 2);
  broker_.SetDown(false);
  clock_.AwaitWaiter(absl::Seconds(2));
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(stopped.get().unsettled, 0);
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_COMPLETED), 50);
}

// S58: the broker stays away: the report says how many results were not delivered.
TEST_F(WorkerTest, S58SaysHowManyResultsWereNotDelivered) {
  SteppingClock clock;
  options_.clock = &clock;
  options_.concurrency = 3;
  for (int i = 0; i < 3; ++i) broker_.AddJob("q");
  Gate gate;
  client::Worker worker(connection_, options_, [&](JobContext&) {
    gate.Pass();
    return Result::Complete();
  });
  ASSERT_TRUE(worker.Start().ok());
  gate.AwaitArrivals(3);
  broker_.SetDown(true);
  gate.Open();
  broker_.WaitForCalls("SettleJobs", 1);
  EXPECT_EQ(worker.Stop(absl::Seconds(10)).unsettled, 3);
}

// A call that Stop ends may have been given jobs; they are asked for and handed back.
TEST_F(WorkerTest, HandsBackWhatAnEndedCallWasGiven) {
  auto worker = Start([](JobContext&) { return Result::Complete(); });
  broker_.WaitForCalls("LeaseJobs", 1);
  EXPECT_EQ(worker->Stop(absl::Seconds(5)).unsettled, 0);
  const auto requests = broker_.Requests<v1::LeaseJobsRequest>("LeaseJobs");
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].request_id(), requests[1].request_id());
  EXPECT_EQ(requests[1].wait().seconds(), 0);
}

TEST_F(WorkerTest, CanBeDestroyedUnstarted) {
  client::Worker worker(connection_, options_, [](JobContext&) { return Result::Complete(); });
  EXPECT_EQ(worker.Stop(absl::Seconds(1)).unsettled, 0);
}

}  // namespace
}  // namespace stint::testing
