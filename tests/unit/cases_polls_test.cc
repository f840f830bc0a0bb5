// Field cases S82 to S85: waiting calls.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

class PollCases : public CaseTest {
 protected:
  std::shared_ptr<PendingCall> Poll(int64_t wait_ms, const std::string& worker = "w1") {
    return broker_.Start(BrokerHarness::LeaseCall("q", wait_ms, worker));
  }
};

TEST_F(PollCases, S82_SeveralPollsWaitingOnOneQueue) {
  const auto first = Poll(3'000);
  broker_.Advance(500);
  const auto second = Poll(3'000);
  broker_.Advance(500);
  const auto third = Poll(3'000);
  broker_.Advance(1'000);
  broker_.Enqueue("q");
  EXPECT_EQ(LeasesOf(first).size(), 1u);
  EXPECT_FALSE(second->outcome.has_value());
  EXPECT_FALSE(third->outcome.has_value());
  broker_.Advance(1'499);
  EXPECT_FALSE(second->outcome.has_value());
  broker_.Advance(1);
  EXPECT_TRUE(second->outcome.has_value());
  EXPECT_TRUE(LeasesOf(second).empty());
  broker_.Advance(499);
  EXPECT_FALSE(third->outcome.has_value());
  broker_.Advance(1);
  EXPECT_TRUE(third->outcome.has_value());
  EXPECT_TRUE(LeasesOf(third).empty());
}

TEST_F(PollCases, S83_JobArrivesWhileThePollIsGoingToSleep) {
  // All 20,000 rounds. What can differ between two calls at the same instant is in which order
  // they come in, and whether the broker has stepped, or synced, between them.
  std::mt19937 random(83);
  for (int round = 0; round < 20'000; ++round) {
    broker_.set_late_syncs(random() % 2 == 0);
    std::shared_ptr<PendingCall> poll;
    const bool poll_first = random() % 2 == 0;
    if (poll_first) poll = broker_.Submit(BrokerHarness::LeaseCall("q", 20'000));
    for (auto steps = random() % 3; steps > 0; --steps) broker_.loop().Step();
    if (random() % 2 == 0) broker_.executor().RunOne();
    broker_.Submit(engine::EnqueueCommand{"q", {BrokerHarness::Job()}, {}});
    for (auto steps = random() % 3; steps > 0; --steps) broker_.loop().Step();
    if (!poll_first) poll = broker_.Submit(BrokerHarness::LeaseCall("q", 20'000));
    broker_.Settle();
    const auto leases = LeasesOf(poll);
    ASSERT_EQ(leases.size(), 1u) << "round " << round;
    broker_.Call(engine::DeleteJobCommand{BrokerHarness::Ref(leases[0]), true, {}});
  }
}

TEST_F(PollCases, S83_WhateverMakesAJobReady) {
  // Freed concurrency slots and refilled rate limits come with limits.
  auto job = BrokerHarness::Job();
  job.record.set_loss_backoff_ms(0);
  job.record.set_max_losses(100);
  const auto take = [this] { return broker_.Lease("q", 1, 10'000).at(0); };
  GrantedLease lease;
  const std::vector<std::pair<std::string, std::function<void()>>> ways = {
      {"due time", [&] { broker_.Fail(take(), 5'000); }},
      {"release", [&] { broker_.Release(take()); }},
      {"failure without a wait", [&] { broker_.Fail(take(), 0); }},
      {"lapse", [&] { take(); }},
      {"redrive",
       [&] {
         lease = take();
         broker_.Fail(lease, {}, true);
         broker_.Call(engine::RedriveCommand{BrokerHarness::Ref(lease), {}});
       }},
      {"update",
       [&] {
         lease = take();
         broker_.Fail(lease, 3'600'000);
         engine::UpdateJobCommand update;
         update.job = BrokerHarness::Ref(lease);
         update.delay_ms = 0;
         broker_.Call(update);
       }},
  };
  broker_.Enqueue("q", job);
  for (const auto& [name, way] : ways) {
    // The poll begins while the job is leased, before it is given back.
    std::shared_ptr<PendingCall> poll;
    if (name == "due time" || name == "lapse") {
      way();
      poll = Poll(60'000);
    } else {
      Pause("q");
      poll = Poll(60'000);
      Pause("q", false);  // it takes the job at once
      ASSERT_EQ(LeasesOf(poll).size(), 1u);
      broker_.Release(LeasesOf(poll).at(0));
      way();
      poll = Poll(60'000);
    }
    broker_.Advance(10'000);
    ASSERT_EQ(LeasesOf(poll).size(), 1u) << name;
    broker_.Release(LeasesOf(poll).at(0));
  }
}

TEST_F(PollCases, S83_AWaitingPollIsServedInTheSameInstant) {
  auto job = BrokerHarness::Job();
  job.record.set_loss_backoff_ms(0);
  broker_.Enqueue("q", job);
  const auto held = broker_.Lease("q", 1, 10'000).at(0);
  auto poll = Poll(60'000);
  broker_.Release(held);
  EXPECT_EQ(LeasesOf(poll).size(), 1u);
  const auto failing = LeasesOf(poll).at(0);
  poll = Poll(60'000);
  broker_.Fail(failing, 0);
  EXPECT_EQ(LeasesOf(poll).size(), 1u);
  const auto dead = LeasesOf(poll).at(0);
  broker_.Fail(dead, {}, true);
  poll = Poll(60'000);
  broker_.Call(engine::RedriveCommand{BrokerHarness::Ref(dead), {}});
  EXPECT_EQ(LeasesOf(poll).size(), 1u);
  poll = Poll(60'000);
  broker_.Advance(14'999);
  EXPECT_FALSE(poll->outcome.has_value());
  broker_.Advance(1);  // the lease of 15 s that nobody renewed
  EXPECT_EQ(LeasesOf(poll).size(), 1u);
}

TEST_F(PollCases, S84_WakeUpsStopWorking) {
  std::vector<std::shared_ptr<PendingCall>> polls;
  for (int i = 0; i < 3; ++i) polls.push_back(Poll(30'000));
  broker_.Advance(10'000);
  for (size_t i = 0; i < 3; ++i) {
    // The job is there, and the word that it is has been thrown away.
    engine::Engine& engine = broker_.loop().engine();
    engine.BeginPass();
    const engine::Now now{broker_.clock().boot_ms + 1'759'999'000'000, broker_.clock().wall_ms, 1};
    engine.Apply(engine::EnqueueCommand{"q", {BrokerHarness::Job()}, {}}, now);
    EXPECT_EQ(engine.TakeWoken().size(), 1u);
    EXPECT_FALSE(polls[i]->outcome.has_value());
    broker_.Advance(2'000);
    EXPECT_EQ(LeasesOf(polls[i]).size(), 1u);
  }
}

TEST_F(PollCases, S85_ClientClosesProperlyWhileHoldingJobs) {
  // Goodbye is a release of each lease; a stream's orderly end comes with streams.
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  const auto held = broker_.Lease("q", 3, 600'000, "A");
  auto second = BrokerHarness::LeaseCall("q", 60'000, "B");
  second.max_jobs = 3;
  const auto poll = broker_.Start(second);
  engine::SettleCommand goodbye;
  for (const auto& lease : held) {
    goodbye.items.push_back({BrokerHarness::Ref(lease),
                             lease.token,
                             engine::SettleKind::kRelease,
                             "",
                             "",
                             {},
                             false,
                             engine::ReleaseReason::kShutdown});
  }
  broker_.Call(goodbye);
  const auto leases = LeasesOf(poll);
  ASSERT_EQ(leases.size(), 3u);
  for (const auto& lease : leases) EXPECT_EQ(AttemptOf(lease), 1);
}

TEST_F(PollCases, WaitersAreServedInTheOrderTheyCame) {
  std::vector<std::shared_ptr<PendingCall>> polls;
  for (int i = 0; i < 100; ++i) polls.push_back(Poll(60'000));
  broker_.EnqueueMany("q", Jobs(40, BrokerHarness::Job()));
  for (size_t i = 0; i < 100; ++i) EXPECT_EQ(polls[i]->outcome.has_value(), i < 40) << i;
  broker_.EnqueueMany("q", Jobs(60, BrokerHarness::Job()));
  for (const auto& poll : polls) EXPECT_EQ(LeasesOf(poll).size(), 1u);
}

TEST_F(PollCases, ARepeatEndsTheSendingThatStillWaits) {
  // Whoever asked has given the first sending up, which the broker may not know yet. A job that
  // went to it would belong to nobody until its lease lapses.
  engine::LeaseCommand ask = BrokerHarness::LeaseCall("q", 20'000, "w1");
  ask.request_id = "r1";
  const auto first = broker_.Start(ask);
  const auto other = broker_.Start([&] {
    engine::LeaseCommand call = ask;
    call.worker = "w2";
    return call;
  }());
  ask.wait_ms = 0;
  const auto repeat = broker_.Start(ask);
  ASSERT_TRUE(first->outcome.has_value());
  EXPECT_TRUE(LeasesOf(first).empty());
  EXPECT_TRUE(LeasesOf(repeat).empty());
  EXPECT_FALSE(other->outcome.has_value());  // the same id of another worker is another call
  broker_.Enqueue("q");
  EXPECT_EQ(LeasesOf(other).size(), 1u);
}

TEST_F(PollCases, TheNewestSendingIsTheOneThatIsServed) {
  engine::LeaseCommand ask = BrokerHarness::LeaseCall("q", 20'000, "w1");
  ask.request_id = "r1";
  const auto first = broker_.Start(ask);
  broker_.Advance(5'000);
  const auto second = broker_.Start(ask);
  EXPECT_TRUE(first->outcome.has_value());
  broker_.Advance(16'000);  // the first one's wait would be over
  EXPECT_FALSE(second->outcome.has_value());
  const auto third = broker_.Start(ask);
  EXPECT_TRUE(LeasesOf(second).empty());
  broker_.Enqueue("q");
  EXPECT_EQ(LeasesOf(third).size(), 1u);
}

TEST_F(PollCases, AResumeServesALongLineOfWaiters) {
  Pause("q");
  broker_.EnqueueMany("q", Jobs(1'000, BrokerHarness::Job()));
  broker_.EnqueueMany("q", Jobs(1'000, BrokerHarness::Job()));
  broker_.Crash();
  std::vector<std::shared_ptr<PendingCall>> polls;
  for (int i = 0; i < 3'000; ++i) polls.push_back(Poll(60'000));
  Pause("q", false);
  for (size_t i = 0; i < 3'000; ++i) EXPECT_EQ(polls[i]->outcome.has_value(), i < 2'000) << i;
}

}  // namespace
}  // namespace stint::testing
