// S102, without its concurrency limit: a handler that hangs while heartbeats go on.
#include <gtest/gtest.h>

#include "tests/support/broker_harness.h"

namespace stint::testing {
namespace {

using engine::AttemptOutcome;
using engine::JobState;
using engine::LeaseStatus;

class RunLimitTest : public ::testing::Test {
 protected:
  static engine::NewJob Limited(int32_t max_attempts) {
    engine::NewJob job = BrokerHarness::Job();
    job.record.set_run_limit_ms(60'000);
    job.record.set_max_attempts(max_attempts);
    job.record.mutable_retry()->set_initial_delay_ms(0);
    return job;
  }
  // Renews every third of the lease, for so long.
  void HeartbeatFor(const engine::GrantedLease& lease, int64_t ms) {
    for (; ms > 0; ms -= 3'000) {
      broker_.Advance(3'000);
      last_ = broker_.Heartbeat(lease);
    }
  }
  BrokerHarness broker_;
  LeaseStatus last_ = LeaseStatus::kRenewed;
};

TEST_F(RunLimitTest, S102_TheAttemptEndsHoweverOftenItIsRenewed) {
  broker_.Enqueue("q", Limited(3));
  const auto first = broker_.Lease("q", 1, 10'000, "a").at(0);
  EXPECT_EQ(first.run_limit_ms, 60'000);
  HeartbeatFor(first, 57'000);
  EXPECT_EQ(last_, LeaseStatus::kRenewed);
  EXPECT_TRUE(broker_.Lease("q").empty());
  HeartbeatFor(first, 6'000);
  EXPECT_EQ(last_, LeaseStatus::kRunLimit);
  EXPECT_EQ(engine::ReasonOf(broker_.Complete(first).status), engine::Reason::kLeaseLost);

  const auto second = broker_.Lease("q", 1, 10'000, "b");
  ASSERT_EQ(second.size(), 1u);
  const record::JobState& state = second[0].job.state;
  EXPECT_EQ(state.failures(), 1);
  EXPECT_EQ(state.total_losses(), 0);
  ASSERT_EQ(state.attempts_size(), 1);
  EXPECT_EQ(state.attempts(0).outcome(), static_cast<int32_t>(AttemptOutcome::kRunLimit));
  EXPECT_TRUE(broker_.Check().ok());
}

TEST_F(RunLimitTest, ItGoesOnAcrossARestartAndSpendsTheLastAttempt) {
  const auto enqueued = broker_.Enqueue("q", Limited(1));
  const auto lease = broker_.Lease("q", 1, 10'000).at(0);
  HeartbeatFor(lease, 30'000);
  broker_.Crash(20'000);
  HeartbeatFor(lease, 12'000);
  EXPECT_EQ(last_, LeaseStatus::kRunLimit);
  const auto job = broker_.Get("q", enqueued.jobs[0].job_id);
  EXPECT_EQ(static_cast<JobState>(job.state.state()), JobState::kDead);
  EXPECT_EQ(job.state.end_reason(), static_cast<int32_t>(engine::EndReason::kAttemptsExhausted));
  EXPECT_TRUE(broker_.Check().ok());
}

}  // namespace
}  // namespace stint::testing
