// Stalls of the broker: nobody's lease lapses because the broker stood still.
#include <gtest/gtest.h>

#include <utility>

#include "tests/support/broker_harness.h"

namespace stint::testing {
namespace {

// A call that has no effect but to let time pass in the middle of the pass that takes it.
runtime::Call CallThatTakes(int64_t ms, BrokerHarness* broker) {
  runtime::Call call;
  call.command = BrokerHarness::LeaseCall("nothing-here", 0);
  call.done = [](const engine::Outcome&) {};
  call.abandoned = [broker, ms] {
    broker->Freeze(ms);
    return true;
  };
  return call;
}

TEST(LoopStall, BetweenPasses) {
  BrokerHarness broker;
  broker.Enqueue("q");
  const auto held = broker.Lease("q");
  ASSERT_EQ(held.size(), 1U);
  broker.Freeze(60'000);
  broker.Settle();
  broker.Advance(29'000);
  EXPECT_EQ(broker.Stats("q").counters.leased(), 1);
  EXPECT_EQ(broker.Heartbeat(held[0]), engine::LeaseStatus::kRenewed);
}

TEST(LoopStall, InTheMiddleOfAPass) {
  BrokerHarness broker;
  broker.Enqueue("q");
  const auto held = broker.Lease("q");
  ASSERT_EQ(held.size(), 1U);
  ASSERT_TRUE(broker.loop().Submit(CallThatTakes(60'000, &broker)).ok());
  broker.Settle();
  broker.Advance(29'000);
  EXPECT_EQ(broker.Stats("q").counters.leased(), 1);
  EXPECT_EQ(broker.Heartbeat(held[0]), engine::LeaseStatus::kRenewed);
  EXPECT_TRUE(broker.Complete(held[0]).status.ok());
}

TEST(LoopStall, ALeaseStillLapsesOnceTheBrokerIsBack) {
  BrokerHarness broker;
  broker.Enqueue("q");
  ASSERT_EQ(broker.Lease("q").size(), 1U);
  ASSERT_TRUE(broker.loop().Submit(CallThatTakes(60'000, &broker)).ok());
  broker.Settle();
  broker.Advance(31'000);
  EXPECT_EQ(broker.Stats("q").counters.leased(), 0);
  EXPECT_EQ(broker.Lease("q").size(), 1U);
}

}  // namespace
}  // namespace stint::testing
