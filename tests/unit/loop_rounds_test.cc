// A group needs few rounds of fetching whatever its size, and what is due is never passed over
// while a group is being made durable.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

class LoopRoundsTest : public CaseTest {};

TEST_F(LoopRoundsTest, DueJobsAreNotPassedOverWhileAGroupIsInSync) {
  broker_.set_late_syncs(true);
  auto delayed = BrokerHarness::Job();
  delayed.delay_ms = 10'000;
  broker_.EnqueueMany("q", Jobs(1000, delayed));
  broker_.Freeze(10'700);  // well after they were due
  broker_.Settle();
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 1000);
}

TEST_F(LoopRoundsTest, ExpiredJobsAreNotPassedOverWhileAGroupIsInSync) {
  broker_.set_late_syncs(true);
  auto expiring = BrokerHarness::Job();
  expiring.expire_after_ms = 10'000;
  broker_.EnqueueMany("q", Jobs(1000, expiring));
  broker_.Freeze(10'700);
  broker_.Settle();
  EXPECT_EQ(broker_.Stats("q").counters.cancelled(), 1000);
}

}  // namespace
}  // namespace stint::testing
