// The loop: what is answered when, and what it does by itself.
#include "server/runtime/loop.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

class LoopTest : public CaseTest {
 protected:
  static engine::EnqueueCommand EnqueueOne(const std::string& queue) {
    return {queue, {BrokerHarness::Job()}, {}};
  }
  runtime::Loop& loop() { return broker_.loop(); }
};

TEST_F(LoopTest, RefusesUntilItHasStarted) {
  storage::MemoryStore store;
  ManualClock clock;
  ManualExecutor executor;
  runtime::Loop loop(&store, &clock, &executor, {}, {});
  EXPECT_EQ(ReasonOf(loop.Submit({EnqueueOne("q"), nullptr, nullptr, 0})), Reason::kStarting);
  EXPECT_FALSE(loop.Step());
}

TEST_F(LoopTest, NothingIsAnsweredBeforeItIsDurable) {
  const auto call = broker_.Submit(EnqueueOne("q"));
  EXPECT_TRUE(loop().Step());
  EXPECT_FALSE(loop().Step());
  EXPECT_FALSE(call->outcome.has_value());
  EXPECT_EQ(broker_.store().unsynced(), 1u);
  ASSERT_TRUE(broker_.executor().RunOne());
  EXPECT_TRUE(call->outcome.has_value());
  EXPECT_EQ(broker_.store().unsynced(), 0u);
}

TEST_F(LoopTest, AReadOrARefusalWaitsForTheGroupItCouldHaveSeen) {
  auto named = BrokerHarness::Job();
  named.record.set_job_id("order-7");
  const engine::EnqueueCommand enqueue{"q", {named}, {}};
  const auto first = broker_.Submit(enqueue);
  loop().Step();
  const auto refused = broker_.Submit(enqueue);
  const auto read = broker_.Submit(engine::QueueStatsCommand{"q"});
  while (loop().Step()) {
  }
  EXPECT_FALSE(refused->outcome.has_value());
  EXPECT_FALSE(read->outcome.has_value());
  broker_.Settle();
  EXPECT_TRUE(first->outcome->status.ok());
  EXPECT_EQ(ReasonOf(refused->outcome->status), Reason::kJobExists);
  EXPECT_EQ(std::get<engine::QueueStatsReply>(read->outcome->body).counters.ready(), 1);
}

TEST_F(LoopTest, OneGroupIsInSyncWhileTheNextIsApplied) {
  const auto first = broker_.Submit(EnqueueOne("q"));
  loop().Step();
  const auto second = broker_.Submit(EnqueueOne("q"));
  while (loop().Step()) {
  }
  const auto third = broker_.Submit(EnqueueOne("q"));
  while (loop().Step()) {
  }
  EXPECT_EQ(broker_.store().unsynced(), 1u);  // the second is applied, and not committed yet
  broker_.executor().RunOne();
  EXPECT_TRUE(first->outcome.has_value());
  while (loop().Step()) {
  }
  EXPECT_FALSE(second->outcome.has_value());
  broker_.executor().RunOne();
  EXPECT_TRUE(second->outcome.has_value());
  EXPECT_FALSE(third->outcome.has_value());
  broker_.Settle();
  EXPECT_TRUE(third->outcome.has_value());
}

TEST_F(LoopTest, CallsThatGatherAreOneGroup) {
  const uint64_t before = loop().synced_group();
  std::vector<std::shared_ptr<PendingCall>> calls;
  for (int i = 0; i < 1'000; ++i) calls.push_back(broker_.Submit(EnqueueOne("q")));
  broker_.Settle();
  for (const auto& call : calls) EXPECT_TRUE(call->outcome.has_value());
  EXPECT_EQ(loop().synced_group(), before + 1);
}

TEST_F(LoopTest, ACallNobodyWaitsForIsDroppedUnapplied) {
  const auto call = broker_.Submit(EnqueueOne("q"));
  call->abandoned = true;
  broker_.Settle();
  EXPECT_EQ(ReasonOf(call->outcome->status), Reason::kCallExpired);
  EXPECT_EQ(Refusal(engine::QueueStatsCommand{"q"}), Reason::kQueueNotFound);
}

TEST_F(LoopTest, ACallThatIsAppliedTakesEffectEvenIfNobodyWaitsAnyMore) {
  const auto call = broker_.Submit(EnqueueOne("q"));
  loop().Step();
  call->abandoned = true;
  broker_.Settle();
  EXPECT_TRUE(call->outcome->status.ok());
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 1);
}

TEST_F(LoopTest, AWaitingCallWhoseCallerHasGoneTakesNoJob) {
  const auto gone = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  const auto next = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  gone->abandoned = true;
  broker_.Enqueue("q");
  EXPECT_EQ(ReasonOf(gone->outcome->status), Reason::kCallExpired);
  EXPECT_EQ(LeasesOf(next).size(), 1u);
}

TEST_F(LoopTest, AWaitingCallWhoseCallerHasGoneIsForgottenWithinASecond) {
  const auto gone = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  gone->abandoned = true;
  broker_.Advance(1'000);
  EXPECT_EQ(ReasonOf(gone->outcome->status), Reason::kCallExpired);
  EXPECT_EQ(Ask<engine::ServerInfoReply>(engine::ServerInfoCommand{}).parked_calls, 0);
}

class ParkedLimitTest : public LoopTest {
 protected:
  static runtime::LoopOptions TwoPlaces() {
    runtime::LoopOptions options;
    options.max_parked_calls = 2;
    return options;
  }
  BrokerHarness small_{TwoPlaces()};
};

TEST_F(ParkedLimitTest, NoMoreThanSoManyCallsWait) {
  const auto one = small_.Start(BrokerHarness::LeaseCall("q", 10'000));
  const auto two = small_.Start(BrokerHarness::LeaseCall("q", 10'000));
  const auto three = small_.Start(BrokerHarness::LeaseCall("q", 10'000));
  ASSERT_TRUE(three->outcome.has_value());
  EXPECT_EQ(ReasonOf(three->outcome->status), Reason::kOverloaded);
  EXPECT_GT(engine::DetailsOf(three->outcome->status)->retry_after_ms, 0);
  // Those that need not wait are served, and a place that is free can be taken.
  small_.Enqueue("other");
  EXPECT_EQ(small_.Lease("other").size(), 1u);
  small_.Enqueue("q");
  EXPECT_EQ(LeasesOf(one).size(), 1u);
  const auto four = small_.Start(BrokerHarness::LeaseCall("q", 10'000));
  EXPECT_FALSE(four->outcome.has_value());
  small_.Advance(10'000);
  EXPECT_TRUE(LeasesOf(two).empty());
  EXPECT_TRUE(two->outcome.has_value());
}

TEST_F(ParkedLimitTest, NorSoManyBytes) {
  runtime::LoopOptions options;
  options.max_parked_bytes = 1'000;
  BrokerHarness tight(options);
  std::vector<absl::Status> refused;
  const auto submit = [&](size_t bytes) {
    runtime::Call call;
    call.command = BrokerHarness::LeaseCall("q", 10'000);
    call.done = [&refused](engine::Outcome outcome) { refused.push_back(outcome.status); };
    call.bytes = bytes;
    EXPECT_TRUE(tight.loop().Submit(std::move(call)).ok());
    tight.Settle();
  };
  submit(5'000);  // one of any size
  EXPECT_TRUE(refused.empty());
  submit(1);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(ReasonOf(refused[0]), Reason::kOverloaded);
  tight.Enqueue("q");  // the first has its job
  submit(600 - 32);    // the name of its queue counts as well
  submit(400 - 32);
  EXPECT_EQ(refused.size(), 2u);
  submit(1);
  EXPECT_EQ(refused.size(), 3u);
}

TEST_F(LoopTest, AWaitEndsAtItsTime) {
  const auto poll = broker_.Start(BrokerHarness::LeaseCall("q", 3'000));
  const std::string id = broker_.Enqueue("other").jobs.at(0).job_id;
  const auto wait = broker_.Start(engine::WaitJobCommand{{"other", id}, 5'000});
  broker_.Advance(2'999, 2'999);
  EXPECT_FALSE(poll->outcome.has_value());
  EXPECT_EQ(loop().WaitMs(), 1);
  broker_.Advance(1);
  EXPECT_TRUE(poll->outcome.has_value());
  EXPECT_TRUE(LeasesOf(poll).empty());
  broker_.Advance(2'000);
  ASSERT_TRUE(wait->outcome.has_value());
  EXPECT_EQ(StateOf(std::get<engine::JobReply>(wait->outcome->body).job), JobState::kReady);
}

// --- A broker that stands still ---------------------------------------------------------------

TEST_F(LoopTest, AStallGivesEveryLeaseTheTimeBack) {
  broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job()));
  const auto silent = broker_.Lease("q", 1, 10'000).at(0);
  broker_.Advance(9'000);
  broker_.Freeze(3'000);
  broker_.Settle();
  EXPECT_EQ(broker_.Stats("q").counters.leased(), 1);
  broker_.Advance(900);
  EXPECT_EQ(broker_.Stats("q").counters.leased(), 1);
  broker_.Advance(100);
  EXPECT_EQ(broker_.Stats("q").counters.leased(), 0);
  EXPECT_EQ(broker_.Get("q", silent.job.job_id).state.total_losses(), 1);
}

TEST_F(LoopTest, AStallOfAMinuteLapsesNoneOfAThousandLeases) {
  broker_.EnqueueMany("q", Jobs(1'000, BrokerHarness::Job()));
  const auto leases = broker_.Lease("q", 1'000, 15'000);
  ASSERT_EQ(leases.size(), 1'000u);
  broker_.Advance(14'000);
  broker_.Freeze(60'000);
  broker_.Advance(29'999);  // the restart grace
  EXPECT_EQ(broker_.Stats("q").counters.leased(), 1'000);
  engine::HeartbeatCommand heartbeat{"w1", {}};
  for (size_t i = 0; i < 999; ++i) {
    heartbeat.items.push_back({BrokerHarness::Ref(leases[i]), leases[i].token});
  }
  for (const LeaseStatus status : Ask<engine::HeartbeatReply>(heartbeat).statuses) {
    EXPECT_EQ(status, LeaseStatus::kRenewed);
  }
  broker_.Advance(1'250);
  EXPECT_EQ(broker_.Stats("q").counters.leased(), 999);
}

TEST_F(LoopTest, AHeartbeatThatWaitedDuringTheStallCounts) {
  broker_.Enqueue("q");
  const auto lease = broker_.Lease("q", 1, 2'000).at(0);
  broker_.Advance(1'900);
  broker_.Freeze(900);  // no stall yet, but the lease has run out
  const auto heartbeat =
      broker_.Submit(engine::HeartbeatCommand{"w1", {{BrokerHarness::Ref(lease), lease.token}}});
  broker_.Settle();
  EXPECT_EQ(std::get<engine::HeartbeatReply>(heartbeat->outcome->body).statuses.at(0),
            LeaseStatus::kRenewed);
  EXPECT_EQ(broker_.Get("q", lease.job.job_id).state.total_losses(), 0);
}

TEST_F(LoopTest, ASlowSyncIsAStallToo) {
  broker_.Enqueue("q");
  const auto lease = broker_.Lease("q", 1, 2'000).at(0);
  broker_.Submit(EnqueueOne("q"));
  loop().Step();
  broker_.Submit(EnqueueOne("q"));
  while (loop().Step()) {
  }
  broker_.Freeze(3'000);  // the disk takes that long
  EXPECT_FALSE(loop().Step());
  broker_.Settle();
  EXPECT_EQ(broker_.Get("q", lease.job.job_id).state.total_losses(), 0);
  EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kRenewed);
}

TEST_F(LoopTest, ARestartLapsesNobody) {
  broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job()));
  const auto brief = broker_.Lease("q", 1, 1'000).at(0);
  const auto lasting = broker_.Lease("q", 1, 120'000).at(0);
  broker_.Crash(3'600'000);
  broker_.Advance(29'999);
  EXPECT_EQ(broker_.Stats("q").counters.leased(), 2);
  broker_.Advance(1);
  EXPECT_EQ(broker_.Get("q", brief.job.job_id).state.total_losses(), 1);
  broker_.Advance(89'999);
  EXPECT_EQ(broker_.Heartbeat(lasting), LeaseStatus::kRenewed);
}

// --- Drain ------------------------------------------------------------------------------------

TEST_F(LoopTest, ADrainEndsWaitsAndGrantsNothingButServesTheRest) {
  broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job()));
  const auto lease = broker_.Lease("q").at(0);
  const auto poll = broker_.Start(BrokerHarness::LeaseCall("empty", 60'000));
  const auto wait = broker_.Start(engine::WaitJobCommand{BrokerHarness::Ref(lease), 60'000});
  EXPECT_FALSE(loop().Drained());
  loop().BeginDrain();
  EXPECT_FALSE(loop().Drained());  // two calls wait
  broker_.Settle();
  EXPECT_TRUE(poll->outcome->status.ok());
  EXPECT_TRUE(LeasesOf(poll).empty());
  EXPECT_EQ(StateOf(std::get<engine::JobReply>(wait->outcome->body).job), JobState::kLeased);
  EXPECT_TRUE(loop().Drained());

  EXPECT_EQ(Refusal(BrokerHarness::LeaseCall("q", 20'000)), Reason::kDraining);
  broker_.Enqueue("q");
  const auto beat = Ask<engine::HeartbeatReply>(
      engine::HeartbeatCommand{"w1", {{BrokerHarness::Ref(lease), lease.token}}});
  EXPECT_EQ(beat.statuses.at(0), LeaseStatus::kRenewed);
  EXPECT_TRUE(beat.draining);
  // A wait that begins now is answered with the job as it is.
  EXPECT_EQ(
      StateOf(Ask<engine::JobReply>(engine::WaitJobCommand{BrokerHarness::Ref(lease), 60'000}).job),
      JobState::kLeased);
  EXPECT_TRUE(broker_.Complete(lease).status.ok());
  EXPECT_TRUE(loop().Drained());
}

// --- What it writes by itself -----------------------------------------------------------------

class GroupsTest : public ::testing::Test {
 protected:
  storage::MemoryFaults Watching() {
    storage::MemoryFaults faults;
    faults.before_commit = [this](const storage::Batch& batch) {
      marks_.push_back(batch.mark());
      return absl::OkStatus();
    };
    return faults;
  }
  std::vector<storage::GroupMark> marks_;
  BrokerHarness broker_{{}, Watching()};
};

TEST_F(GroupsTest, ATrailerSaysThatTheLastGroupIsDurable) {
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  ASSERT_EQ(marks_.size(), 1u);
  EXPECT_EQ(marks_[0].group, 1u);
  EXPECT_EQ(marks_[0].synced_through, 0u);
  broker_.Advance(19);
  EXPECT_EQ(marks_.size(), 1u);
  EXPECT_EQ(broker_.loop().WaitMs(), 1);
  broker_.Advance(1);
  ASSERT_EQ(marks_.size(), 2u);
  EXPECT_EQ(marks_[1].group, 2u);
  EXPECT_EQ(marks_[1].synced_through, 1u);
  // It needs none of its own, and an idle broker writes nothing.
  broker_.Advance(60'000);
  EXPECT_EQ(marks_.size(), 2u);
}

TEST_F(GroupsTest, BrokerTimeIsWrittenEachSecondWhileAnythingWaitsForIt) {
  auto delayed = BrokerHarness::Job();
  delayed.delay_ms = 10'000;
  broker_.Enqueue("q", delayed);
  broker_.Advance(5'000);
  const size_t written = marks_.size();
  EXPECT_GE(written, 6u);
  EXPECT_LE(written, 8u);
  broker_.Crash(4'000);
  broker_.Advance(1'000);
  EXPECT_EQ(broker_.Lease("q").size(), 1u);
}

TEST_F(GroupsTest, EachGroupSaysWhatWasDurableWhenItWasWritten) {
  broker_.set_late_syncs(true);
  for (int i = 0; i < 10; ++i) {
    broker_.Submit(engine::EnqueueCommand{"q", {BrokerHarness::Job()}, {}});
    broker_.loop().Step();
  }
  broker_.Settle();
  for (size_t i = 0; i < marks_.size(); ++i) {
    EXPECT_EQ(marks_[i].group, i + 1);
    EXPECT_LE(marks_[i].synced_through, i);
    EXPECT_GE(marks_[i].synced_through + 1, i);
  }
}

}  // namespace
}  // namespace stint::testing
