// A group needs few rounds of fetching whatever its size, and what is due is never passed over
// while a group is being made durable.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

class LoopRoundsTest : public CaseTest {};

TEST_F(LoopRoundsTest, OneCallThatTakesOneJobFromEachOfManyQueues) {
  constexpr int kQueues = 300;
  engine::LeaseCommand lease = BrokerHarness::LeaseCall("", 0);
  lease.queues.clear();
  lease.max_jobs = 1000;
  for (int i = 0; i < kQueues; ++i) {
    lease.queues.push_back(absl::StrCat("q", i));
    broker_.Enqueue(lease.queues.back());
  }
  broker_.Crash();  // nothing of the order is in memory
  EXPECT_EQ(Ask<engine::LeaseReply>(lease).leases.size(), 300u);
}

TEST_F(LoopRoundsTest, AColdQueueWithAllPriorities) {
  for (int priority = 0; priority <= engine::kMaxPriority; ++priority) {
    auto job = BrokerHarness::Job(std::string(5'000, 'x'));  // its payload is a row of its own
    job.record.set_priority(priority);
    broker_.EnqueueMany("q", Jobs(100, job));
  }
  broker_.Advance(1'000);
  broker_.Crash();
  EXPECT_EQ(broker_.Stats("q").oldest_ready_age_ms, 1'000);
  broker_.Crash();
  const auto leases = broker_.Lease("q", 1000);
  ASSERT_EQ(leases.size(), 658u);  // 3.5 MiB of them
  EXPECT_EQ(leases.front().job.state.priority(), 9);
  EXPECT_EQ(leases.front().job.record.payload().size(), 5'000u);
}

TEST_F(LoopRoundsTest, ACallMayNotTakeAllThatItLooksAt) {
  broker_.EnqueueMany("q", Jobs(10, BrokerHarness::Job(std::string(5'000, 'x'))));
  broker_.Crash();
  auto first = BrokerHarness::LeaseCall("q", 0);
  first.max_jobs = 10;
  first.max_reply_bytes = 12'000;
  auto second = BrokerHarness::LeaseCall("q", 0);
  second.max_jobs = 10;
  const auto one = broker_.Submit(first);
  const auto other = broker_.Submit(second);
  broker_.Settle();
  EXPECT_EQ(LeasesOf(one).size(), 2u);
  EXPECT_EQ(LeasesOf(other).size(), 8u);
}

TEST_F(LoopRoundsTest, WaitersAreServedBesideACallThatClaimsTheSameJobs) {
  broker_.Enqueue("a");
  broker_.EnqueueMany("b", Jobs(2, BrokerHarness::Job()));
  Pause("b");
  const auto waiting = broker_.Start(BrokerHarness::LeaseCall("b", 20'000));
  broker_.Crash();
  const auto again = broker_.Start(BrokerHarness::LeaseCall("b", 20'000));
  auto both = BrokerHarness::LeaseCall("a", 0);
  both.queues.push_back("b");
  both.max_jobs = 3;
  const auto taking = broker_.Submit(both);
  const auto resumed = broker_.Submit(engine::PauseQueueCommand{"b", false, {}});
  broker_.Settle();
  EXPECT_TRUE(resumed->outcome.has_value());
  EXPECT_EQ(LeasesOf(taking).size() + LeasesOf(again).size(), 3u);
  EXPECT_FALSE(waiting->outcome.has_value());  // it was lost in the crash
}

TEST_F(LoopRoundsTest, AGroupOfAThousandMixedCalls) {
  std::vector<engine::NewJob> named;
  for (int i = 0; i < 500; ++i) {
    named.push_back(BrokerHarness::Job(std::string(i % 2 == 0 ? 10 : 5'000, 'x')));
    named.back().record.set_job_id(absl::StrCat("job-", i));
  }
  std::vector<GrantedLease> held;
  for (int q = 0; q < 10; ++q) {
    const std::string queue = absl::StrCat("q", q);
    broker_.EnqueueMany(queue, named);
    const auto leases = broker_.Lease(queue, 100);
    held.insert(held.end(), leases.begin(), leases.end());
  }
  broker_.Advance(1'000);
  broker_.Crash();

  std::vector<std::shared_ptr<PendingCall>> calls;
  for (size_t i = 0; i < 250; ++i) {
    engine::SettleItem settle;
    settle.job = BrokerHarness::Ref(held[i * 2]);
    settle.token = held[i * 2].token;
    settle.kind = static_cast<engine::SettleKind>(1 + i % 3);
    calls.push_back(broker_.Submit(engine::SettleCommand{{settle}}));
    const GrantedLease& alive = held[i * 2 + 1];
    calls.push_back(
        broker_.Submit(engine::HeartbeatCommand{"w1", {{BrokerHarness::Ref(alive), alive.token}}}));
  }
  for (int i = 0; i < 200; ++i) {
    calls.push_back(broker_.Submit(BrokerHarness::LeaseCall(absl::StrCat("q", i % 12), 0)));
  }
  for (int i = 0; i < 50; ++i) {
    const engine::JobRef job{absl::StrCat("q", i % 10), absl::StrCat("job-", 400 + i)};
    const engine::RequestKey request{"", absl::StrCat("request-", i), 1};
    calls.push_back(broker_.Submit(engine::CancelCommand{job, request}));
    calls.push_back(broker_.Submit(engine::UpdateJobCommand{job, 9, 60'000, {}, {}, {}, request}));
    calls.push_back(broker_.Submit(engine::WaitJobCommand{job, 0}));
    calls.push_back(broker_.Submit(engine::EnqueueCommand{
        absl::StrCat("q", i % 10), {named.at(static_cast<size_t>(i))}, request}));
    calls.push_back(broker_.Submit(engine::QueueStatsCommand{absl::StrCat("q", i % 10)}));
    calls.push_back(broker_.Submit(engine::DeleteJobCommand{job, true, {}}));
  }
  broker_.Settle();
  ASSERT_EQ(calls.size(), 1000u);
  for (const auto& call : calls) EXPECT_TRUE(call->outcome.has_value());
  EXPECT_GE(broker_.most_rounds(), 2u);  // and at most 4: see TearDown
}

TEST_F(LoopRoundsTest, ManyJobsInFrontThatHaveExpired) {
  auto expiring = BrokerHarness::Job();
  expiring.expire_after_ms = 10'000;
  broker_.EnqueueMany("q", Jobs(1000, expiring));
  broker_.EnqueueMany("q", Jobs(1000, expiring));
  broker_.Enqueue("q", BrokerHarness::Job("lives"));
  broker_.Freeze(10'000);
  const auto leases = broker_.Lease("q");
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].job.record.payload(), "lives");
  EXPECT_EQ(broker_.Stats("q").counters.cancelled(), 2000);
}

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
