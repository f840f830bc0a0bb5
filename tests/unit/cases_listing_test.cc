// Field cases S92 and S94 to S96: figures, listing, actions by id. S93 is the model test. Page
// tokens are the edge's.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "storage/reader.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

class ListingCases : public CaseTest {
 protected:
  // All sequences, in pages of `limit`; `between` is called between two pages.
  template <typename Between>
  std::vector<std::string> ListAll(const std::string& queue, size_t limit, Between between) {
    std::vector<std::string> ids;
    uint64_t from = 0;
    do {
      const storage::Reader reader(&broker_.store());
      const auto found = reader.FindQueue(queue);
      EXPECT_TRUE(found.ok() && found->has_value());
      const auto page = reader.ListJobs(**found, from, limit, 10'000, false,
                                        [](const storage::StoredJob&) { return true; });
      EXPECT_TRUE(page.ok()) << page.status();
      for (const auto& job : page->jobs) ids.push_back(job.job_id);
      from = page->next_sequence;
      between();
    } while (from != 0);
    return ids;
  }
};

TEST_F(ListingCases, S92_GaugesAfterARestart) {
  auto delayed = BrokerHarness::Job();
  delayed.delay_ms = 3'600'000;
  auto brief = BrokerHarness::Job();
  brief.record.set_priority(9);
  broker_.EnqueueMany("q", Jobs(7, brief));
  for (const auto& lease : broker_.Lease("q", 7)) broker_.Fail(lease, {}, true);
  broker_.EnqueueMany("q", Jobs(5, brief));
  const auto held = broker_.Lease("q", 5);
  broker_.EnqueueMany("q", Jobs(100, BrokerHarness::Job()));
  broker_.EnqueueMany("q", Jobs(20, delayed));
  broker_.Crash();
  auto counters = broker_.Stats("q").counters;
  EXPECT_EQ(counters.ready(), 100);
  EXPECT_EQ(counters.delayed(), 20);
  EXPECT_EQ(counters.leased(), 5);
  EXPECT_EQ(counters.dead(), 7);
  for (const auto& lease : held) EXPECT_TRUE(broker_.Complete(lease).status.ok());
  for (int second = 0; second < 3'600; second += 60) {
    for (const auto& lease : broker_.Lease("q", 10)) broker_.Complete(lease);
    broker_.Advance(60'000, 1'000);
    counters = broker_.Stats("q").counters;
    for (const int64_t gauge :
         {counters.ready(), counters.delayed(), counters.leased(), counters.dead(),
          counters.waiting_bytes(), counters.leased_bytes()}) {
      EXPECT_GE(gauge, 0);
    }
  }
  for (const auto& lease : broker_.Lease("q", 100)) broker_.Complete(lease);
  counters = broker_.Stats("q").counters;
  EXPECT_EQ(counters.ready(), 0);
  EXPECT_EQ(counters.delayed(), 0);
  EXPECT_EQ(counters.leased(), 0);
  EXPECT_EQ(counters.dead(), 7);
  EXPECT_EQ(counters.waiting_bytes() + counters.leased_bytes(), 0);
  EXPECT_EQ(broker_.Stats("q").oldest_ready_age_ms, -1);
}

TEST_F(ListingCases, S94_ListingWhileJobsComeAndGo) {
  record::QueueSettings settings;
  settings.mutable_retention()->set_finished_age_ms(0);
  Configure("q", settings);
  std::set<std::string> there;
  for (const auto& job : broker_.EnqueueMany("q", Jobs(1'000, BrokerHarness::Job())).jobs) {
    there.insert(job.job_id);
  }
  int rounds = 0;
  const auto seen = ListAll("q", 50, [&] {
    if (++rounds > 10) return;
    // 30 at the front finish, 30 new ones arrive, some change their state and back, and the
    // broker starts anew.
    const auto finishing = broker_.Lease("q", 30);
    for (const auto& lease : finishing) {
      broker_.Complete(lease);
      there.erase(lease.job.job_id);
    }
    broker_.EnqueueMany("q", Jobs(30, BrokerHarness::Job()));
    for (const auto& lease : broker_.Lease("q", 20)) broker_.Release(lease);
    if (rounds % 3 == 0) broker_.Crash();
  });
  std::map<std::string, int> times;
  for (const std::string& id : seen) ++times[id];
  EXPECT_EQ(there.size(), 700u);
  for (const std::string& id : there) EXPECT_EQ(times[id], 1) << id;
  for (const auto& [id, count] : times) EXPECT_EQ(count, 1) << id;
}

TEST_F(ListingCases, S95_ReviveAllAndTheyDieAgain) {
  // Each by itself; in one call: job_batch_test.cc.
  auto job = BrokerHarness::Job();
  job.record.set_max_attempts(1);
  broker_.EnqueueMany("q", Jobs(51, job));
  std::vector<GrantedLease> dead = broker_.Lease("q", 100);
  for (const auto& lease : dead) {
    EXPECT_EQ(broker_.Fail(lease).end_reason, EndReason::kAttemptsExhausted);
  }
  std::map<std::string, int> runs;
  for (const auto& lease : dead) {
    EXPECT_TRUE(broker_.Call(engine::RedriveCommand{BrokerHarness::Ref(lease), {}}).status.ok());
    for (const auto& again : broker_.Lease("q", 100)) {
      ++runs[again.job.job_id];
      EXPECT_EQ(AttemptOf(again), 2);
      broker_.Fail(again);
    }
  }
  EXPECT_EQ(runs.size(), 51u);
  for (const auto& [id, count] : runs) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(broker_.Stats("q").counters.dead(), 51);
}

TEST_F(ListingCases, S96_ActionsGoById) {
  auto job = BrokerHarness::Job();
  job.record.set_max_attempts(1);
  broker_.EnqueueMany("q", Jobs(200, job));
  for (const auto& lease : broker_.Lease("q", 200)) broker_.Fail(lease);
  const auto shown = ListAll("q", 50, [] {});
  const std::string chosen = shown.at(75);
  const std::string removed = shown.at(76);
  // Meanwhile 30 others die or are revived.
  for (size_t i = 0; i < 15; ++i) {
    broker_.Call(engine::RedriveCommand{{"q", shown[i]}, {}});
  }
  broker_.EnqueueMany("q", Jobs(15, job));
  for (const auto& lease : broker_.Lease("q", 15)) broker_.Fail(lease);
  broker_.Call(engine::DeleteJobCommand{{"q", removed}, false, {}});
  const auto before = broker_.Stats("q").counters;
  EXPECT_TRUE(broker_.Call(engine::RedriveCommand{{"q", chosen}, {}}).status.ok());
  EXPECT_EQ(StateOf(broker_.Get("q", chosen)), JobState::kReady);
  EXPECT_EQ(Refusal(engine::RedriveCommand{{"q", removed}, {}}), Reason::kJobNotFound);
  const auto after = broker_.Stats("q").counters;
  EXPECT_EQ(after.dead(), before.dead() - 1);
  EXPECT_EQ(after.ready(), before.ready() + 1);
}

TEST_F(ListingCases, TheOldestReadyAgeIsExactAcrossPrioritiesAndRestarts) {
  EXPECT_EQ(Refusal(engine::QueueStatsCommand{"q"}), Reason::kQueueNotFound);
  auto low = BrokerHarness::Job();
  low.record.set_priority(0);
  broker_.Enqueue("q", low);
  broker_.Advance(7'000);
  broker_.Enqueue("q");
  broker_.Advance(3'000);
  EXPECT_EQ(broker_.Stats("q").oldest_ready_age_ms, 10'000);
  broker_.Crash(5'000);
  EXPECT_EQ(broker_.Stats("q").oldest_ready_age_ms, 15'000);
  broker_.Lease("q", 1);
  broker_.Lease("q", 1);
  EXPECT_EQ(broker_.Stats("q").oldest_ready_age_ms, -1);
}

}  // namespace
}  // namespace stint::testing
