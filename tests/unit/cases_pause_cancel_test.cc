// Field cases S49 to S51 and S54 to S56: pause, cancel.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

class PauseCases : public CaseTest {};

TEST_F(PauseCases, S49_RevivingDeadJobsInAPausedQueue) {
  broker_.EnqueueMany("q", Jobs(15, BrokerHarness::Job()));
  std::vector<GrantedLease> dead = broker_.Lease("q", 5);
  for (const auto& lease : dead) broker_.Fail(lease, {}, true);
  Pause("q");
  const auto poll = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  for (const auto& lease : dead) {
    EXPECT_TRUE(broker_.Call(engine::RedriveCommand{BrokerHarness::Ref(lease), {}}).status.ok());
  }
  EXPECT_FALSE(poll->outcome.has_value());
  EXPECT_TRUE(broker_.Lease("q", 100).empty());
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 15);
  Pause("q", false);
  EXPECT_EQ(LeasesOf(poll).size(), 1u);
  EXPECT_EQ(broker_.Lease("q", 100).size(), 14u);
}

TEST_F(PauseCases, S50_EverythingThatBecomesReadyDuringAPauseStaysPut) {
  // A cron slot (the case's fourth) comes with schedules.
  auto delayed = BrokerHarness::Job("delayed");
  delayed.delay_ms = 10'000;
  auto dying = BrokerHarness::Job("dying");
  broker_.Enqueue("q", dying);
  broker_.Enqueue("q", BrokerHarness::Job("retry"));
  broker_.Lease("q", 1, 15'000);
  broker_.Fail(broker_.Lease("q").at(0), 12'000);
  broker_.Enqueue("q", delayed);
  broker_.Advance(5'000);
  Pause("q");
  auto expiring = BrokerHarness::Job("expiring");
  expiring.expire_after_ms = 25'000;
  const std::string expired = broker_.Enqueue("q", expiring).jobs.at(0).job_id;
  for (int second = 5; second < 60; ++second) {
    EXPECT_TRUE(broker_.Lease("q", 10).empty());
    broker_.Advance(1'000);
  }
  EXPECT_EQ(EndOf(broker_.Get("q", expired)), EndReason::kExpired);
  const auto poll = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  EXPECT_FALSE(poll->outcome.has_value());
  Pause("q", false);
  std::set<std::string> leased = {LeasesOf(poll).at(0).job.record.payload()};
  for (const auto& lease : broker_.Lease("q", 10)) leased.insert(lease.job.record.payload());
  EXPECT_EQ(leased, (std::set<std::string>{"delayed", "dying", "retry"}));
}

TEST_F(PauseCases, S51_SettlesDuringAPause) {
  broker_.EnqueueMany("q", Jobs(10, BrokerHarness::Job()));
  const auto leases = broker_.Lease("q", 10);
  Pause("q");
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(broker_.Heartbeat(leases[i]), LeaseStatus::kRenewed);
    EXPECT_TRUE((i < 5 ? broker_.Complete(leases[i]) : broker_.Fail(leases[i], 1'000)).status.ok());
  }
  EXPECT_EQ(broker_.Stats("q").counters.completed(), 5);
  broker_.Advance(10'000);
  EXPECT_TRUE(broker_.Lease("q", 10).empty());
  Pause("q", false);
  const auto again = broker_.Lease("q", 10);
  ASSERT_EQ(again.size(), 5u);
  for (const auto& lease : again) EXPECT_EQ(AttemptOf(lease), 2);
}

TEST_F(PauseCases, APauseSurvivesARestartAndIsAnswered) {
  broker_.Enqueue("q");
  Pause("q");
  broker_.Crash();
  EXPECT_TRUE(broker_.Lease("q").empty());
  EXPECT_EQ(Refusal(engine::PauseQueueCommand{"unknown", false, {}}), Reason::kQueueNotFound);
  // Before its first use a queue can be paused too.
  Pause("later");
  broker_.Enqueue("later");
  EXPECT_TRUE(broker_.Lease("later").empty());
}

// --- Cancel -----------------------------------------------------------------------------------

class CancelCases : public CaseTest {
 protected:
  absl::Status Cancel(const std::string& queue, const std::string& id) {
    return broker_.Call(engine::CancelCommand{{queue, id}, {}}).status;
  }
};

TEST_F(CancelCases, S53_AWorkerIsToldOfACancelBeforeItStartsABufferedJob) {
  broker_.EnqueueMany("q", Jobs(5, BrokerHarness::Job()));
  const auto leases = broker_.Lease("q", 5);
  EXPECT_TRUE(Cancel("q", leases[3].job.job_id).ok());
  engine::HeartbeatCommand heartbeat{"w1", {}};
  for (const auto& lease : leases) {
    heartbeat.items.push_back({BrokerHarness::Ref(lease), lease.token});
  }
  const auto statuses = Ask<engine::HeartbeatReply>(heartbeat).statuses;
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(statuses[i], i == 3 ? LeaseStatus::kCancelRequested : LeaseStatus::kRenewed);
  }
  EXPECT_EQ(broker_.Release(leases[3]).state, JobState::kCancelled);
}

TEST_F(CancelCases, S54_CancelOfAnUnknownIdLeavesNoTrace) {
  auto job = BrokerHarness::Job();
  job.record.set_job_id("order-7");
  EXPECT_EQ(ReasonOf(Cancel("q", "order-7")), Reason::kJobNotFound);
  broker_.Advance(1'000);
  broker_.Enqueue("q", job);
  const auto lease = broker_.Lease("q").at(0);
  EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kRenewed);
  EXPECT_TRUE(broker_.Complete(lease).status.ok());
  // The same after the first of that name has finished and gone.
  broker_.Call(engine::DeleteJobCommand{{"q", "order-7"}, false, {}});
  EXPECT_EQ(ReasonOf(Cancel("q", "order-7")), Reason::kJobNotFound);
  broker_.Enqueue("q", job);
  EXPECT_TRUE(broker_.Complete(broker_.Lease("q").at(0)).status.ok());
}

TEST_F(CancelCases, S55_HandlerThatIgnoresTheCancel) {
  // The concurrency limit of the case comes with limits.
  const std::string id = broker_.Enqueue("q").jobs.at(0).job_id;
  const auto lease = broker_.Lease("q", 1, 15'000).at(0);
  EXPECT_TRUE(Cancel("q", id).ok());
  EXPECT_EQ(StateOf(broker_.Get("q", id)), JobState::kLeased);
  for (int second = 0; second < 10; ++second) {
    EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kCancelRequested);
    broker_.Advance(1'000);
  }
  EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kLost);
  EXPECT_EQ(ReasonOf(broker_.Complete(lease).status), Reason::kLeaseLost);
  const auto job = broker_.Get("q", id);
  EXPECT_EQ(StateOf(job), JobState::kCancelled);
  EXPECT_EQ(EndOf(job), EndReason::kCancelledByClient);
  EXPECT_TRUE(broker_.Lease("q").empty());
}

TEST_F(CancelCases, TheGraceGoesOnAcrossARestart) {
  const std::string id = broker_.Enqueue("q").jobs.at(0).job_id;
  const auto lease = broker_.Lease("q", 1, 60'000).at(0);
  EXPECT_TRUE(Cancel("q", id).ok());
  broker_.Crash(5'000);
  EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kCancelRequested);
  broker_.Advance(5'000);
  EXPECT_EQ(StateOf(broker_.Get("q", id)), JobState::kCancelled);
}

TEST_F(CancelCases, AWorkerThatIsDoneBeforeItHearsOfItIsBelieved) {
  const std::string id = broker_.Enqueue("q").jobs.at(0).job_id;
  const auto lease = broker_.Lease("q").at(0);
  EXPECT_TRUE(Cancel("q", id).ok());
  EXPECT_EQ(broker_.Complete(lease).state, JobState::kCompleted);
}

TEST_F(CancelCases, ALapseEndsACancelledJob) {
  const std::string id = broker_.Enqueue("q").jobs.at(0).job_id;
  broker_.Lease("q", 1, 5'000);
  EXPECT_TRUE(Cancel("q", id).ok());
  broker_.Advance(5'000);
  EXPECT_EQ(StateOf(broker_.Get("q", id)), JobState::kCancelled);
}

TEST_F(CancelCases, AFailureOfACancelledJobIsNotRetried) {
  broker_.Enqueue("q");
  const auto lease = broker_.Lease("q").at(0);
  EXPECT_TRUE(Cancel("q", lease.job.job_id).ok());
  const auto failed = broker_.Fail(lease);
  EXPECT_EQ(failed.state, JobState::kCancelled);
  EXPECT_EQ(failed.retry_delay_ms, 0);
}

TEST_F(CancelCases, S56_CancelOfFinishedJobs) {
  const auto jobs = broker_.EnqueueMany("q", Jobs(1'000, BrokerHarness::Job())).jobs;
  for (const auto& lease : broker_.Lease("q", 1'000)) broker_.Complete(lease);
  for (size_t i = 0; i < jobs.size(); ++i) {
    for (size_t again = 0; again <= i % 2; ++again) {
      EXPECT_EQ(ReasonOf(Cancel("q", jobs[i].job_id)), Reason::kWrongState);
    }
    if (i % 10 == 0) {
      broker_.Enqueue("q");
      const auto lease = broker_.Lease("q");
      ASSERT_EQ(lease.size(), 1u);
      EXPECT_TRUE(broker_.Complete(lease[0]).status.ok());
    }
  }
  EXPECT_EQ(broker_.Stats("q").counters.completed(), 1'100);
  EXPECT_EQ(broker_.Stats("q").counters.cancelled(), 0);
}

}  // namespace
}  // namespace stint::testing
