#include "server/engine/lease_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "server/engine/limits.h"

namespace stint::engine {
namespace {

using storage::JobKey;

Lease Until(int64_t deadline_ms, uint64_t request_hash = 0) {
  Lease lease;
  lease.deadline_ms = deadline_ms;
  lease.request_hash = request_hash;
  return lease;
}

TEST(LeaseTableTest, GivesOutWhatIsDueInOrderAndOnce) {
  LeaseTable leases;
  leases.Put({1, 1}, Until(300));
  leases.Put({1, 2}, Until(100));
  leases.Put({1, 3}, Until(200));
  EXPECT_EQ(leases.NextMs(), 100);
  EXPECT_TRUE(leases.TakeDue(99, 10).empty());
  EXPECT_EQ(leases.TakeDue(200, 10), (std::vector<JobKey>{{1, 2}, {1, 3}}));
  EXPECT_TRUE(leases.TakeDue(200, 10).empty());
  EXPECT_EQ(leases.size(), 3u);
  leases.Watch({1, 2}, 250);
  EXPECT_EQ(leases.TakeDue(300, 10), (std::vector<JobKey>{{1, 2}, {1, 1}}));
}

TEST(LeaseTableTest, ProgressOfAllLeasesTogetherIsBounded) {
  LeaseTable leases;
  const std::string text(kMaxProgressBytes, 'x');
  const size_t fit = kMaxKeptProgressBytes / kMaxProgressBytes;
  for (uint64_t i = 1; i <= fit + 1; ++i) {
    leases.Put({1, i}, Until(100));
    leases.SetProgress(leases.Find({1, i}), text);
  }
  EXPECT_EQ(leases.progress_bytes(), kMaxKeptProgressBytes);
  EXPECT_TRUE(leases.Find({1, fit})->progress.has_value());
  EXPECT_FALSE(leases.Find({1, fit + 1})->progress.has_value());
  // Another in place of the old one, and room again when a lease ends.
  leases.SetProgress(leases.Find({1, 1}), "short");
  EXPECT_EQ(leases.Find({1, 1})->progress, "short");
  leases.Remove({1, 2});
  leases.SetProgress(leases.Find({1, fit + 1}), text);
  EXPECT_TRUE(leases.Find({1, fit + 1})->progress.has_value());
  leases.RemoveQueue(1);
  EXPECT_EQ(leases.progress_bytes(), 0u);
}

TEST(LeaseTableTest, StopsAtTheLimit) {
  LeaseTable leases;
  for (uint64_t i = 1; i <= 5; ++i) leases.Put({1, i}, Until(100));
  EXPECT_EQ(leases.TakeDue(100, 3).size(), 3u);
  EXPECT_EQ(leases.TakeDue(100, 3).size(), 2u);
}

TEST(LeaseTableTest, ARenewedLeaseIsNotDue) {
  LeaseTable leases;
  leases.Put({1, 1}, Until(100));
  leases.Find({1, 1})->deadline_ms = 500;
  EXPECT_TRUE(leases.TakeDue(100, 10).empty());
  EXPECT_EQ(leases.NextMs(), 500);
  EXPECT_EQ(leases.TakeDue(500, 10).size(), 1u);
}

TEST(LeaseTableTest, RunLimitAndCancelGraceComeBeforeTheDeadline) {
  Lease lease = Until(1'000);
  EXPECT_EQ(lease.NextMs(), 1'000);
  lease.state.set_run_limit_at_ms(800);
  EXPECT_EQ(lease.NextMs(), 800);
  lease.state.set_cancel_at_ms(700);
  EXPECT_EQ(lease.NextMs(), 800);  // nobody asked for it
  lease.state.set_cancel_requested(true);
  EXPECT_EQ(lease.NextMs(), 700);
}

TEST(LeaseTableTest, TheTimerOfAFormerLeaseHitsNobody) {
  LeaseTable leases;
  leases.Put({1, 1}, Until(100));
  leases.Remove({1, 1});
  leases.Put({1, 1}, Until(900));
  EXPECT_TRUE(leases.TakeDue(500, 10).empty());
  EXPECT_EQ(leases.TakeDue(900, 10), (std::vector<JobKey>{{1, 1}}));
}

TEST(LeaseTableTest, KnowsWhatACallWasGranted) {
  LeaseTable leases;
  leases.Put({1, 1}, Until(100, 7));
  leases.Put({1, 2}, Until(100, 7));
  leases.Put({2, 3}, Until(100, 8));
  EXPECT_EQ(leases.GrantedBy(7), (std::vector<JobKey>{{1, 1}, {1, 2}}));
  leases.Remove({1, 1});
  EXPECT_EQ(leases.GrantedBy(7), (std::vector<JobKey>{{1, 2}}));
  leases.Put({1, 2}, Until(200));  // granted again, by another call
  EXPECT_TRUE(leases.GrantedBy(7).empty());
  leases.RemoveQueue(2);
  EXPECT_TRUE(leases.GrantedBy(8).empty());
  EXPECT_EQ(leases.size(), 1u);
}

TEST(LeaseTableTest, LongLeasesThatEndAtOnceLeaveNothingBehind) {
  LeaseTable leases;
  leases.Put({1, 1}, Until(50));
  for (uint64_t i = 2; i < 100'000; ++i) {
    leases.Put({1, i}, Until(86'400'000));
    leases.Remove({1, i});
  }
  EXPECT_LE(leases.watched(), 2'000u);
  EXPECT_EQ(leases.NextMs(), 50);
  EXPECT_EQ(leases.TakeDue(50, 10), (std::vector<JobKey>{{1, 1}}));
}

}  // namespace
}  // namespace stint::engine
