// Field cases S38 to S44: delayed jobs and priorities; and of S13 to S15, clocks, what concerns
// jobs.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

class DelayedCases : public CaseTest {
 protected:
  static engine::NewJob Delayed(int64_t ms, const std::string& payload = "") {
    auto job = BrokerHarness::Job(payload);
    job.delay_ms = ms;
    return job;
  }
};

TEST_F(DelayedCases, S38_BrokerRestartBetweenEnqueueAndDueTime) {
  broker_.Enqueue("q", Delayed(60'000));
  broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  broker_.Advance(20'000);
  broker_.Crash(5'000);
  const auto poll = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  broker_.Advance(34'999);
  EXPECT_FALSE(poll->outcome.has_value());
  broker_.Advance(1);
  EXPECT_EQ(LeasesOf(poll).size(), 1u);
}

TEST_F(DelayedCases, S38_RestartAfterAReboot) {
  // Without the boot clock the wall clock says how long the broker was down.
  broker_.Enqueue("q", Delayed(60'000));
  broker_.Advance(20'000);
  broker_.clock().boot_id = "boot-2";
  broker_.clock().boot_ms = 5'000;
  broker_.clock().wall_ms += 30'000;
  broker_.Crash();
  broker_.Advance(9'999);
  EXPECT_TRUE(broker_.Lease("q").empty());
  broker_.Advance(1);
  EXPECT_EQ(broker_.Lease("q").size(), 1u);
}

TEST_F(DelayedCases, S39_ManyPollersOneDueMoment) {
  broker_.EnqueueMany("q", Jobs(1'000, Delayed(10'000)));
  std::vector<std::shared_ptr<PendingCall>> polls;
  std::map<std::string, int> handed_out;
  for (int i = 0; i < 8; ++i) {
    polls.push_back(broker_.Start(BrokerHarness::LeaseCall("q", 60'000)));
  }
  broker_.Advance(10'000);
  for (size_t i = 0; i < polls.size(); ++i) {
    for (auto leases = LeasesOf(polls[i]); !leases.empty(); leases = LeasesOf(polls[i])) {
      ++handed_out[leases.at(0).job.job_id];
      EXPECT_EQ(AttemptOf(leases.at(0)), 1);
      polls[i] = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
    }
  }
  EXPECT_EQ(handed_out.size(), 1'000u);
  for (const auto& [id, times] : handed_out) EXPECT_EQ(times, 1) << id;
}

TEST_F(DelayedCases, S40_DelayedAndRetriedJobsStayInTheirQueue) {
  const std::string a1 = broker_.Enqueue("A").jobs.at(0).job_id;
  const std::string b1 = broker_.Enqueue("B", Delayed(3'000)).jobs.at(0).job_id;
  broker_.Fail(broker_.Lease("A").at(0), 3'000);
  std::vector<std::string> seen_by_b;
  for (int second = 0; second < 10; ++second) {
    for (const auto& lease : broker_.Lease("B", 10, 60'000)) seen_by_b.push_back(lease.job.job_id);
    const auto a = broker_.Stats("A").counters;
    const auto b = broker_.Stats("B").counters;
    EXPECT_EQ(a.delayed(), second < 3 ? 1 : 0);
    EXPECT_EQ(a.ready(), second < 3 ? 0 : 1);
    EXPECT_EQ(b.delayed(), second < 3 ? 1 : 0);
    EXPECT_EQ(b.leased(), second < 3 ? 0 : 1);
    broker_.Advance(1'000);
  }
  EXPECT_EQ(seen_by_b, std::vector<std::string>{b1});
  EXPECT_EQ(broker_.Lease("A").at(0).job.job_id, a1);
}

TEST_F(DelayedCases, S41_NothingEverRunsEarly) {
  // All 10,000 jobs over 60 days, half of them due at a wall time; crashes, pauses, priority
  // changes and later due times in between. (A store in memory has no compaction.)
  std::mt19937_64 random(41);
  std::map<std::string, int64_t> due_ms;  // by the clock that counts for the job
  std::map<std::string, bool> on_wall;
  std::vector<std::string> ids;
  for (int batch = 0; batch < 100; ++batch) {
    std::vector<engine::NewJob> jobs;
    std::vector<int64_t> due;
    for (int i = 0; i < 100; ++i) {
      const auto delay_ms = static_cast<int64_t>(random() % (60ULL * 86'400'000));
      jobs.push_back(BrokerHarness::Job());
      if (i % 2 == 0) {
        jobs.back().delay_ms = delay_ms;
        due.push_back(broker_.clock().boot_ms + delay_ms);
      } else {
        jobs.back().due_wall_ms = broker_.clock().wall_ms + delay_ms;
        due.push_back(broker_.clock().wall_ms + delay_ms);
      }
    }
    const auto reply = broker_.EnqueueMany("q", jobs);
    for (size_t i = 0; i < reply.jobs.size(); ++i) {
      ids.push_back(reply.jobs[i].job_id);
      due_ms[ids.back()] = due[i];
      on_wall[ids.back()] = i % 2 == 1;
    }
  }
  size_t leased = 0;
  bool paused = false;
  const int64_t end_ms = broker_.clock().boot_ms + 61 * engine::kDayMs;
  while (leased < ids.size()) {
    ASSERT_LT(broker_.clock().boot_ms, end_ms + engine::kDayMs);
    broker_.Freeze(static_cast<int64_t>(random() % (12 * 3'600'000)));
    broker_.Settle();
    switch (random() % 8) {
      case 0:
        broker_.Crash(static_cast<int64_t>(random() % 3'600'000));
        break;
      case 1:
        paused = broker_.clock().boot_ms < end_ms && !paused;
        Pause("q", paused);
        break;
      case 2: {
        const std::string& id = ids[random() % ids.size()];
        engine::UpdateJobCommand update;
        update.job = {"q", id};
        update.priority = static_cast<int32_t>(random() % 10);
        if (random() % 2 == 0) update.delay_ms = static_cast<int64_t>(random() % 86'400'000);
        const int64_t now_ms = broker_.clock().boot_ms;
        if (broker_.Call(update).status.ok() && update.delay_ms.has_value()) {
          due_ms[id] = now_ms + *update.delay_ms;
          on_wall[id] = false;
        }
        break;
      }
      default:
        break;
    }
    for (auto leases = broker_.Lease("q", 1'000); !leases.empty();
         leases = broker_.Lease("q", 1'000)) {
      engine::SettleCommand settle;
      for (const auto& lease : leases) {
        const std::string& id = lease.job.job_id;
        const int64_t now_ms = on_wall.at(id) ? broker_.clock().wall_ms : broker_.clock().boot_ms;
        EXPECT_GE(now_ms, due_ms.at(id)) << id;
        settle.items.push_back(BrokerHarness::Completion(lease));
      }
      leased += leases.size();
      broker_.Call(settle);
    }
  }
  EXPECT_EQ(leased, 10'000u);
}

TEST_F(DelayedCases, S13_ClockSteppedBackByTwoMinutes) {
  // Its cron comes with schedules.
  broker_.Enqueue("q", Delayed(10'000));
  broker_.Advance(2'000);
  broker_.StepWall(-120'000);
  broker_.Advance(7'999);
  EXPECT_TRUE(broker_.Lease("q").empty());
  EXPECT_LE(broker_.loop().WaitMs(), 1);
  broker_.Advance(1);
  EXPECT_EQ(broker_.Lease("q").size(), 1u);
}

TEST_F(DelayedCases, S14_ClockSteppedBackByAnHourWhileAWorkerIsDead) {
  broker_.Enqueue("q");
  broker_.Lease("q", 1, 5'000);
  broker_.Advance(2'000);
  broker_.StepWall(-3'600'000);
  broker_.Advance(2'999);
  EXPECT_TRUE(broker_.Lease("q").empty());
  broker_.Advance(1);
  EXPECT_EQ(broker_.Lease("q").size(), 1u);
}

TEST_F(DelayedCases, S15_ClientClockSevenMinutesAhead) {
  // A delay travels as a duration, so the client's clock cannot matter. An absolute time is taken
  // as sent, and judged by the broker's clock.
  broker_.Enqueue("q", Delayed(3'000));
  auto absolute = BrokerHarness::Job("absolute");
  absolute.due_wall_ms = broker_.clock().wall_ms + 7 * kMinuteMs + 3'000;
  const std::string id = broker_.Enqueue("q", absolute).jobs.at(0).job_id;
  auto past = BrokerHarness::Job("past");
  past.due_wall_ms = broker_.clock().wall_ms - 7 * kMinuteMs;
  broker_.Enqueue("q", past);
  EXPECT_EQ(broker_.Lease("q", 10, engine::kHourMs).at(0).job.record.payload(), "past");
  EXPECT_EQ(broker_.Get("q", id).state.due_wall_ms(), *absolute.due_wall_ms);
  broker_.Advance(3'000);
  EXPECT_EQ(broker_.Lease("q", 10, engine::kHourMs).size(), 1u);
  broker_.Advance(7 * kMinuteMs - 1, 1'000);
  EXPECT_TRUE(broker_.Lease("q", 10, engine::kHourMs).empty());
  broker_.Advance(1);
  EXPECT_EQ(broker_.Lease("q", 10, engine::kHourMs).size(), 1u);
}

TEST_F(DelayedCases, AWallClockThatStepsBackHoldsAbsoluteTimesAndNotDelays) {
  auto absolute = BrokerHarness::Job("absolute");
  absolute.due_wall_ms = broker_.clock().wall_ms + 60'000;
  broker_.Enqueue("q", absolute);
  broker_.Enqueue("q", Delayed(60'000, "relative"));
  broker_.Advance(30'000);
  broker_.StepWall(-3'600'000);
  broker_.Advance(30'000);
  const auto leases = broker_.Lease("q", 2);
  ASSERT_EQ(leases.size(), 1u);
  EXPECT_EQ(leases[0].job.record.payload(), "relative");
  broker_.StepWall(3'600'000);
  EXPECT_EQ(broker_.Lease("q", 2).size(), 1u);
}

// --- Priorities -------------------------------------------------------------------------------

class PriorityCases : public CaseTest {
 protected:
  static engine::NewJob WithPriority(int priority, const std::string& payload) {
    auto job = BrokerHarness::Job(payload);
    job.record.set_priority(priority);
    return job;
  }
  std::string Next() {
    const auto leases = broker_.Lease("q");
    return leases.empty() ? "" : leases[0].job.record.payload();
  }
};

TEST_F(PriorityCases, S42_PrioritySurvivesRetryAndReclaim) {
  broker_.Enqueue("q", WithPriority(9, "H"));
  broker_.Enqueue("q", WithPriority(9, "H2"));
  const auto h = broker_.Lease("q").at(0);
  broker_.Lease("q", 1, 5'000);  // H2, by a worker that dies
  broker_.EnqueueMany("q", Jobs(1'000, WithPriority(1, "low")));
  EXPECT_EQ(Next(), "low");
  broker_.Fail(h, 0);
  EXPECT_EQ(Next(), "H");
  EXPECT_EQ(Next(), "low");
  broker_.Advance(5'000);
  EXPECT_EQ(Next(), "H2");
  EXPECT_EQ(Next(), "low");
}

TEST_F(PriorityCases, S43_ChangedPrioritySurvivesARestart) {
  const std::string one = broker_.Enqueue("q", WithPriority(9, "job1")).jobs.at(0).job_id;
  broker_.Enqueue("q", WithPriority(5, "job2"));
  const auto lease = broker_.Lease("q").at(0);
  EXPECT_EQ(lease.job.job_id, one);
  EXPECT_TRUE(broker_.Release(lease).status.ok());
  engine::UpdateJobCommand update;
  update.job = {"q", one};
  update.priority = 1;
  EXPECT_EQ(Ask<engine::JobReply>(update).job.state.priority(), 1);
  broker_.Crash();
  EXPECT_EQ(Next(), "job2");
  EXPECT_EQ(Next(), "job1");
}

TEST_F(PriorityCases, S44_DefaultExtremeAndEqualPriorities) {
  // Out of 0 to 9 is refused at the edge. Unset is 5; ties are first in, first out.
  broker_.Enqueue("q", BrokerHarness::Job("unset 1"));
  broker_.Enqueue("q", WithPriority(0, "0"));
  broker_.Enqueue("q", WithPriority(9, "9"));
  broker_.Enqueue("q", WithPriority(5, "5"));
  broker_.Enqueue("q", BrokerHarness::Job("unset 2"));
  for (const char* expected : {"9", "unset 1", "5", "unset 2", "0", ""}) {
    EXPECT_EQ(Next(), expected);
  }
}

TEST_F(PriorityCases, OrderIsPriorityThenReadyTimeThenSequence) {
  auto later = WithPriority(5, "ready later");
  later.delay_ms = 1'000;
  broker_.Enqueue("q", later);
  broker_.Enqueue("q", WithPriority(5, "first"));
  broker_.Enqueue("q", WithPriority(5, "second"));
  broker_.Enqueue("q", WithPriority(6, "higher"));
  broker_.Advance(1'000);
  for (const char* expected : {"higher", "first", "second", "ready later"}) {
    EXPECT_EQ(Next(), expected);
  }
}

TEST_F(PriorityCases, ALapseOrAReleaseKeepsThePlaceAndAFailureTakesANewOne) {
  broker_.Enqueue("q", BrokerHarness::Job("lapses"));
  broker_.Enqueue("q", BrokerHarness::Job("released"));
  broker_.Enqueue("q", BrokerHarness::Job("fails"));
  broker_.Enqueue("q", BrokerHarness::Job("waits"));
  broker_.Lease("q", 1, 5'000);
  const auto released = broker_.Lease("q", 1, 60'000).at(0);
  const auto failed = broker_.Lease("q", 1, 60'000).at(0);
  broker_.Advance(5'000);
  broker_.Release(released);
  broker_.Fail(failed, 0);
  for (const char* expected : {"lapses", "released", "waits", "fails"}) EXPECT_EQ(Next(), expected);
}

TEST_F(PriorityCases, WhatHasWaitedForAMinuteGetsEverySixteenthGrant) {
  broker_.EnqueueMany("q", Jobs(5, WithPriority(0, "low")));
  broker_.EnqueueMany("q", Jobs(5, WithPriority(3, "middle")));
  broker_.Advance(60'000);
  broker_.EnqueueMany("q", Jobs(200, WithPriority(9, "high")));
  for (int i = 0; i < 48; ++i) EXPECT_EQ(Next(), "high");  // not over a minute yet
  broker_.Advance(1);
  std::vector<std::string> others;
  for (int grant = 1; grant <= 96; ++grant) {
    const std::string next = Next();
    if (next != "high") {
      EXPECT_EQ(grant % 16, 0);
      others.push_back(next);
    }
  }
  // The oldest first, whatever its priority.
  EXPECT_EQ(others, (std::vector<std::string>{"low", "low", "low", "low", "low", "middle"}));
}

TEST_F(PriorityCases, TheTurnOfTheStarvedComesAlsoWithinOneCall) {
  broker_.EnqueueMany("q", Jobs(5, WithPriority(0, "low")));
  broker_.Advance(60'001);
  broker_.EnqueueMany("q", Jobs(200, WithPriority(9, "high")));
  broker_.Crash();  // and from the store
  const auto leases = broker_.Lease("q", 40);
  ASSERT_EQ(leases.size(), 40u);
  for (size_t i = 0; i < leases.size(); ++i) {
    EXPECT_EQ(leases[i].job.record.payload(), i % 16 == 15 ? "low" : "high") << i;
  }
}

}  // namespace
}  // namespace stint::testing
