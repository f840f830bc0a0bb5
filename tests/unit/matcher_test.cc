#include "server/runtime/matcher.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace stint::runtime {
namespace {

class MatcherTest : public ::testing::Test {
 protected:
  uint64_t ParkLease(std::vector<std::string> queues, int64_t deadline_ms,
                     std::function<bool()> abandoned = nullptr) {
    ParkedCall parked;
    parked.id = matcher_.NextId();
    engine::LeaseCommand lease;
    lease.queues = std::move(queues);
    parked.call.command = lease;
    parked.call.abandoned = std::move(abandoned);
    parked.deadline_ms = deadline_ms;
    const uint64_t id = parked.id;
    matcher_.Park(std::move(parked));
    return id;
  }
  uint64_t ParkWait(const storage::JobKey& job, int64_t deadline_ms) {
    ParkedCall parked;
    parked.id = matcher_.NextId();
    parked.call.command = engine::WaitJobCommand{};
    parked.job = job;
    parked.deadline_ms = deadline_ms;
    const uint64_t id = parked.id;
    matcher_.Park(std::move(parked));
    return id;
  }
  static std::vector<uint64_t> Ids(const std::vector<ParkedCall>& calls) {
    std::vector<uint64_t> ids;
    for (const ParkedCall& call : calls) ids.push_back(call.id);
    return ids;
  }
  using List = std::vector<uint64_t>;

  Matcher matcher_;
};

TEST_F(MatcherTest, NamesOfQueuesWeighMoreThanTheirBytes) {
  ParkLease(std::vector<std::string>(10'000, "q"), 100);
  EXPECT_GE(matcher_.bytes(), 10'000 * sizeof(std::string));
  matcher_.TakeAll();
  EXPECT_EQ(matcher_.bytes(), 0U);
}

TEST_F(MatcherTest, FirstComeFirstServed) {
  const uint64_t first = ParkLease({"a", "b"}, 100);
  const uint64_t second = ParkLease({"b"}, 50);
  EXPECT_FALSE(matcher_.TakeFirst("c").has_value());
  EXPECT_EQ(matcher_.TakeFirst("b")->id, first);
  EXPECT_FALSE(matcher_.HasWaiters("a"));  // it is gone from every line
  EXPECT_EQ(matcher_.TakeFirst("b")->id, second);
  EXPECT_FALSE(matcher_.TakeFirst("b").has_value());
  EXPECT_EQ(matcher_.size(), 0u);
}

TEST_F(MatcherTest, WhoWaitsAgainKeepsItsPlace) {
  const uint64_t first = ParkLease({"a"}, 100);
  ParkLease({"a"}, 100);
  ParkedCall again = *matcher_.TakeFirst("a");
  matcher_.Park(std::move(again));
  EXPECT_EQ(matcher_.TakeFirst("a")->id, first);
}

TEST_F(MatcherTest, AQueueNamedTwiceIsOneLine) {
  ParkLease({"a", "a"}, 100);
  EXPECT_TRUE(matcher_.TakeFirst("a").has_value());
  EXPECT_FALSE(matcher_.HasWaiters("a"));
}

TEST_F(MatcherTest, EachWaitEndsAtItsOwnTime) {
  const uint64_t late = ParkLease({"a"}, 300);
  const uint64_t early = ParkWait({1, 1}, 100);
  const uint64_t middle = ParkLease({"a"}, 200);
  EXPECT_EQ(matcher_.NextMs(), 100);
  EXPECT_TRUE(matcher_.TakeExpired(99).empty());
  EXPECT_EQ(Ids(matcher_.TakeExpired(200)), (List{early, middle}));
  EXPECT_EQ(matcher_.NextMs(), 300);
  EXPECT_EQ(Ids(matcher_.TakeExpired(1'000)), (List{late}));
  EXPECT_EQ(matcher_.NextMs(), INT64_MAX);
}

TEST_F(MatcherTest, AllWhoWaitForOneJobAreTakenTogether) {
  const uint64_t one = ParkWait({1, 1}, 100);
  ParkWait({1, 2}, 100);
  const uint64_t other = ParkWait({1, 1}, 200);
  EXPECT_EQ(Ids(matcher_.TakeWaitersOf({1, 1})), (List{one, other}));
  EXPECT_TRUE(matcher_.TakeWaitersOf({1, 1}).empty());
  EXPECT_EQ(matcher_.size(), 1u);
}

TEST_F(MatcherTest, WhoHasGoneIsTakenOut) {
  bool gone = false;
  const uint64_t leaving = ParkLease({"a"}, 100, [&gone] { return gone; });
  ParkLease({"a"}, 100);
  EXPECT_TRUE(matcher_.TakeAbandoned().empty());
  gone = true;
  EXPECT_EQ(Ids(matcher_.TakeAbandoned()), (List{leaving}));
  EXPECT_EQ(matcher_.size(), 1u);
}

TEST_F(MatcherTest, ListsQueuesSomebodyWaitsFor) {
  ParkLease({"b", "a"}, 100);
  ParkWait({1, 1}, 100);
  EXPECT_EQ(matcher_.Queues(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(matcher_.TakeAll().size(), 2u);
  EXPECT_TRUE(matcher_.Queues().empty());
}

}  // namespace
}  // namespace stint::runtime
