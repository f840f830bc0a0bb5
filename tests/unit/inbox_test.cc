#include "server/runtime/inbox.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <thread>
#include <vector>

#include "server/engine/error.h"

namespace stint::runtime {
namespace {

using engine::Reason;

Call CallOf(engine::Command command, size_t bytes = 0) {
  return {std::move(command), nullptr, nullptr, bytes};
}

Call Settle(size_t items = 1, size_t bytes = 0) {
  engine::SettleCommand settle;
  settle.items.resize(items);
  return CallOf(settle, bytes);
}

Call Heartbeat() { return CallOf(engine::HeartbeatCommand{"w", {{}, {}}}); }

Call Lease(int32_t jobs = 1) {
  engine::LeaseCommand lease;
  lease.max_jobs = jobs;
  return CallOf(lease);
}

Call Enqueue(size_t jobs = 1, size_t bytes = 0) {
  engine::EnqueueCommand enqueue;
  enqueue.jobs.resize(jobs);
  return CallOf(enqueue, bytes);
}

class InboxTest : public ::testing::Test {
 protected:
  void Push(int count, Call (*make)()) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(inbox_.Push(make()).ok());
  }
  // How many calls of each lane the next group has.
  std::vector<size_t> TakeCounts() {
    std::vector<size_t> counts(3);
    for (const Call& call : inbox_.Take()) ++counts[static_cast<size_t>(LaneOf(call.command))];
    return counts;
  }
  using Counts = std::vector<size_t>;  // settle, dispatch, other

  Inbox inbox_{{1'000, 1'000'000, 100, 1'000}};  // lane: calls, bytes; group: operations, bytes
};

Call OneSettle() { return Settle(); }
Call OneLease() { return Lease(); }
Call OneEnqueue() { return Enqueue(); }

TEST_F(InboxTest, EachCommandHasItsLane) {
  EXPECT_EQ(LaneOf(engine::SettleCommand{}), Lane::kSettle);
  EXPECT_EQ(LaneOf(engine::HeartbeatCommand{}), Lane::kSettle);
  EXPECT_EQ(LaneOf(engine::LeaseCommand{}), Lane::kDispatch);
  EXPECT_EQ(LaneOf(engine::EnqueueCommand{}), Lane::kOther);
  EXPECT_EQ(LaneOf(engine::CancelCommand{}), Lane::kOther);
  EXPECT_EQ(LaneOf(engine::WaitJobCommand{}), Lane::kOther);
  EXPECT_EQ(LaneOf(engine::PurgeQueueCommand{}), Lane::kOther);
}

TEST_F(InboxTest, OperationsAreWhatACommandMayWrite) {
  EXPECT_EQ(OperationsOf(Settle(3).command), 3u);
  EXPECT_EQ(OperationsOf(Heartbeat().command), 0u);
  EXPECT_EQ(OperationsOf(Lease(20).command), 20u);
  EXPECT_EQ(OperationsOf(Enqueue(5).command), 5u);
  EXPECT_EQ(OperationsOf(engine::DeleteQueueCommand{}), 1u);
}

TEST_F(InboxTest, KeepsAQuarterForDispatchAndAQuarterForAllElse) {
  Push(200, OneSettle);
  Push(200, OneLease);
  Push(200, OneEnqueue);
  EXPECT_EQ(TakeCounts(), (Counts{50, 25, 25}));
}

TEST_F(InboxTest, SettlesTakeAllThatTheOthersDoNotNeed) {
  Push(200, OneSettle);
  EXPECT_EQ(TakeCounts(), (Counts{100, 0, 0}));
  Push(2, OneLease);
  EXPECT_EQ(TakeCounts(), (Counts{75, 2, 0}));
  Push(200, OneEnqueue);
  EXPECT_EQ(TakeCounts(), (Counts{25, 0, 75}));
  EXPECT_EQ(TakeCounts(), (Counts{0, 0, 100}));
}

TEST_F(InboxTest, EachLaneIsInOrder) {
  for (int i = 1; i <= 3; ++i) {
    engine::LeaseCommand lease;
    lease.wait_ms = i;
    ASSERT_TRUE(inbox_.Push(CallOf(lease)).ok());
  }
  const std::vector<Call> calls = inbox_.Take();
  ASSERT_EQ(calls.size(), 3u);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(std::get<engine::LeaseCommand>(calls[static_cast<size_t>(i - 1)].command).wait_ms, i);
  }
}

TEST_F(InboxTest, HeartbeatsDoNotCountButAGroupEnds) {
  Push(150, Heartbeat);
  Push(150, OneSettle);
  Push(150, OneLease);
  EXPECT_EQ(TakeCounts(), (Counts{100, 100, 0}));
  EXPECT_EQ(TakeCounts(), (Counts{100, 50, 0}));  // the other 50 heartbeats
}

TEST_F(InboxTest, ACallOverTheLimitsComesAlone) {
  ASSERT_TRUE(inbox_.Push(Enqueue(1, 400)).ok());
  ASSERT_TRUE(inbox_.Push(Enqueue(1, 5'000)).ok());
  ASSERT_TRUE(inbox_.Push(Enqueue(500)).ok());
  ASSERT_TRUE(inbox_.Push(Enqueue(1, 400)).ok());
  ASSERT_TRUE(inbox_.Push(Enqueue(1, 400)).ok());
  EXPECT_EQ(TakeCounts(), (Counts{0, 0, 1}));
  EXPECT_EQ(TakeCounts(), (Counts{0, 0, 1}));
  EXPECT_EQ(TakeCounts(), (Counts{0, 0, 1}));
  EXPECT_EQ(TakeCounts(), (Counts{0, 0, 2}));
}

TEST_F(InboxTest, BytesAreSharedLikeOperations) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(inbox_.Push(Settle(1, 100)).ok());
    ASSERT_TRUE(inbox_.Push(Enqueue(1, 100)).ok());
  }
  EXPECT_EQ(TakeCounts(), (Counts{7, 0, 3}));
}

TEST_F(InboxTest, ABatchIsNotHeldUpForEverBySettles) {
  ASSERT_TRUE(inbox_.Push(Enqueue(90)).ok());
  Push(300, OneSettle);
  EXPECT_EQ(TakeCounts(), (Counts{75, 0, 0}));
  EXPECT_EQ(TakeCounts(), (Counts{10, 0, 1}));
  EXPECT_EQ(TakeCounts(), (Counts{100, 0, 0}));
}

TEST_F(InboxTest, LargeSettlesDoNotHoldUpTheOthers) {
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(inbox_.Push(Settle(1, 2'000)).ok());
  Push(10, OneLease);
  ASSERT_TRUE(inbox_.Push(Enqueue(1, 200)).ok());
  EXPECT_EQ(TakeCounts(), (Counts{1, 0, 0}));
  EXPECT_EQ(TakeCounts(), (Counts{0, 10, 1}));
  EXPECT_EQ(TakeCounts(), (Counts{1, 0, 0}));
}

TEST_F(InboxTest, AFullLaneRefusesAndTheOthersGoOn) {
  Push(1'000, OneEnqueue);
  const absl::Status refused = inbox_.Push(Enqueue());
  EXPECT_EQ(engine::ReasonOf(refused), Reason::kOverloaded);
  EXPECT_GT(engine::DetailsOf(refused)->retry_after_ms, 0);
  EXPECT_TRUE(inbox_.Push(Settle()).ok());
  EXPECT_TRUE(inbox_.Push(Lease()).ok());
  TakeCounts();
  EXPECT_TRUE(inbox_.Push(Enqueue()).ok());
}

TEST_F(InboxTest, LanesAreLimitedInBytesToo) {
  EXPECT_TRUE(inbox_.Push(Enqueue(1, 2'000'000)).ok());  // a lane takes one call of any size
  EXPECT_EQ(engine::ReasonOf(inbox_.Push(Enqueue(1, 1))), Reason::kOverloaded);
  TakeCounts();
  EXPECT_TRUE(inbox_.Push(Enqueue(1, 600'000)).ok());
  EXPECT_EQ(engine::ReasonOf(inbox_.Push(Enqueue(1, 600'000))), Reason::kOverloaded);
}

TEST_F(InboxTest, ALongHeartbeatHoldsMorePlaces) {
  engine::HeartbeatCommand beat;
  beat.items.resize(16'000);
  EXPECT_EQ(PlacesOf(beat), 1'001U);
  EXPECT_TRUE(inbox_.Push(CallOf(beat)).ok());  // the first one is always let in
  EXPECT_EQ(engine::ReasonOf(inbox_.Push(CallOf(beat))), Reason::kOverloaded);
}

TEST_F(InboxTest, AHeartbeatAndALeaseCallHoldOnePlace) {
  Push(1'000, Heartbeat);
  EXPECT_EQ(engine::ReasonOf(inbox_.Push(Heartbeat())), Reason::kOverloaded);
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(inbox_.Push(Lease(1'000)).ok());
  EXPECT_EQ(engine::ReasonOf(inbox_.Push(Lease())), Reason::kOverloaded);
}

TEST_F(InboxTest, AClosedInboxSaysWhy) {
  Push(1, OneEnqueue);
  inbox_.Close(engine::MakeError(Reason::kStoreFailed, "why"));
  EXPECT_EQ(engine::ReasonOf(inbox_.Push(Enqueue())), Reason::kStoreFailed);
  EXPECT_EQ(TakeCounts(), (Counts{0, 0, 1}));  // what is in it can still be taken
  EXPECT_TRUE(inbox_.empty());
}

TEST_F(InboxTest, AWaitEndsWithACallIfItIsWantedAndWithWakeInAnyCase) {
  std::thread caller([this] { EXPECT_TRUE(inbox_.Push(Enqueue()).ok()); });
  inbox_.Wait(60'000, true);
  caller.join();
  EXPECT_FALSE(inbox_.empty());
  inbox_.Wait(60'000, true);  // at once: there is a call
  std::thread waker([this] { inbox_.Wake(); });
  inbox_.Wait(60'000, false);  // not at once for the call
  waker.join();
}

}  // namespace
}  // namespace stint::runtime
