// Field cases S74 to S81: restarts, full disks, state that disagrees. The real process and the
// real disk are in the end-to-end and storage tests.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "storage/records.h"
#include "storage/tables.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

class RestartCases : public CaseTest {};

TEST_F(RestartCases, S74_SettledAfterAReassignmentThenRestart) {
  for (int round = 0; round < 200; ++round) {
    broker_.Enqueue("q");
    broker_.Lease("q", 1, 1'000, "A");
    broker_.Advance(1'000);
    const auto b = broker_.Lease("q", 1, 1'000, "B").at(0);
    EXPECT_EQ(AttemptOf(b), 2);
    ASSERT_TRUE(broker_.Complete(b).status.ok());
    broker_.Crash();
    EXPECT_TRUE(broker_.Lease("q").empty());
  }
  broker_.Advance(60'000);
  EXPECT_TRUE(broker_.Lease("q").empty());
  EXPECT_EQ(broker_.Stats("q").counters.completed(), 200);
}

TEST_F(RestartCases, S75_AttemptNumbersAfterARestart) {
  auto job = BrokerHarness::Job();
  job.record.set_loss_backoff_ms(0);
  job.record.set_max_losses(10);
  broker_.EnqueueMany("third", Jobs(10, job));
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_EQ(broker_.Lease("third", 10, 1'000).size(), 10u);
    broker_.Advance(1'000);
  }
  broker_.EnqueueMany("second", Jobs(10, job));
  for (const auto& lease : broker_.Lease("second", 10)) broker_.Fail(lease, 0);
  const auto held = broker_.Lease("second", 10);
  broker_.EnqueueMany("first", Jobs(10, job));
  broker_.Crash(2'000);
  for (const auto& lease : broker_.Lease("first", 10)) EXPECT_EQ(AttemptOf(lease), 1);
  EXPECT_TRUE(broker_.Lease("second", 10).empty());
  for (const auto& lease : held) {
    EXPECT_EQ(AttemptOf(lease), 2);
    EXPECT_TRUE(broker_.Complete(lease).status.ok());
  }
  const auto third = broker_.Lease("third", 10);
  EXPECT_EQ(third.size(), 10u);
  for (const auto& lease : third) EXPECT_EQ(AttemptOf(lease), 3);
}

TEST_F(RestartCases, S76_RecoveryDoesNotMoveDueTimes) {
  auto delayed = BrokerHarness::Job();
  delayed.delay_ms = 30 * kMinuteMs;
  auto absolute = BrokerHarness::Job();
  absolute.due_wall_ms = broker_.clock().wall_ms + 30 * kMinuteMs;
  auto expiring = BrokerHarness::Job();
  expiring.delay_ms = 60 * kMinuteMs;
  expiring.expire_after_ms = 40 * kMinuteMs;
  const std::string d = broker_.Enqueue("q", delayed).jobs.at(0).job_id;
  const std::string w = broker_.Enqueue("q", absolute).jobs.at(0).job_id;
  const std::string e = broker_.Enqueue("q", expiring).jobs.at(0).job_id;
  record::QueueSettings kept;
  kept.mutable_retention()->set_finished_age_ms(90 * kMinuteMs);
  Configure("kept", kept);
  const std::string done = broker_.Enqueue("kept").jobs.at(0).job_id;
  broker_.Complete(broker_.Lease("kept").at(0));
  const std::string f = broker_.Enqueue("r").jobs.at(0).job_id;
  broker_.Fail(broker_.Lease("r").at(0), 35 * kMinuteMs);
  const std::vector<engine::JobSnapshot> before = {broker_.Get("q", d), broker_.Get("q", w),
                                                   broker_.Get("q", e), broker_.Get("r", f),
                                                   broker_.Get("kept", done)};
  broker_.Crash(10 * kMinuteMs);
  for (int restart = 0; restart < 20; ++restart) {
    broker_.Advance(20'000, 1'000);
    broker_.Crash(10'000);
  }  // 20 minutes have passed
  const std::vector<engine::JobSnapshot> after = {broker_.Get("q", d), broker_.Get("q", w),
                                                  broker_.Get("q", e), broker_.Get("r", f),
                                                  broker_.Get("kept", done)};
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].state.SerializeAsString(), before[i].state.SerializeAsString()) << i;
  }
  broker_.Advance(10 * kMinuteMs - 1, 1'000);
  EXPECT_TRUE(broker_.Lease("q", 10).empty());
  broker_.Advance(1);
  EXPECT_EQ(broker_.Lease("q", 10, 3'600'000).size(), 2u);
  broker_.Advance(5 * kMinuteMs - 1, 1'000);
  EXPECT_TRUE(broker_.Lease("r").empty());
  broker_.Advance(1);
  EXPECT_EQ(broker_.Lease("r").size(), 1u);
  broker_.Advance(5 * kMinuteMs - 1, 1'000);
  EXPECT_EQ(StateOf(broker_.Get("q", e)), JobState::kDelayed);
  broker_.Advance(1);
  EXPECT_EQ(EndOf(broker_.Get("q", e)), EndReason::kExpired);
  broker_.Advance(50 * kMinuteMs - 1, 1'000);
  EXPECT_EQ(StateOf(broker_.Get("kept", done)), JobState::kCompleted);
  broker_.Advance(1);
  EXPECT_EQ(Refusal(engine::WaitJobCommand{{"kept", done}, 0}), Reason::kJobNotFound);
}

TEST_F(RestartCases, ATokenIsNeverIssuedTwice) {
  // Not even by a store that was copied, nor with the wall clock set back.
  std::set<int64_t> tokens;
  int64_t last = 0;
  for (int round = 0; round < 20; ++round) {
    broker_.EnqueueMany("q", Jobs(5, BrokerHarness::Job()));
    for (const auto& lease : broker_.Lease("q", 5)) {
      EXPECT_TRUE(tokens.insert(lease.token).second);
      EXPECT_GT(lease.token, last);
      last = lease.token;
      broker_.Complete(lease);
    }
    broker_.StepWall(round % 3 == 0 ? -86'400'000 : 3'600'000);
    broker_.Crash(10);
  }
  EXPECT_LT(last, int64_t{1} << 53);  // exact in JavaScript
}

class FullDiskCases : public CaseTest {};

TEST(FullDiskCasesByFault, S77_DiskBecomesCompletelyFull) {
  // Every commit and every sync fails now and then; no call answered OK may be lost.
  std::mt19937 random(77);
  bool full = false;
  storage::MemoryFaults faults;
  faults.before_commit = [&](const storage::Batch&) {
    return full && random() % 3 == 0 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  faults.before_sync = [&](storage::Ticket) {
    return full && random() % 3 == 0 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  faults.kept_at_recover = [&](size_t unsynced) { return random() % (unsynced + 1); };
  BrokerHarness broker({}, faults);
  std::set<std::string> accepted;
  std::set<std::string> completed;
  int unknown = 0;
  for (int minute = 0; minute < 100; ++minute) {
    full = minute % 10 != 9;
    if (full) broker.store().set_space({0, minute % 2 == 0});
    broker.Advance(1'000);
    for (int i = 0; i < 10; ++i) {
      const auto enqueue = broker.Start(
          engine::EnqueueCommand{"q", {BrokerHarness::Job(std::string(10'240, 'x'))}, {}});
      ASSERT_TRUE(enqueue->outcome.has_value());
      if (enqueue->outcome->status.ok()) {
        accepted.insert(std::get<engine::EnqueueReply>(enqueue->outcome->body).jobs.at(0).job_id);
      } else {
        unknown += ReasonOf(enqueue->outcome->status) == Reason::kStoreRecovering ? 1 : 0;
      }
    }
    const auto poll = broker.Start(BrokerHarness::LeaseCall("q", 0));
    if (poll->outcome->status.ok()) {
      for (const auto& lease : std::get<engine::LeaseReply>(poll->outcome->body).leases) {
        if (broker.Complete(lease).status.ok()) completed.insert(lease.job.job_id);
      }
    }
    // Reads work throughout.
    const auto stats = broker.Start(engine::QueueStatsCommand{"q"});
    ASSERT_TRUE(stats->outcome.has_value());
  }
  EXPECT_GT(unknown, 0);
  EXPECT_GT(completed.size(), 0u);
  full = false;
  broker.store().set_space({1'000'000, false});
  broker.Advance(1'000);
  EXPECT_TRUE(broker.fatal().ok());
  for (const std::string& id : accepted) {
    const auto job = broker.Get("q", id);
    EXPECT_NE(job.job_id, "");
    if (completed.count(id) == 1) {
      EXPECT_EQ(StateOf(job), JobState::kCompleted);
    }
  }
  broker.Enqueue("q");
  const absl::Status checked = broker.Check();
  EXPECT_TRUE(checked.ok()) << checked;
}

TEST_F(FullDiskCases, S78_PurgeGivesSpaceBack) {
  // The rows go; that their space comes back is a matter of the store.
  for (int i = 0; i < 20; ++i) {
    broker_.EnqueueMany("q", Jobs(50, BrokerHarness::Job(std::string(20'000, 'x'))));
  }
  broker_.store().set_space({0, true});
  broker_.Advance(1'000);
  EXPECT_TRUE(broker_.Call(engine::PurgeQueueCommand{"q", true, {}}).status.ok());
  EXPECT_EQ(RowsIn(storage::Family::kPayload), 0u);
  EXPECT_EQ(RowsIn(storage::Family::kJob), 0u);
  broker_.store().set_space({1'000'000, false});
  broker_.Advance(1'000);
  EXPECT_TRUE(
      broker_.Call(engine::EnqueueCommand{"other", {BrokerHarness::Job()}, {}}).status.ok());
}

// Puts a row back to what it was, behind the broker's back.
void PutRow(storage::MemoryStore* store, const std::string& key, const std::string& value) {
  storage::Batch batch;
  batch.Put(key, value);
  const auto ticket = store->Commit(batch, store->epoch());
  ASSERT_TRUE(ticket.ok());
  ASSERT_TRUE(store->Sync(*ticket).ok());
}

TEST(DisagreeingStateCases, S81_TwoPiecesOfStateThatDisagreeAfterAPowerCut) {
  const std::string group_key = storage::MetaKey(storage::kGroupRow);
  for (const bool leased : {false, true}) {
    BrokerHarness broker;
    broker.Enqueue("q");
    const std::string old_counter = *broker.store().MultiGet({group_key})->front();
    broker.EnqueueMany("q", Jobs(1'000, BrokerHarness::Job()));
    if (leased) {
      broker.Lease("q", 10);
    } else {
      for (const auto& lease : broker.Lease("q", 1'000)) broker.Complete(lease);
    }
    // The jobs are there and the counter of ids is older: new jobs would take their places.
    std::unique_ptr<storage::MemoryStore> store = broker.store().CrashCopy(0);
    PutRow(store.get(), group_key, old_counter);
    ManualClock clock;
    ManualExecutor executor;
    runtime::Loop loop(store.get(), &clock, &executor, {}, {});
    const absl::Status refused = loop.Start();
    EXPECT_EQ(refused.code(), absl::StatusCode::kDataLoss) << refused;
    EXPECT_NE(refused.message().find("CORRUPT_RECORD"), absl::string_view::npos);
  }
}

}  // namespace
}  // namespace stint::testing
