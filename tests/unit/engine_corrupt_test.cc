// One record that cannot be read is said to whoever asks for it, and stops nobody else.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "storage/job_id.h"
#include "storage/keys.h"
#include "storage/records.h"
#include "storage/tables.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

using storage::Family;

class EngineCorruptTest : public ::testing::Test {
 protected:
  // Changes a row behind the broker's back; "" removes it. The broker has to start anew to see it.
  void Spoil(const std::string& key, const std::string& value) {
    storage::Batch batch;
    if (value.empty()) {
      batch.Delete(key);
    } else {
      batch.Put(key, value);
    }
    const auto ticket = broker_.store().Commit(batch, broker_.store().epoch());
    ASSERT_TRUE(ticket.ok());
    ASSERT_TRUE(broker_.store().Sync(*ticket).ok());
  }
  void SpoilJob(Family family, const std::string& id, const std::string& value = "\xff\xff") {
    Spoil(storage::JobRowKey(family, {1, *storage::SequenceOfJobId(id)}), value);
  }
  std::vector<std::string> Ids(const engine::EnqueueReply& reply) {
    std::vector<std::string> ids;
    for (const auto& job : reply.jobs) ids.push_back(job.job_id);
    return ids;
  }
  Reason Refusal(engine::Command command) {
    return ReasonOf(broker_.Call(std::move(command)).status);
  }

  BrokerHarness broker_;
};

TEST_F(EngineCorruptTest, AReadyJobThatCannotBeReadIsSaidOnceAndTheQueueGoesOn) {
  const auto ids = Ids(broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job())));
  SpoilJob(Family::kJob, ids[0]);
  broker_.Crash();
  const engine::Outcome first = broker_.Call(BrokerHarness::LeaseCall("q", 0));
  EXPECT_EQ(ReasonOf(first.status), Reason::kCorruptRecord);
  EXPECT_NE(first.status.message().find(ids[0]), absl::string_view::npos);
  EXPECT_EQ(broker_.Lease("q").at(0).job.job_id, ids[1]);
  EXPECT_EQ(broker_.Lease("q").at(0).job.job_id, ids[2]);
  // A wait for more is a wait.
  const auto poll = broker_.Start(BrokerHarness::LeaseCall("q", 5'000));
  EXPECT_FALSE(poll->outcome.has_value());
  broker_.Advance(5'000);
  EXPECT_TRUE(poll->outcome->status.ok());
  EXPECT_TRUE(broker_.Call(engine::DeleteQueueCommand{"q", true, {}}).status.ok());
}

TEST_F(EngineCorruptTest, APayloadThatIsMissingIsNotTakenForAnEmptyOne) {
  const auto ids =
      Ids(broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job(std::string(5'000, 'x')))));
  SpoilJob(Family::kPayload, ids[0], "");
  broker_.Crash();
  EXPECT_EQ(Refusal(BrokerHarness::LeaseCall("q", 0)), Reason::kCorruptRecord);
  EXPECT_EQ(broker_.Lease("q").at(0).job.job_id, ids[1]);
}

TEST_F(EngineCorruptTest, ARecordThatIsMissingDoesNotKeepTheBrokerBusy) {
  const auto ids = Ids(broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job())));
  SpoilJob(Family::kJob, ids[0], "");
  broker_.Crash();
  EXPECT_EQ(Refusal(BrokerHarness::LeaseCall("q", 0)), Reason::kCorruptRecord);
  EXPECT_EQ(broker_.Lease("q").at(0).job.job_id, ids[1]);
}

TEST_F(EngineCorruptTest, EveryCallForAJobThatCannotBeReadSaysSo) {
  const std::string id = Ids(broker_.Enqueue("q")).at(0);
  const auto lease = broker_.Lease("q", 1, 60'000).at(0);
  SpoilJob(Family::kJob, id);
  broker_.Crash();
  EXPECT_EQ(ReasonOf(broker_.Complete(lease).status), Reason::kCorruptRecord);
  EXPECT_EQ(Refusal(engine::WaitJobCommand{{"q", id}, 0}), Reason::kCorruptRecord);
  EXPECT_EQ(Refusal(engine::CancelCommand{{"q", id}, {}}), Reason::kCorruptRecord);
  EXPECT_EQ(Refusal(engine::DeleteJobCommand{{"q", id}, true, {}}), Reason::kCorruptRecord);
  engine::BatchCommand batch;
  batch.queue = "q";
  batch.operation = engine::BatchCommand::Operation::kDelete;
  batch.queue_id = 1;
  batch.bound = UINT64_MAX;
  batch.sequences = {*storage::SequenceOfJobId(id)};
  const engine::Outcome refused = broker_.Call(batch);
  EXPECT_EQ(ReasonOf(refused.status), Reason::kCorruptRecord);
  EXPECT_NE(refused.status.message().find(id), absl::string_view::npos);
  // Its lease can still be renewed, and one that lapses stays where it is, with a line.
  EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kRenewed);
  broker_.Advance(61'000);
  EXPECT_TRUE(broker_.fatal().ok());
  ASSERT_FALSE(broker_.notices().empty());
  EXPECT_NE(broker_.notices().back().find(id), std::string::npos);
}

TEST_F(EngineCorruptTest, AnEnqueueNamesTheJobOfThatIdThatCannotBeRead) {
  auto own = BrokerHarness::Job();
  own.record.set_job_id("mine");
  broker_.Enqueue("q", own);
  Spoil(storage::JobRowKey(Family::kJob, {1, 1}), "\xff\xff");
  broker_.Crash();
  engine::EnqueueCommand again;
  again.queue = "q";
  again.jobs = {own};
  const engine::Outcome refused = broker_.Call(again);
  EXPECT_EQ(ReasonOf(refused.status), Reason::kCorruptRecord);
  EXPECT_NE(refused.status.message().find("queues/q/jobs/mine"), absl::string_view::npos)
      << refused.status;
}

TEST_F(EngineCorruptTest, ADueJobThatCannotBeReadIsSaidAndTheOthersComeOnTime) {
  auto delayed = BrokerHarness::Job();
  delayed.delay_ms = 5'000;
  const auto ids = Ids(broker_.EnqueueMany("q", Jobs(3, delayed)));
  SpoilJob(Family::kJob, ids[1]);
  broker_.Crash();
  broker_.Advance(5'000);
  EXPECT_EQ(broker_.Lease("q", 10).size(), 2u);
  ASSERT_EQ(broker_.notices().size(), 1u);
  EXPECT_NE(broker_.notices()[0].find(ids[1]), std::string::npos);
}

TEST_F(EngineCorruptTest, APurgeGetsRidOfIt) {
  const auto ids = Ids(broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job())));
  SpoilJob(Family::kJob, ids[1]);
  broker_.Crash();
  EXPECT_TRUE(broker_.Call(engine::PurgeQueueCommand{"q", false, {}}).status.ok());
  broker_.Enqueue("q", BrokerHarness::Job("new"));
  EXPECT_EQ(broker_.Lease("q").at(0).job.record.payload(), "new");
  const absl::Status checked = broker_.Check();
  EXPECT_TRUE(checked.ok()) << checked;
}

TEST_F(EngineCorruptTest, AStartIsRefusedForRowsItCannotDoWithout) {
  broker_.Enqueue("q");
  broker_.Lease("q");
  const std::string lease = storage::JobRowKey(Family::kLease, {1, 1});
  // The same name as queue 1 has.
  record::QueueRecord second;
  second.set_name("q");
  record::JobState endless;
  endless.set_state(storage::kStateLeased);
  endless.set_lease_duration_ms(INT64_MAX);
  const std::vector<storage::Row> rows = {{storage::MetaKey(storage::kGroupRow), "\xff\xff"},
                                          {storage::QueueKey(1), "\xff\xff"},
                                          {storage::CountersKey(1), "\xff\xff"},
                                          {lease, "\xff\xff"},
                                          {storage::QueueKey(2), second.SerializeAsString()},
                                          {lease, endless.SerializeAsString()}};
  for (const auto& [key, value] : rows) {
    std::unique_ptr<storage::MemoryStore> store = broker_.store().CrashCopy(0);
    storage::Batch batch;
    batch.Put(key, value);
    ASSERT_TRUE(store->Sync(*store->Commit(batch, store->epoch())).ok());
    ManualClock clock;
    ManualExecutor executor;
    runtime::Loop loop(store.get(), &clock, &executor, {}, {});
    EXPECT_EQ(loop.Start().code(), absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace stint::testing
