// The life of a job, from the outside of the engine: every way into a state and out of it.
#include <gtest/gtest.h>

#include "tests/support/broker_harness.h"

namespace stint::testing {
namespace {

using engine::EndReason;
using engine::JobState;
using engine::LeaseStatus;
using engine::Reason;
using engine::ReasonOf;

JobState StateOf(const engine::JobSnapshot& job) {
  return static_cast<JobState>(job.state.state());
}

class EngineLifeTest : public ::testing::Test {
 protected:
  void TearDown() override {
    const absl::Status checked = broker_.Check();
    EXPECT_TRUE(checked.ok()) << checked;
  }
  BrokerHarness broker_;
};

TEST_F(EngineLifeTest, EnqueueLeaseComplete) {
  const auto enqueued = broker_.Enqueue("email", BrokerHarness::Job("hello"));
  ASSERT_EQ(enqueued.jobs.size(), 1u);
  const auto leases = broker_.Lease("email");
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].job.record.payload(), "hello");
  EXPECT_EQ(broker_.Stats("email").counters.leased(), 1);
  const auto completed = broker_.Complete(leases[0], "done");
  ASSERT_TRUE(completed.status.ok()) << completed.status;
  EXPECT_EQ(completed.state, JobState::kCompleted);
  const auto job = broker_.Get("email", enqueued.jobs[0].job_id);
  EXPECT_EQ(StateOf(job), JobState::kCompleted);
  EXPECT_EQ(job.result, "done");
}

TEST_F(EngineLifeTest, SettleRepeatsByTokenAndRefusesOthers) {
  broker_.Enqueue("q");
  const auto lease = broker_.Lease("q").at(0);
  ASSERT_TRUE(broker_.Complete(lease).status.ok());
  ASSERT_TRUE(broker_.Complete(lease).status.ok());
  EXPECT_EQ(ReasonOf(broker_.Fail(lease).status), Reason::kLeaseLost);
}

TEST_F(EngineLifeTest, LapseGivesTheJobToSomebodyElse) {
  broker_.Enqueue("q");
  const auto first = broker_.Lease("q", 1, 10'000, "a").at(0);
  broker_.Advance(9'000);
  EXPECT_TRUE(broker_.Lease("q").empty());
  broker_.Advance(1'500);
  const auto second = broker_.Lease("q", 1, 10'000, "b");
  ASSERT_EQ(second.size(), 1u);
  EXPECT_GT(second[0].token, first.token);
  EXPECT_EQ(second[0].job.state.total_losses(), 1);
  EXPECT_EQ(broker_.Heartbeat(first), LeaseStatus::kLost);
  EXPECT_EQ(ReasonOf(broker_.Complete(first).status), Reason::kLeaseLost);
  EXPECT_TRUE(broker_.Complete(second[0]).status.ok());
}

TEST_F(EngineLifeTest, LongPollIsWokenByEnqueue) {
  const auto waiting = broker_.Start(BrokerHarness::LeaseCall("q", 20'000));
  EXPECT_FALSE(waiting->outcome.has_value());
  broker_.Advance(2'000);
  broker_.Enqueue("q");
  ASSERT_TRUE(waiting->outcome.has_value());
  EXPECT_EQ(std::get<engine::LeaseReply>(waiting->outcome->body).leases.size(), 1u);
}

TEST_F(EngineLifeTest, CrashKeepsWhatWasAnswered) {
  broker_.Enqueue("q", BrokerHarness::Job("1"));
  broker_.Enqueue("q", BrokerHarness::Job(std::string(10'000, 'x')));
  const auto lease = broker_.Lease("q").at(0);
  broker_.Crash(5'000);
  EXPECT_EQ(broker_.Stats("q").counters.leased(), 1);
  EXPECT_TRUE(broker_.Complete(lease).status.ok());
  const auto next = broker_.Lease("q");
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].job.record.payload().size(), 10'000u);
}

TEST_F(EngineLifeTest, LeaseJobsRepeatsAlsoAfterACrash) {
  broker_.EnqueueMany("q", {BrokerHarness::Job("1"), BrokerHarness::Job("2")});
  engine::LeaseCommand call = BrokerHarness::LeaseCall("q", 0);
  call.request_id = "r-1";
  const auto lease = [this](const engine::LeaseCommand& command) {
    return std::get<engine::LeaseReply>(broker_.Call(command).body).leases;
  };
  const auto first = lease(call);
  ASSERT_EQ(first.size(), 1u);
  broker_.Crash(1'000);
  const auto again = lease(call);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].token, first[0].token);
  EXPECT_EQ(again[0].job.job_id, first[0].job.job_id);
  call.request_id = "r-2";
  ASSERT_EQ(lease(call).size(), 1u);
}

TEST_F(EngineLifeTest, DelayedJobBecomesReadyAtItsTime) {
  auto job = BrokerHarness::Job();
  job.delay_ms = 10'000;
  broker_.Enqueue("q", job);
  auto wall = BrokerHarness::Job();
  wall.due_wall_ms = broker_.clock().wall_ms + 5'000;
  broker_.Enqueue("q", wall);
  EXPECT_TRUE(broker_.Lease("q", 2).empty());
  broker_.Advance(5'000);
  EXPECT_EQ(broker_.Lease("q", 2).size(), 1u);
  broker_.Crash(4'000);
  EXPECT_TRUE(broker_.Lease("q", 2).empty());
  broker_.Advance(1'000);
  EXPECT_EQ(broker_.Lease("q", 2).size(), 1u);
}

TEST_F(EngineLifeTest, PurgeTakesWaitingJobsAtOnce) {
  for (int i = 0; i < 600; ++i) broker_.Enqueue("q");
  const auto lease = broker_.Lease("q").at(0);
  const auto outcome = broker_.Call(engine::PurgeQueueCommand{"q", false, {}});
  EXPECT_EQ(std::get<engine::PurgeReply>(outcome.body).purged, 599);
  EXPECT_TRUE(broker_.Lease("q").empty());
  EXPECT_TRUE(broker_.Release(lease).status.ok());
  EXPECT_EQ(broker_.Lease("q").size(), 1u);
}

}  // namespace
}  // namespace stint::testing
