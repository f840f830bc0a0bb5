// Broker time never goes back, whatever the machine's clocks do.
#include <gtest/gtest.h>

#include "server/runtime/clock.h"
#include "tests/support/broker_harness.h"

namespace stint::runtime {
namespace {

class BrokerTimeTest : public ::testing::Test {
 protected:
  // A group written now.
  record::GroupRecord Written(int64_t broker_ms) const {
    record::GroupRecord group;
    group.set_group(1);
    group.set_broker_ms(broker_ms);
    group.set_wall_ms(clock_.wall_ms);
    group.set_boot_ms(clock_.boot_ms);
    group.set_boot_id(clock_.boot_id);
    return group;
  }
  int64_t StartAfter(const record::GroupRecord& last) {
    time_ = BrokerTime(&clock_);
    time_.Start(last);
    return time_.NowMs();
  }

  testing::ManualClock clock_;
  BrokerTime time_{&clock_};
};

TEST_F(BrokerTimeTest, BeginsAsTheWallClockAndFollowsTheBootClock) {
  const int64_t start = clock_.wall_ms;
  EXPECT_EQ(StartAfter({}), start);
  clock_.boot_ms += 500;
  EXPECT_EQ(time_.NowMs(), start + 500);
  clock_.wall_ms += 3'600'000;
  EXPECT_EQ(time_.NowMs(), start + 500);
}

TEST_F(BrokerTimeTest, NeverGoesBackWithinARun) {
  const int64_t start = StartAfter({});
  clock_.boot_ms += 500;
  EXPECT_EQ(time_.NowMs(), start + 500);
  clock_.boot_ms -= 400;
  EXPECT_EQ(time_.NowMs(), start + 500);
  clock_.wall_ms -= 3'600'000;
  EXPECT_EQ(time_.NowMs(), start + 500);
}

TEST_F(BrokerTimeTest, WithinOneBootTheDowntimeIsExact) {
  const record::GroupRecord last = Written(5'000);
  clock_.boot_ms += 1'234;
  clock_.wall_ms -= 3'600'000;  // says nothing here
  EXPECT_EQ(StartAfter(last), 6'234);
}

TEST_F(BrokerTimeTest, AfterABootTheWallClockSaysHowLongItTook) {
  const record::GroupRecord last = Written(5'000);
  clock_.boot_id = "boot-2";
  clock_.boot_ms = 10;
  clock_.wall_ms += 60'000;
  EXPECT_EQ(StartAfter(last), 65'000);
  clock_.boot_ms += 7;
  EXPECT_EQ(time_.NowMs(), 65'007);
}

TEST_F(BrokerTimeTest, AfterABootWithTheWallClockSetBackNoTimeHasPassed) {
  const record::GroupRecord last = Written(5'000);
  clock_.boot_id = "boot-2";
  clock_.wall_ms -= 1;
  EXPECT_EQ(StartAfter(last), 5'000);
}

TEST_F(BrokerTimeTest, ABootClockThatIsBehindIsNotBelieved) {
  const record::GroupRecord last = Written(5'000);
  clock_.boot_ms -= 100;  // the same boot id, as in a copied machine
  clock_.wall_ms += 2'000;
  EXPECT_EQ(StartAfter(last), 7'000);
}

TEST_F(BrokerTimeTest, WithoutABootIdTheWallClockCounts) {
  clock_.boot_id.clear();
  const record::GroupRecord last = Written(5'000);
  clock_.boot_ms += 9'000;
  clock_.wall_ms += 1'000;
  EXPECT_EQ(StartAfter(last), 6'000);
}

}  // namespace
}  // namespace stint::runtime
