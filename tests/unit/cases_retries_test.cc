// Field cases S30 to S37: budgets, back-off, poison jobs. S32 and S34 are in policy_test.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

class RetryCases : public CaseTest {
 protected:
  // Fails with exactly this wait.
  static engine::NewJob Retrying(int max_attempts, int64_t wait_ms) {
    auto job = BrokerHarness::Job();
    job.record.set_max_attempts(max_attempts);
    auto* retry = job.record.mutable_retry();
    retry->set_initial_delay_ms(wait_ms);
    retry->set_multiplier(1.0);
    retry->set_jitter(0.0);
    return job;
  }
};

TEST_F(RetryCases, S30_AttemptsCountTheSameOnEveryPathOfDelivery) {
  const std::string id = broker_.Enqueue("q", Retrying(3, 0)).jobs.at(0).job_id;
  // An ordinary poll, a poll for several jobs, a poll that waited.
  const auto first = broker_.Lease("q").at(0);
  EXPECT_EQ(AttemptOf(first), 1);
  EXPECT_EQ(broker_.Fail(first).next_attempt, 2);
  const auto second = broker_.Lease("q", 10).at(0);
  EXPECT_EQ(AttemptOf(second), 2);
  const auto waiting = broker_.Start(BrokerHarness::LeaseCall("q", 20'000));
  EXPECT_EQ(broker_.Fail(second).next_attempt, 3);
  const auto third = LeasesOf(waiting).at(0);
  EXPECT_EQ(AttemptOf(third), 3);
  const auto last = broker_.Fail(third);
  EXPECT_EQ(last.state, JobState::kDead);
  EXPECT_EQ(last.end_reason, EndReason::kAttemptsExhausted);
  EXPECT_TRUE(broker_.Lease("q").empty());
  const auto job = broker_.Get("q", id);
  ASSERT_EQ(job.state.attempts_size(), 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(job.state.attempts(i).attempt(), i + 1);
}

TEST_F(RetryCases, S31_FailuresWithBackoffAroundRestarts) {
  // 200 jobs that fail once; five crashes while that goes on, each losing the group under way.
  broker_.EnqueueMany("q", Jobs(200, Retrying(20, 2'000)));
  int crashes = 0;
  for (int second = 0; second < 60; ++second) {
    for (const auto& lease : broker_.Lease("q", 50)) {
      if (AttemptOf(lease) == 1) {
        broker_.Fail(lease);
      } else {
        EXPECT_TRUE(broker_.Complete(lease).status.ok());
      }
    }
    broker_.Advance(1'000);
    if (crashes < 5) {
      const auto leases = broker_.Lease("q", 10);
      for (const auto& lease : leases) {
        broker_.Submit(engine::SettleCommand{{{BrokerHarness::Ref(lease),
                                               lease.token,
                                               engine::SettleKind::kFail,
                                               "",
                                               "lost",
                                               {},
                                               false,
                                               {}}}});
      }
      broker_.loop().Step();
      broker_.Crash(200, crashes % 2 == 0 ? 0 : 1);
      ++crashes;
    }
  }
  const auto counters = broker_.Stats("q").counters;
  EXPECT_EQ(counters.completed(), 200);
  EXPECT_EQ(counters.delayed() + counters.ready() + counters.leased(), 0);
}

TEST_F(RetryCases, S33_OneExpiryIsCountedOnce) {
  const std::string id = broker_.Enqueue("q").jobs.at(0).job_id;
  broker_.Lease("q", 1, 5'000);
  // Passes that are longer apart than they should be, and many in a row at the same instant.
  broker_.Advance(5'000);
  for (int i = 0; i < 10; ++i) {
    broker_.Settle();
    broker_.Advance(900, 900);
  }
  const auto job = broker_.Get("q", id);
  EXPECT_EQ(job.state.total_losses(), 1);
  EXPECT_EQ(job.state.consecutive_losses(), 1);
  EXPECT_EQ(job.state.attempts_size(), 1);
  EXPECT_EQ(StateOf(job), JobState::kReady);
  EXPECT_EQ(AttemptOf(broker_.Lease("q").at(0)), 2);
}

TEST_F(RetryCases, S33_OneExpiryIsCountedOnceWhateverTheDiskDoes) {
  broker_.set_late_syncs(true);
  broker_.EnqueueMany("q", Jobs(1'000, BrokerHarness::Job()));
  EXPECT_EQ(broker_.Lease("q", 1'000, 5'000).size(), 1'000u);
  broker_.Advance(8'000, 900);
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 1'000);
  for (const auto& lease : broker_.Lease("q", 1'000)) {
    EXPECT_EQ(lease.job.state.total_losses(), 1);
  }
}

TEST_F(RetryCases, S34_TheWaitsOfAWholeBrokerAreThoseOfTheFormula) {
  auto job = BrokerHarness::Job();
  auto* retry = job.record.mutable_retry();
  retry->set_initial_delay_ms(10'000);
  retry->set_jitter(0.0);
  broker_.Enqueue("q", job);
  for (const int64_t wait_ms : {10'000, 20'000, 40'000, 80'000}) {
    EXPECT_EQ(broker_.Fail(broker_.Lease("q").at(0)).retry_delay_ms, wait_ms);
    broker_.Advance(wait_ms - 1, 10'000);
    EXPECT_TRUE(broker_.Lease("q").empty());
    broker_.Advance(1);
    EXPECT_EQ(broker_.Stats("q").counters.ready(), 1);
  }
}

TEST_F(RetryCases, S35_JobThatKillsItsWorker) {
  // The case has one budget of 5 attempts: here that is the one of losses.
  auto poison = BrokerHarness::Job("poison");
  poison.record.set_max_losses(5);
  poison.record.set_loss_backoff_ms(1'000);
  broker_.Enqueue("q", poison);
  broker_.EnqueueMany("q", Jobs(20, BrokerHarness::Job("good")));
  int deaths = 0;
  int done = 0;
  for (int second = 0; second < 300; ++second) {
    for (const auto& lease : broker_.Lease("q", 1, 5'000)) {
      if (lease.job.record.payload() == "poison") {
        ++deaths;
      } else {
        ++done;
        EXPECT_TRUE(broker_.Complete(lease).status.ok());
      }
    }
    broker_.Advance(1'000);
  }
  EXPECT_EQ(deaths, 5);
  EXPECT_EQ(done, 20);
  EXPECT_EQ(broker_.Stats("q").counters.dead(), 1);
}

TEST_F(RetryCases, S35_EveryLossIsRecordedWithItsReason) {
  auto poison = BrokerHarness::Job();
  poison.record.set_max_losses(5);
  poison.record.set_loss_backoff_ms(0);
  const std::string id = broker_.Enqueue("q", poison).jobs.at(0).job_id;
  for (int attempt = 1; attempt <= 5; ++attempt) {
    EXPECT_EQ(AttemptOf(broker_.Lease("q", 1, 5'000).at(0)), attempt);
    broker_.Advance(5'000);
  }
  const auto job = broker_.Get("q", id);
  EXPECT_EQ(StateOf(job), JobState::kDead);
  EXPECT_EQ(EndOf(job), EndReason::kLeasesLost);
  ASSERT_EQ(job.state.attempts_size(), 5);
  for (const auto& attempt : job.state.attempts()) {
    EXPECT_EQ(attempt.outcome(), static_cast<int32_t>(engine::AttemptOutcome::kLeaseLapsed));
  }
}

TEST_F(RetryCases, S37_CrashLimitBesideTheAttemptLimit) {
  auto job = Retrying(10, 0);
  job.record.set_max_losses(3);
  job.record.set_loss_backoff_ms(0);
  const std::string a = broker_.Enqueue("a", job).jobs.at(0).job_id;
  const std::string b = broker_.Enqueue("b", job).jobs.at(0).job_id;
  const auto crash = [this](const std::string& queue) {
    EXPECT_EQ(broker_.Lease(queue, 1, 5'000).size(), 1u);
    broker_.Advance(5'000);
  };
  for (int i = 0; i < 3; ++i) crash("a");
  EXPECT_EQ(EndOf(broker_.Get("a", a)), EndReason::kLeasesLost);

  crash("b");
  broker_.Fail(broker_.Lease("b").at(0));  // the worker survived: the losses in a row are over
  broker_.Fail(broker_.Lease("b").at(0));
  crash("b");
  EXPECT_EQ(broker_.Get("b", b).state.consecutive_losses(), 1);
  const auto last = broker_.Lease("b").at(0);
  EXPECT_EQ(AttemptOf(last), 5);
  EXPECT_TRUE(broker_.Complete(last).status.ok());
}

TEST_F(RetryCases, ARedriveSetsBothBudgetsBackAndTheAttemptGoesOn) {
  auto job = Retrying(2, 0);
  job.record.set_max_losses(1);
  const std::string id = broker_.Enqueue("q", job).jobs.at(0).job_id;
  broker_.Fail(broker_.Lease("q").at(0));
  broker_.Lease("q", 1, 5'000);
  broker_.Advance(5'000);
  EXPECT_EQ(EndOf(broker_.Get("q", id)), EndReason::kLeasesLost);
  broker_.Call(engine::RedriveCommand{{"q", id}, {}});
  const auto third = broker_.Lease("q").at(0);
  EXPECT_EQ(AttemptOf(third), 3);
  EXPECT_EQ(broker_.Fail(third).state, JobState::kReady);
  EXPECT_EQ(broker_.Fail(broker_.Lease("q").at(0)).end_reason, EndReason::kAttemptsExhausted);
}

TEST_F(RetryCases, ReleasesAndUndoneGrantsSpendNothing) {
  auto job = Retrying(1, 0);
  job.record.set_max_losses(1);
  broker_.Enqueue("q", job);
  for (int i = 0; i < 20; ++i) {
    const auto lease = broker_.Lease("q").at(0);
    EXPECT_EQ(AttemptOf(lease), 1);
    EXPECT_EQ(broker_.Release(lease).state, JobState::kReady);
  }
}

TEST_F(RetryCases, AKindNobodyKnowsWaitsLongerEachTimeAndSpendsNothing) {
  broker_.Enqueue("q");
  const int64_t waits[] = {2'000, 4'000, 8'000, 16'000, 32'000, 60'000, 60'000};
  for (const int64_t wait_ms : waits) {
    const auto lease = broker_.Lease("q").at(0);
    EXPECT_EQ(AttemptOf(lease), 1);
    engine::SettleItem item;
    item.job = BrokerHarness::Ref(lease);
    item.token = lease.token;
    item.kind = engine::SettleKind::kRelease;
    item.release_reason = engine::ReleaseReason::kKindUnknown;
    EXPECT_EQ(broker_.Settle(item).state, JobState::kDelayed);
    broker_.Advance(wait_ms - 1, 10'000);
    EXPECT_TRUE(broker_.Lease("q").empty());
    broker_.Advance(1);
  }
}

TEST_F(RetryCases, AFailureMaySayHowLongOrNever) {
  broker_.Enqueue("q");
  EXPECT_EQ(broker_.Fail(broker_.Lease("q").at(0), 12'345).retry_delay_ms, 12'345);
  broker_.Advance(12'345);
  const auto last = broker_.Fail(broker_.Lease("q").at(0), {}, true);
  EXPECT_EQ(last.state, JobState::kDead);
  EXPECT_EQ(last.end_reason, EndReason::kRejectedByWorker);
}

}  // namespace
}  // namespace stint::testing
