// Stores that fail: a full disk is recovered from, all else stops the broker, and nobody is told
// anything that is not so.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

absl::Status Full() { return absl::ResourceExhaustedError("no space left on device"); }
absl::Status Broken() { return absl::InternalError("input/output error"); }

class LoopFaultsTest : public ::testing::Test {
 protected:
  storage::MemoryFaults Faults() {
    storage::MemoryFaults faults;
    faults.before_commit = [this](const storage::Batch&) {
      return std::exchange(next_commit_, absl::OkStatus());
    };
    faults.before_sync = [this](storage::Ticket) {
      return std::exchange(next_sync_, absl::OkStatus());
    };
    faults.kept_at_recover = [this](size_t) { return kept_; };
    return faults;
  }
  static engine::EnqueueCommand EnqueueOne(const std::string& request = "") {
    return {"q", {BrokerHarness::Job()}, {"", request, 1}};
  }
  int64_t Ready() { return broker_.Stats("q").counters.ready(); }
  static Reason ReasonOfCall(const std::shared_ptr<PendingCall>& call) {
    return call->outcome.has_value() ? ReasonOf(call->outcome->status) : Reason::kNone;
  }
  void TearDown() override {
    if (broker_.fatal().ok()) {
      const absl::Status checked = broker_.Check();
      EXPECT_TRUE(checked.ok()) << checked;
    }
  }

  absl::Status next_commit_;
  absl::Status next_sync_;
  size_t kept_ = 0;
  BrokerHarness broker_{{}, Faults()};
};

TEST_F(LoopFaultsTest, AFullDiskAtCommitIsRecoveredFrom) {
  broker_.Enqueue("q");
  next_commit_ = Full();
  const auto lost = broker_.Start(EnqueueOne());
  EXPECT_EQ(ReasonOfCall(lost), Reason::kStoreRecovering);
  EXPECT_GT(engine::DetailsOf(lost->outcome->status)->retry_after_ms, 0);
  EXPECT_EQ(Ready(), 1);
  EXPECT_TRUE(broker_.fatal().ok());
  EXPECT_FALSE(broker_.notices().empty());
  broker_.Enqueue("q");
  EXPECT_EQ(Ready(), 2);
}

TEST_F(LoopFaultsTest, AFullDiskAtSyncTakesTheOpenGroupAlong) {
  broker_.Enqueue("q");
  const auto in_sync = broker_.Submit(EnqueueOne());
  broker_.loop().Step();
  const auto open = broker_.Submit(EnqueueOne());
  const auto read = broker_.Submit(engine::QueueStatsCommand{"q"});
  while (broker_.loop().Step()) {
  }
  next_sync_ = Full();
  broker_.Settle();
  EXPECT_EQ(ReasonOfCall(in_sync), Reason::kStoreRecovering);
  EXPECT_EQ(ReasonOfCall(open), Reason::kStoreRecovering);
  EXPECT_EQ(ReasonOfCall(read), Reason::kStoreRecovering);
  EXPECT_EQ(Ready(), 1);
}

TEST_F(LoopFaultsTest, WhatTheStoreKeptAfterAllIsThereOnceAndTheRepeatIsAnswered) {
  kept_ = 1;
  next_sync_ = Full();
  const auto unknown = broker_.Start(EnqueueOne("r"));
  EXPECT_EQ(ReasonOfCall(unknown), Reason::kStoreRecovering);
  EXPECT_EQ(Ready(), 1);
  const auto repeated = broker_.Start(EnqueueOne("r"));
  EXPECT_TRUE(repeated->outcome->status.ok());
  EXPECT_EQ(Ready(), 1);
}

TEST_F(LoopFaultsTest, WhatTheStoreLostIsDoneByTheRepeat) {
  next_sync_ = Full();
  EXPECT_EQ(ReasonOfCall(broker_.Start(EnqueueOne("r"))), Reason::kStoreRecovering);
  EXPECT_TRUE(broker_.Start(EnqueueOne("r"))->outcome->status.ok());
  EXPECT_EQ(Ready(), 1);
}

TEST_F(LoopFaultsTest, ARecoveryLapsesNobodyAndWaitingCallsGoOn) {
  broker_.Enqueue("q");
  const auto lease = broker_.Lease("q", 1, 1'000).at(0);
  const auto poll = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  next_commit_ = Full();
  broker_.Start(engine::EnqueueCommand{"other", {BrokerHarness::Job()}, {}});
  broker_.Advance(20'000);
  EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kRenewed);
  EXPECT_FALSE(poll->outcome.has_value());
  broker_.Enqueue("q");
  ASSERT_TRUE(poll->outcome.has_value());
  EXPECT_TRUE(poll->outcome->status.ok());
}

TEST_F(LoopFaultsTest, AGrantNobodyWasToldOfLapses) {
  const auto poll = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  kept_ = 1;
  next_sync_ = Full();
  EXPECT_EQ(ReasonOfCall(broker_.Start(EnqueueOne())), Reason::kStoreRecovering);
  EXPECT_EQ(ReasonOfCall(poll), Reason::kStoreRecovering);
  EXPECT_EQ(broker_.Stats("q").counters.leased(), 1);
  broker_.Advance(30'000);
  EXPECT_EQ(Ready(), 1);
}

TEST_F(LoopFaultsTest, AnyOtherFailureOfACommitStopsTheBroker) {
  const auto parked = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  next_commit_ = Broken();
  const auto call = broker_.Start(EnqueueOne());
  EXPECT_EQ(ReasonOfCall(call), Reason::kStoreFailed);
  EXPECT_EQ(ReasonOfCall(parked), Reason::kStoreFailed);
  EXPECT_EQ(broker_.fatal(), Broken());
  EXPECT_TRUE(broker_.loop().failed());
  EXPECT_EQ(ReasonOfCall(broker_.Submit(EnqueueOne())), Reason::kStoreFailed);
  EXPECT_FALSE(broker_.loop().Step());
}

TEST_F(LoopFaultsTest, AFailedSyncAnswersAllThatWaitsWithStoreFailed) {
  const auto parked = broker_.Start(engine::LeaseCommand(BrokerHarness::LeaseCall("p", 60'000)));
  const auto in_sync = broker_.Submit(EnqueueOne());
  broker_.loop().Step();
  const auto open = broker_.Submit(EnqueueOne());
  while (broker_.loop().Step()) {
  }
  const auto in_inbox = broker_.Submit(EnqueueOne());
  next_sync_ = Broken();
  broker_.Settle();
  for (const auto& call : {parked, in_sync, open, in_inbox}) {
    EXPECT_EQ(ReasonOfCall(call), Reason::kStoreFailed);
  }
  EXPECT_EQ(broker_.fatal(), Broken());
}

TEST_F(LoopFaultsTest, AfterAFailureARestartGoesOnFromWhatWasDurable) {
  broker_.Enqueue("q");
  const auto lease = broker_.Lease("q").at(0);
  next_sync_ = Broken();
  EXPECT_EQ(ReasonOf(broker_.Complete(lease).status), Reason::kStoreFailed);
  broker_.Crash();
  EXPECT_TRUE(broker_.Complete(lease).status.ok());
}

// Reads that fail, which MemoryStore cannot do by itself.
class UnreadableStore final : public storage::MemoryStore {
 public:
  absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
      const std::vector<std::string>& keys) const override {
    if (!unreadable) return MemoryStore::MultiGet(keys);
    return absl::DataLossError("block checksum mismatch");
  }
  bool unreadable = false;
};

TEST(LoopReadFaultsTest, AStoreThatCannotBeReadStopsTheBrokerAndEverybodyIsAnswered) {
  UnreadableStore store;
  ManualClock clock;
  ManualExecutor executor;
  absl::Status fatal;
  runtime::LoopHooks hooks;
  hooks.on_fatal = [&fatal](const absl::Status& why) { fatal = why; };
  runtime::Loop loop(&store, &clock, &executor, {}, hooks);
  ASSERT_TRUE(loop.Start().ok());
  std::vector<engine::Outcome> answers;
  const auto submit = [&](engine::Command command) {
    const absl::Status taken = loop.Submit(
        {std::move(command), [&answers](engine::Outcome o) { answers.push_back(std::move(o)); },
         nullptr, 0});
    EXPECT_TRUE(taken.ok()) << taken;
  };
  const auto run = [&] {
    while (loop.Step() || executor.RunOne()) {
    }
  };
  submit(engine::EnqueueCommand{"q", {BrokerHarness::Job()}, {}});
  run();
  ASSERT_EQ(answers.size(), 1u);
  store.unreadable = true;
  submit(engine::WaitJobCommand{{"q", "order-7"}, 0});
  submit(engine::EnqueueCommand{"q", {BrokerHarness::Job()}, {}});
  run();
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(ReasonOf(answers[1].status), Reason::kStoreFailed);
  EXPECT_EQ(ReasonOf(answers[2].status), Reason::kStoreFailed);
  EXPECT_EQ(fatal.code(), absl::StatusCode::kDataLoss);
}

// --- Low space --------------------------------------------------------------------------------

class LowSpaceTest : public CaseTest {
 protected:
  void SetLow(bool low) {
    broker_.store().set_space({low ? 1'000u : 1'000'000'000u, low});
    broker_.Advance(1'000);
  }
};

TEST_F(LowSpaceTest, RefusesWhatAddsJobsAndNothingElse) {
  broker_.EnqueueMany("q", Jobs(6, BrokerHarness::Job()));
  const auto leases = broker_.Lease("q", 4, 60'000);
  broker_.Fail(leases[0], {}, true);
  SetLow(true);
  const engine::EnqueueCommand enqueue{"q", {BrokerHarness::Job()}, {}};
  EXPECT_EQ(Refusal(enqueue), Reason::kStoreLowSpace);
  const engine::Outcome refused =
      broker_.Call(engine::RedriveCommand{BrokerHarness::Ref(leases[0]), {}});
  EXPECT_EQ(ReasonOf(refused.status), Reason::kStoreLowSpace);
  EXPECT_GT(engine::DetailsOf(refused.status)->retry_after_ms, 0);

  EXPECT_EQ(broker_.Heartbeat(leases[1]), LeaseStatus::kRenewed);
  EXPECT_TRUE(broker_.Complete(leases[1]).status.ok());
  EXPECT_TRUE(broker_.Release(leases[2]).status.ok());
  EXPECT_TRUE(broker_.Fail(leases[3]).status.ok());
  const auto more = broker_.Lease("q", 1);
  ASSERT_EQ(more.size(), 1u);
  EXPECT_TRUE(broker_.Call(engine::CancelCommand{BrokerHarness::Ref(more[0]), {}}).status.ok());
  EXPECT_TRUE(
      broker_.Call(engine::DeleteJobCommand{BrokerHarness::Ref(leases[1]), false, {}}).status.ok());
  EXPECT_TRUE(broker_.Call(engine::QueueStatsCommand{"q"}).status.ok());
  EXPECT_TRUE(broker_.Call(engine::PauseQueueCommand{"q", true, {}}).status.ok());
  EXPECT_TRUE(broker_.Call(engine::PurgeQueueCommand{"q", true, {}}).status.ok());
  EXPECT_TRUE(Ask<engine::ServerInfoReply>(engine::ServerInfoCommand{}).low_space);
  EXPECT_TRUE(broker_.Call(engine::DeleteQueueCommand{"q", true, {}}).status.ok());

  SetLow(false);
  EXPECT_TRUE(broker_.Call(enqueue).status.ok());
}

TEST_F(LowSpaceTest, ARepeatOfACallThatWasMadeBeforeIsAnswered) {
  const engine::EnqueueCommand enqueue{"q", {BrokerHarness::Job()}, {"", "r", 1}};
  const auto first = Ask<engine::EnqueueReply>(enqueue);
  SetLow(true);
  EXPECT_EQ(Ask<engine::EnqueueReply>(enqueue).jobs.at(0).job_id, first.jobs.at(0).job_id);
}

TEST_F(LowSpaceTest, IsKnownFromTheStart) {
  broker_.store().set_space({1'000, true});
  broker_.Advance(1'000);
  EXPECT_EQ(Refusal(engine::EnqueueCommand{"q", {BrokerHarness::Job()}, {}}),
            Reason::kStoreLowSpace);
  broker_.Crash();  // the next store has room
  EXPECT_TRUE(broker_.Call(engine::EnqueueCommand{"q", {BrokerHarness::Job()}, {}}).status.ok());
}

}  // namespace
}  // namespace stint::testing
