// Ended jobs are kept by age, number and bytes, and forgotten queues leave nothing behind.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

using storage::Family;

class EngineRetentionTest : public CaseTest {
 protected:
  // `count` jobs that come, run and are done.
  void Finish(const std::string& queue, int count, const std::string& result = "") {
    while (count > 0) {
      const int batch = std::min(count, 500);
      broker_.EnqueueMany(queue, Jobs(batch, BrokerHarness::Job()));
      engine::SettleCommand settle;
      for (const GrantedLease& lease : broker_.Lease(queue, batch)) {
        settle.items.push_back(BrokerHarness::Completion(lease, result));
      }
      ASSERT_EQ(settle.items.size(), static_cast<size_t>(batch));
      broker_.Call(settle);
      count -= batch;
    }
  }
  record::QueueSettings settings_;
};

TEST_F(EngineRetentionTest, ByAge) {
  settings_.mutable_retention()->set_finished_age_ms(10'000);
  settings_.mutable_retention()->set_dead_age_ms(20'000);
  Configure("q", settings_);
  Finish("q", 1'500);
  broker_.Enqueue("q");
  broker_.Fail(broker_.Lease("q").at(0), {}, true);
  broker_.Advance(9'999, 3'333);
  EXPECT_EQ(broker_.Stats("q").counters.completed(), 1'500);
  broker_.Advance(1);
  EXPECT_EQ(broker_.Stats("q").counters.completed(), 0);
  EXPECT_EQ(broker_.Stats("q").counters.dead(), 1);
  broker_.Advance(10'000);
  EXPECT_EQ(broker_.Stats("q").counters.dead(), 0);
  EXPECT_EQ(RowsIn(Family::kJob), 0u);
}

TEST_F(EngineRetentionTest, ByNumberTheOldestGo) {
  settings_.mutable_retention()->set_finished_count(100);
  Configure("q", settings_);
  const std::string first = broker_.Enqueue("q").jobs.at(0).job_id;
  broker_.Complete(broker_.Lease("q").at(0));
  broker_.Advance(1);
  Finish("q", 99);
  EXPECT_EQ(StateOf(broker_.Get("q", first)), JobState::kCompleted);
  broker_.Advance(1);
  Finish("q", 1);
  EXPECT_EQ(Refusal(engine::WaitJobCommand{{"q", first}, 0}), Reason::kJobNotFound);
  Finish("q", 5'000);
  EXPECT_EQ(broker_.Stats("q").counters.completed(), 100);
  EXPECT_EQ(RowsIn(Family::kEnded), 100u);
}

TEST_F(EngineRetentionTest, ByBytesOfJobsAndResults) {
  settings_.mutable_retention()->set_finished_bytes(100'000);
  Configure("q", settings_);
  Finish("q", 100, std::string(10'000, 'r'));
  const record::QueueCounters counters = broker_.Stats("q").counters;
  EXPECT_LE(counters.finished_bytes(), 100'000);
  EXPECT_EQ(counters.completed(), 9);
  EXPECT_EQ(RowsIn(Family::kResult), 9u);
}

TEST_F(EngineRetentionTest, NoneIsKeptWhenRetentionIsZero) {
  settings_.mutable_retention()->set_finished_age_ms(0);
  Configure("q", settings_);
  const std::string id = broker_.Enqueue("q").jobs.at(0).job_id;
  const auto waiting = broker_.Start(engine::WaitJobCommand{{"q", id}, 20'000});
  const auto lease = broker_.Lease("q").at(0);
  EXPECT_EQ(broker_.Complete(lease, "result").state, JobState::kCompleted);
  // Whoever waits gets the result all the same, and the settle can be repeated.
  ASSERT_TRUE(waiting->outcome.has_value());
  EXPECT_EQ(std::get<engine::JobReply>(waiting->outcome->body).job.result, "result");
  EXPECT_EQ(broker_.Complete(lease, "result").state, JobState::kCompleted);
  EXPECT_EQ(RowsIn(Family::kJob), 0u);
  EXPECT_EQ(RowsIn(Family::kResult), 0u);
}

TEST_F(EngineRetentionTest, ASettleRepeatsAfterItsJobIsGoneUnderAnyKindOfId) {
  settings_.mutable_retention()->set_finished_age_ms(0);
  Configure("q", settings_);
  auto named = BrokerHarness::Job();
  named.record.set_job_id("order-7");
  broker_.Enqueue("q", named);
  const auto lease = broker_.Lease("q").at(0);
  ASSERT_TRUE(broker_.Complete(lease).status.ok());
  EXPECT_TRUE(broker_.Complete(lease).status.ok());
  broker_.Crash();
  EXPECT_TRUE(broker_.Complete(lease).status.ok());
  EXPECT_EQ(ReasonOf(broker_.Fail(lease).status), Reason::kJobNotFound);
  // The next job of that name is another one; the old settle still repeats, and does nothing.
  broker_.Enqueue("q", named);
  EXPECT_TRUE(broker_.Complete(lease).status.ok());
  EXPECT_EQ(ReasonOf(broker_.Fail(lease).status), Reason::kLeaseLost);
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 1);
}

TEST_F(EngineRetentionTest, OneCallMaySettleAJobTwiceThoughTheFirstRemovesIt) {
  settings_.mutable_retention()->set_finished_age_ms(0);
  Configure("q", settings_);
  broker_.Enqueue("q");
  const auto lease = broker_.Lease("q").at(0);
  engine::SettleItem item;
  item.job = BrokerHarness::Ref(lease);
  item.token = lease.token;
  engine::SettleItem failure = item;
  failure.kind = engine::SettleKind::kFail;
  const auto results =
      Ask<engine::SettleReply>(engine::SettleCommand{{item, item, failure}}).results;
  EXPECT_TRUE(results.at(0).status.ok());
  EXPECT_TRUE(results.at(1).status.ok()) << results.at(1).status;
  EXPECT_EQ(ReasonOf(results.at(2).status), Reason::kJobNotFound);
}

TEST_F(EngineRetentionTest, ASmallerLimitIsAppliedToWhatIsThere) {
  Finish("q", 300);
  settings_.mutable_retention()->set_finished_count(50);
  Ask<engine::QueueReply>(engine::UpdateQueueCommand{"q", {"retention"}, settings_, {}, 0, {}});
  EXPECT_EQ(broker_.Stats("q").counters.completed(), 50);
}

TEST_F(EngineRetentionTest, AfterARestartItGoesOnForManyQueues) {
  settings_.mutable_retention()->set_finished_age_ms(10'000);
  for (int q = 0; q < 50; ++q) {
    Configure(absl::StrCat("q", q), settings_);
    Finish(absl::StrCat("q", q), 200);
  }
  broker_.Crash(10'000);
  broker_.Settle();
  EXPECT_EQ(RowsIn(Family::kJob), 0u);
}

TEST_F(EngineRetentionTest, AnEmptyQueueThatWasNeverConfiguredIsForgottenAfterADay) {
  broker_.Enqueue("used");
  broker_.Call(
      engine::DeleteJobCommand{{"used", broker_.Enqueue("used").jobs.at(0).job_id}, false, {}});
  Configure("configured", settings_);
  Pause("paused");
  for (int i = 0; i < 100; ++i) {  // each time its day begins anew
    const std::string id = broker_.Enqueue("brief").jobs.at(0).job_id;
    broker_.Call(engine::DeleteJobCommand{{"brief", id}, false, {}});
  }
  broker_.Advance(engine::kDayMs - 1, engine::kHourMs);
  EXPECT_TRUE(broker_.Call(engine::QueueStatsCommand{"brief"}).status.ok());
  broker_.Advance(1);
  EXPECT_EQ(Refusal(engine::QueueStatsCommand{"brief"}), Reason::kQueueNotFound);
  for (const char* queue : {"used", "configured", "paused"}) {
    EXPECT_TRUE(broker_.Call(engine::QueueStatsCommand{queue}).status.ok()) << queue;
  }
}

}  // namespace
}  // namespace stint::testing
