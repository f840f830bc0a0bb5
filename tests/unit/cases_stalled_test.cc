// Field cases S16 to S29: stalled jobs, lapses, late settles. The halves that concern the client
// library are in the client tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "storage/row_view.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

using engine::AttemptOutcome;

class StalledCases : public CaseTest {
 protected:
  // A job with one budget for losses and no wait between them.
  static engine::NewJob WithLosses(int max_losses) {
    auto job = BrokerHarness::Job();
    job.record.set_max_losses(max_losses);
    job.record.set_loss_backoff_ms(0);
    return job;
  }
};

TEST_F(StalledCases, S16_WorkerKilledInTheMiddleOfAJob) {
  const std::string id = broker_.Enqueue("q", WithLosses(3)).jobs.at(0).job_id;
  const auto a = broker_.Lease("q", 1, 10'000, "A").at(0);
  broker_.Advance(3'000);
  EXPECT_EQ(broker_.Heartbeat(a), LeaseStatus::kRenewed);
  const auto b = broker_.Start(BrokerHarness::LeaseCall("q", 60'000, "B"));
  broker_.Advance(9'750);  // A was killed 1 s after its last heartbeat
  EXPECT_FALSE(b->outcome.has_value());
  broker_.Advance(500);
  const auto lease = LeasesOf(b).at(0);
  EXPECT_EQ(lease.job.job_id, id);
  EXPECT_EQ(AttemptOf(lease), 2);
  ASSERT_EQ(lease.job.state.attempts_size(), 1);
  EXPECT_EQ(lease.job.state.attempts(0).attempt(), 1);
  EXPECT_EQ(lease.job.state.attempts(0).worker(), "A");
  EXPECT_EQ(lease.job.state.attempts(0).outcome(),
            static_cast<int32_t>(AttemptOutcome::kLeaseLapsed));
}

TEST_F(StalledCases, S17_RecoveryMustNotDependOnAJob) {
  broker_.EnqueueMany("q", Jobs(5, BrokerHarness::Job()));
  EXPECT_EQ(broker_.Lease("q", 5, 10'000).size(), 5u);
  broker_.Advance(11'000);  // nobody is connected, nobody calls
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 5);
  EXPECT_EQ(broker_.Lease("q").size(), 1u);  // the first poll of the worker that came back
}

TEST_F(StalledCases, S18_ExpiredLeaseOnAJobWhoseNextDueTimeLiesAhead) {
  broker_.Enqueue("arrived");
  broker_.Enqueue("lost");
  const auto arrived = broker_.Lease("arrived", 1, 10'000).at(0);
  broker_.Lease("lost", 1, 10'000);
  EXPECT_TRUE(broker_.Release(arrived, 60'000).status.ok());
  broker_.Advance(9'750);
  EXPECT_TRUE(broker_.Lease("lost").empty());
  broker_.Advance(250);
  EXPECT_EQ(broker_.Lease("lost", 1, 3'600'000).size(), 1u);
  broker_.Advance(49'750);
  EXPECT_TRUE(broker_.Lease("arrived").empty());
  broker_.Advance(250);
  EXPECT_EQ(broker_.Lease("arrived").size(), 1u);
}

TEST_F(StalledCases, S19_PollTimeoutAndLeaseTimerOnOneConnection) {
  broker_.Enqueue("q");
  auto poll = BrokerHarness::LeaseCall("q", 5'000, "first");
  poll.lease_ms = 10'000;
  EXPECT_EQ(Ask<engine::LeaseReply>(poll).leases.size(), 1u);
  broker_.Advance(8'000);
  const auto second = broker_.Start(BrokerHarness::LeaseCall("q", 20'000, "second"));
  broker_.Advance(1'750);
  EXPECT_FALSE(second->outcome.has_value());
  broker_.Advance(500);
  EXPECT_EQ(LeasesOf(second).size(), 1u);
}

TEST_F(StalledCases, S20_ExpiredAttemptIsNotHandedOutBesideItsRetry) {
  broker_.EnqueueMany("q", Jobs(100, WithLosses(3)));
  EXPECT_EQ(broker_.Lease("q", 100, 5'000, "dead").size(), 100u);
  std::map<std::string, int> handed_out;
  for (int step = 0; step < 30; ++step) {
    broker_.Advance(1'000);
    for (int worker = 0; worker < 10; ++worker) {
      for (const auto& lease : broker_.Lease("q", 20, 3'600'000, absl::StrCat("w", worker))) {
        ++handed_out[lease.job.job_id];
        EXPECT_EQ(AttemptOf(lease), 2);
      }
    }
    // One entry for each job, wherever it is.
    const auto counters = broker_.Stats("q").counters;
    EXPECT_EQ(counters.ready() + counters.leased(), 100);
  }
  EXPECT_EQ(handed_out.size(), 100u);
  for (const auto& [id, times] : handed_out) EXPECT_EQ(times, 1) << id;
}

TEST_F(StalledCases, S22_WorkerWakesUpAfterItsLeaseHasGone) {
  broker_.Enqueue("q");
  const auto a = broker_.Lease("q", 1, 10'000, "A").at(0);
  broker_.Advance(10'000);
  const auto b = broker_.Lease("q", 1, 10'000, "B").at(0);
  for (int t = 10; t < 22; t += 3) {
    broker_.Advance(3'000);
    EXPECT_EQ(broker_.Heartbeat(b), LeaseStatus::kRenewed);
  }
  EXPECT_EQ(broker_.Heartbeat(a), LeaseStatus::kLost);
  const auto refused = broker_.Complete(a);
  EXPECT_EQ(ReasonOf(refused.status), Reason::kLeaseLost);
  // The refusal says who holds it, and in which attempt.
  const auto details = engine::DetailsOf(refused.status)->metadata;
  EXPECT_TRUE(std::find(details.begin(), details.end(),
                        std::pair<std::string, std::string>("worker", "B")) != details.end());
  EXPECT_TRUE(std::find(details.begin(), details.end(),
                        std::pair<std::string, std::string>("attempt", "2")) != details.end());
  EXPECT_EQ(broker_.Heartbeat(b), LeaseStatus::kRenewed);
  EXPECT_TRUE(broker_.Complete(b).status.ok());
}

TEST_F(StalledCases, S23_NoFalseExpiryUnderLoad) {
  // All 50,000 jobs, on a clock that is moved: 2 workers with two places each, 1 s a job at
  // most, and 5,000 arrive in each minute.
  std::mt19937 random(23);
  std::vector<std::pair<int64_t, GrantedLease>> running;
  int enqueued = 0;
  int done = 0;
  for (int64_t ms = 0; ms < 600'000 || done < enqueued; ms += 1'200) {
    if (ms < 600'000) {
      broker_.EnqueueMany("q", Jobs(100, BrokerHarness::Job()));
      enqueued += 100;
    }
    // Everything that arrived in this step is worked off in it, four at a time.
    for (int round = 0; round < 25; ++round) {
      engine::SettleCommand settle;
      for (const auto& lease : broker_.Lease("q", 4)) {
        EXPECT_EQ(AttemptOf(lease), 1);
        settle.items.push_back(BrokerHarness::Completion(lease));
      }
      broker_.Advance(48, 48);
      done += static_cast<int>(settle.items.size());
      broker_.Call(settle);
    }
  }
  EXPECT_EQ(enqueued, 50'000);
  EXPECT_EQ(done, 50'000);
  const auto counters = broker_.Stats("q").counters;
  EXPECT_EQ(counters.completed(), 50'000);
  EXPECT_EQ(counters.leased() + counters.ready() + counters.delayed(), 0);
}

// An engine whose commands the test applies one by one, so that it can come between the moment
// at which a lapse is found and the one at which it is applied.
class EngineByHand {
 public:
  EngineByHand() { EXPECT_TRUE(engine_.Load(store_, Now()).ok()); }

  engine::Now Now() const { return {now_ms, now_ms, 1}; }
  engine::Outcome Apply(const engine::Command& command) {
    while (true) {
      engine_.BeginPass();
      engine::Result result = engine_.Apply(command, Now());
      if (result.verdict == engine::Verdict::kDone) return std::move(result.outcome);
      EXPECT_TRUE(rows_.Fetch(store_).ok());
    }
  }
  void Commit() {
    engine_.FinishGroup({{++group_, 0}, Now(), now_ms, "boot"});
    const auto ticket = store_.Commit(rows_.Seal({group_, 0}), store_.epoch());
    ASSERT_TRUE(ticket.ok());
    ASSERT_TRUE(store_.Sync(*ticket).ok());
    rows_.Forget(group_);
    rows_.BeginGroup();
  }
  engine::Engine& engine() { return engine_; }
  absl::Status Check() const { return engine_.CheckInvariants(store_); }

  int64_t now_ms = 1'000'000;

 private:
  storage::MemoryStore store_;
  storage::RowView rows_;
  engine::Engine engine_{{}, &rows_};
  uint64_t group_ = 0;
};

TEST(StalledCasesByHand, S24_ReaperActsOnAnOutdatedView) {
  EngineByHand broker;
  broker.Apply(engine::EnqueueCommand{"q", Jobs(100, BrokerHarness::Job()), {}});
  broker.Commit();
  engine::LeaseCommand lease = BrokerHarness::LeaseCall("q", 0);
  lease.max_jobs = 100;
  const auto leases = std::get<engine::LeaseReply>(broker.Apply(lease).body).leases;
  ASSERT_EQ(leases.size(), 100u);
  broker.Commit();
  broker.now_ms += 15'000;
  const std::vector<engine::Command> lapses = broker.engine().DueCommands(broker.Now(), 256, true);
  ASSERT_EQ(lapses.size(), 100u);

  // Between the finding and the changing: 15 are completed, 15 given back and leased anew, 20
  // cancelled (they are asked to stop) and given back by their workers.
  engine::SettleCommand settle;
  for (size_t i = 0; i < 50; ++i) {
    if (i >= 30) broker.Apply(engine::CancelCommand{BrokerHarness::Ref(leases[i]), {}});
    settle.items.push_back({BrokerHarness::Ref(leases[i]),
                            leases[i].token,
                            i < 15 ? engine::SettleKind::kComplete : engine::SettleKind::kRelease,
                            "",
                            "",
                            {},
                            false,
                            {}});
  }
  broker.Apply(settle);
  lease.max_jobs = 15;
  const auto anew = std::get<engine::LeaseReply>(broker.Apply(lease).body).leases;
  ASSERT_EQ(anew.size(), 15u);
  for (const engine::Command& lapse : lapses) broker.Apply(lapse);
  broker.Commit();

  const auto counters =
      std::get<engine::QueueStatsReply>(broker.Apply(engine::QueueStatsCommand{"q"}).body).counters;
  EXPECT_EQ(counters.completed(), 15);
  EXPECT_EQ(counters.leased(), 15);
  EXPECT_EQ(counters.cancelled(), 20);
  EXPECT_EQ(counters.ready(), 50);
  for (const auto& one : anew) {
    EXPECT_EQ(AttemptOf(one), 1);
    engine::HeartbeatCommand heartbeat{"w1", {{BrokerHarness::Ref(one), one.token}}};
    EXPECT_EQ(std::get<engine::HeartbeatReply>(broker.Apply(heartbeat).body).statuses.at(0),
              LeaseStatus::kRenewed);
  }
  const absl::Status checked = broker.Check();
  EXPECT_TRUE(checked.ok()) << checked;
}

TEST_F(StalledCases, S25_LateSettleWhileNobodyHasTakenTheJobYet) {
  std::mt19937 random(25);
  int accepted = 0;
  for (int round = 0; round < 200; ++round) {
    broker_.Enqueue("q");
    const auto a = broker_.Lease("q", 1, 10'000, "A").at(0);
    broker_.Advance(10'000);
    // B begins to poll at a moment around the one at which A settles.
    const auto b_first = random() % 2 == 0;
    std::shared_ptr<PendingCall> b;
    if (b_first) b = broker_.Submit(BrokerHarness::LeaseCall("q", 100, "B"));
    if (random() % 2 == 0) broker_.Settle();
    engine::SettleCommand settle{{BrokerHarness::Completion(a)}};
    const auto answer = broker_.Submit(settle);
    if (!b_first) b = broker_.Submit(BrokerHarness::LeaseCall("q", 100, "B"));
    broker_.Settle();
    broker_.Advance(200, 100);
    const auto& result = std::get<engine::SettleReply>(answer->outcome->body).results.at(0);
    const auto leases = LeasesOf(b);
    if (result.status.ok()) {
      ++accepted;
      EXPECT_TRUE(leases.empty());
      EXPECT_EQ(StateOf(broker_.Get("q", a.job.job_id)), JobState::kCompleted);
    } else {
      EXPECT_EQ(ReasonOf(result.status), Reason::kLeaseLost);
      ASSERT_EQ(leases.size(), 1u);
      EXPECT_TRUE(broker_.Complete(leases[0]).status.ok());
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, 200);
  EXPECT_EQ(broker_.Stats("q").counters.completed(), 200);
}

TEST_F(StalledCases, S26_JobRemovedWhileItIsRunning) {
  for (const bool purge : {false, true}) {
    const std::string queue = purge ? "purged" : "deleted";
    broker_.Enqueue(queue);
    const auto lease = broker_.Lease(queue).at(0);
    if (purge) {
      broker_.Call(engine::PurgeQueueCommand{queue, true, {}});
    } else {
      broker_.Call(engine::DeleteJobCommand{BrokerHarness::Ref(lease), true, {}});
    }
    EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kLost);
    EXPECT_EQ(ReasonOf(broker_.Complete(lease).status), Reason::kJobNotFound);
    const auto counters = broker_.Stats(queue).counters;
    EXPECT_EQ(counters.leased() + counters.completed() + counters.ready(), 0);
    EXPECT_EQ(counters.leased_bytes(), 0);
    broker_.Advance(20'000);  // its lease runs out, and that concerns nobody
    EXPECT_EQ(broker_.Stats(queue).counters.ready(), 0);
  }
}

TEST_F(StalledCases, S27_HandlerThatSendsNoHeartbeats) {
  // Run A: the lease is lost once, the first settle is refused, nothing else happens.
  broker_.Enqueue("q");
  const auto first = broker_.Lease("q", 1, 10'000, "A").at(0);
  broker_.Advance(10'000);
  const auto second = broker_.Lease("q", 1, 10'000, "B").at(0);
  EXPECT_EQ(AttemptOf(second), 2);
  broker_.Advance(9'000);
  EXPECT_EQ(ReasonOf(broker_.Complete(first).status), Reason::kLeaseLost);
  EXPECT_TRUE(broker_.Complete(second).status.ok());
  // Run B: a lease as long as the silence.
  broker_.Enqueue("q");
  const auto lasting = broker_.Lease("q", 1, 60'000, "A").at(0);
  broker_.Advance(25'000);
  EXPECT_TRUE(broker_.Lease("q").empty());
  EXPECT_TRUE(broker_.Complete(lasting).status.ok());
  EXPECT_EQ(AttemptOf(lasting), 1);
}

}  // namespace
}  // namespace stint::testing
