// Purge and deletion of queues: gone at once for everybody, bodies in steps, whatever happens
// in between.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

using storage::Family;

class EnginePurgeTest : public CaseTest {
 protected:
  int64_t Purge(const std::string& queue, bool force = false) {
    return Ask<engine::PurgeReply>(engine::PurgeQueueCommand{queue, force, {}}).purged;
  }
};

TEST_F(EnginePurgeTest, StepsGoOnBehindRowsThatRetentionHasJustRemoved) {
  record::QueueSettings settings;
  settings.mutable_retention()->set_finished_age_ms(10'000);
  Configure("q", settings);
  for (int i = 0; i < 3; ++i) broker_.EnqueueMany("q", Jobs(100, BrokerHarness::Job()));
  for (const GrantedLease& lease : broker_.Lease("q", 300)) broker_.Complete(lease);
  auto delayed = BrokerHarness::Job();
  delayed.delay_ms = kMinuteMs;
  broker_.EnqueueMany("q", Jobs(10, delayed));
  broker_.set_late_syncs(true);
  broker_.Freeze(10'000);
  // The group of the purge removes the first 256 jobs of the history as well.
  EXPECT_EQ(Purge("q"), 10);
  broker_.Settle();
  EXPECT_EQ(RowsIn(Family::kJob), 0u);
  EXPECT_EQ(RowsIn(Family::kDue), 0u);
}

// Purge leaves ended jobs alone, so a refusal must not send anybody there.
TEST_F(EnginePurgeTest, AQueueThatIsNotDeletedSaysWhatItHolds) {
  broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job()));
  for (const GrantedLease& lease : broker_.Lease("q", 1)) broker_.Complete(lease);
  EXPECT_EQ(Purge("q"), 1);
  const auto refused = broker_.Call(engine::DeleteQueueCommand{"q", false, {}});
  EXPECT_EQ(refused.status.message(),
            "queue q holds 1 job (0 waiting, 0 leased, 1 ended); with force it is deleted with all "
            "of them");
}

TEST_F(EnginePurgeTest, StepsGoOnAfterACrash) {
  auto job = BrokerHarness::Job(std::string(5'000, 'x'));
  for (int i = 0; i < 6; ++i) broker_.EnqueueMany("q", Jobs(100, job));
  const auto purge = broker_.Submit(engine::PurgeQueueCommand{"q", false, {}});
  broker_.loop().Step();
  broker_.executor().RunOne();  // the purge is durable, its steps have not begun
  ASSERT_TRUE(purge->outcome.has_value());
  EXPECT_EQ(RowsIn(Family::kJob), 600u);
  broker_.Crash();
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 0);
  EXPECT_TRUE(broker_.Lease("q").empty());
  EXPECT_EQ(RowsIn(Family::kJob), 0u);
  EXPECT_EQ(RowsIn(Family::kPayload), 0u);
  EXPECT_EQ(RowsIn(Family::kReady), 0u);
}

TEST_F(EnginePurgeTest, LeasedJobsAreSparedUnlessForced) {
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  const auto spared = broker_.Lease("q").at(0);
  EXPECT_EQ(Purge("q"), 2);
  EXPECT_EQ(broker_.Heartbeat(spared), LeaseStatus::kRenewed);
  EXPECT_TRUE(broker_.Release(spared).status.ok());
  const auto revoked = broker_.Lease("q").at(0);
  EXPECT_EQ(Purge("q", true), 1);
  EXPECT_EQ(broker_.Heartbeat(revoked), LeaseStatus::kLost);
  EXPECT_EQ(ReasonOf(broker_.Complete(revoked).status), Reason::kJobNotFound);
  broker_.Settle();
  EXPECT_EQ(RowsIn(Family::kJob), 0u);
  EXPECT_EQ(RowsIn(Family::kLease), 0u);
}

TEST_F(EnginePurgeTest, AnIdIsFreeAtOnceAndTheNewJobStays) {
  auto named = BrokerHarness::Job("old");
  named.record.set_job_id("order-7");
  for (int i = 0; i < 6; ++i) broker_.EnqueueMany("q", Jobs(100, BrokerHarness::Job()));
  broker_.Enqueue("q", named);
  named.record.set_payload("new");
  const auto purge = broker_.Submit(engine::PurgeQueueCommand{"q", false, {}});
  engine::EnqueueCommand again{"q", {named}, {}};
  const auto enqueued = broker_.Submit(again);
  broker_.Settle();
  EXPECT_TRUE(enqueued->outcome->status.ok()) << enqueued->outcome->status;
  const auto leases = broker_.Lease("q", 10);
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].job.job_id, "order-7");
  EXPECT_EQ(leases[0].job.record.payload(), "new");
  EXPECT_EQ(RowsIn(Family::kJob), 1u);
}

TEST_F(EnginePurgeTest, WhoWaitsForAPurgedJobIsTold) {
  const std::string id = broker_.Enqueue("q").jobs.at(0).job_id;
  const auto waiting = broker_.Start(engine::WaitJobCommand{{"q", id}, 20'000});
  ASSERT_FALSE(waiting->outcome.has_value());
  Purge("q");
  ASSERT_TRUE(waiting->outcome.has_value());
  EXPECT_EQ(ReasonOf(waiting->outcome->status), Reason::kJobNotFound);
}

TEST_F(EnginePurgeTest, ADeletedQueueIsGoneAndItsNameIsFree) {
  auto delayed = BrokerHarness::Job();
  delayed.delay_ms = 5'000;
  delayed.expire_after_ms = 7'000;
  broker_.EnqueueMany("q", Jobs(5, delayed));
  broker_.EnqueueMany("q", Jobs(5, BrokerHarness::Job()));
  const auto lease = broker_.Lease("q").at(0);
  const auto poll = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  EXPECT_EQ(LeasesOf(poll).size(), 1u);
  EXPECT_EQ(Refusal(engine::DeleteQueueCommand{"q", false, {}}), Reason::kWrongState);
  EXPECT_TRUE(broker_.Call(engine::DeleteQueueCommand{"q", true, {}}).status.ok());
  EXPECT_EQ(ReasonOf(broker_.Complete(lease).status), Reason::kJobNotFound);
  EXPECT_EQ(Refusal(engine::QueueStatsCommand{"q"}), Reason::kQueueNotFound);

  broker_.Enqueue("q", BrokerHarness::Job("of the new queue"));
  broker_.Advance(8'000);
  const auto leases = broker_.Lease("q", 10);
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].job.record.payload(), "of the new queue");
  // Rows of the old one in the time indexes went when they came up.
  EXPECT_EQ(RowsIn(Family::kDue), 0u);
  EXPECT_EQ(RowsIn(Family::kExpiry), 0u);
}

}  // namespace
}  // namespace stint::testing
