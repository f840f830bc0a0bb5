// Field cases S59 to S63: what comes and goes leaves nothing behind, and a long backlog, or a
// long past, costs nothing. Times and sizes of the real process are in the end-to-end tests.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

class BacklogCases : public CaseTest {
 protected:
  void Finish(const std::vector<GrantedLease>& leases, const std::string& result = "") {
    engine::SettleCommand settle;
    for (const auto& lease : leases) {
      settle.items.push_back(BrokerHarness::Completion(lease, result));
    }
    broker_.Call(settle);
  }
  // Rounds of reading the store that something takes.
  template <typename Work>
  uint64_t RoundsOf(Work work) {
    const uint64_t before = broker_.loop().rows().rounds();
    work();
    return broker_.loop().rows().rounds() - before;
  }
  size_t AllRows() {
    return broker_.store()
        .Scan(std::string(1, '\0'), std::string(1, '\1'), SIZE_MAX, storage::Direction::kForward)
        ->size();
  }
};

TEST_F(BacklogCases, S59_ResultsAreBoundedToo) {
  // 10,000 of the case's 100,000 jobs: what is left is none, so the number does not matter.
  // Events come later.
  record::QueueSettings settings;
  settings.mutable_retention()->set_finished_age_ms(0);
  Configure("q", settings);
  for (int i = 0; i < 100; ++i) {
    broker_.EnqueueMany("q", Jobs(100, BrokerHarness::Job()));
    Finish(broker_.Lease("q", 100), std::string(10'240, 'r'));
    broker_.Advance(1'000);
  }
  EXPECT_EQ(RowsIn(storage::Family::kResult) + RowsIn(storage::Family::kJob), 0u);
  // What is left are answers to repeat, for ten minutes, and the queue.
  broker_.Advance(30 * kMinuteMs, 1'000);
  EXPECT_LE(AllRows(), 4u);
}

TEST_F(BacklogCases, S61_QueuesAndWorkersThatComeAndGo) {
  // 5,000 of the case's 50,000 queues, each used once by a worker that vanishes.
  for (int i = 0; i < 5'000; ++i) {
    const std::string queue = absl::StrCat("q", i);
    broker_.Enqueue(queue);
    const auto lease = broker_.Lease(queue, 1, 15'000, absl::StrCat("worker-", i));
    ASSERT_EQ(lease.size(), 1u);
    if (i % 2 == 0) Finish(lease);
  }
  EXPECT_EQ(broker_.loop().engine().queue_count(), 5'000u);
  broker_.Advance(20'000, 1'000);
  EXPECT_EQ(broker_.loop().engine().lease_count(), 0u);
  for (int i = 1; i < 5'000; i += 2) Finish(broker_.Lease(absl::StrCat("q", i)));
  // A day of history, and a day until an empty queue is forgotten.
  broker_.Advance(2 * engine::kDayMs + kMinuteMs, kMinuteMs);
  EXPECT_EQ(broker_.loop().engine().queue_count(), 0u);
  EXPECT_LE(AllRows(), 3u);
}

TEST_F(BacklogCases, S62_DequeueAfterManyRemovals) {
  // 20,000 of the case's 1,000,000 removals: what is asserted is that a lease on an empty queue
  // reads nothing, and one on a new job no more than the job, so the number does not matter.
  for (int i = 0; i < 20; ++i) {
    broker_.EnqueueMany("q", Jobs(1'000, BrokerHarness::Job()));
    const auto leases = broker_.Lease("q", 1'000);
    ASSERT_EQ(leases.size(), 1'000u);
    Finish(leases);
  }
  EXPECT_EQ(RoundsOf([this] {
              for (int i = 0; i < 1'000; ++i) EXPECT_TRUE(broker_.Lease("q").empty());
            }),
            0u);
  for (int i = 0; i < 1'000; ++i) {
    broker_.Enqueue("q");
    std::vector<GrantedLease> leases;
    EXPECT_LE(RoundsOf([&] { leases = broker_.Lease("q"); }), 1u);
    ASSERT_EQ(leases.size(), 1u);
    Finish(leases);
  }
}

TEST_F(BacklogCases, S62_TheDueAndLeaseIndexesToo) {
  auto delayed = BrokerHarness::Job();
  delayed.delay_ms = 1'000;
  for (int i = 0; i < 10; ++i) {
    broker_.EnqueueMany("q", Jobs(1'000, delayed));
    broker_.Advance(1'000);
    EXPECT_EQ(broker_.Lease("q", 1'000, 1'000).size(), 1'000u);
    broker_.Advance(1'000);
    const auto leases = broker_.Lease("q", 1'000, 60'000);
    ASSERT_EQ(leases.size(), 1'000u);
    Finish(leases);
  }
  broker_.Enqueue("q", delayed);
  const auto poll = broker_.Start(BrokerHarness::LeaseCall("q", 60'000));
  EXPECT_LE(RoundsOf([this] { broker_.Advance(1'000, 1'000); }), 3u);
  EXPECT_EQ(LeasesOf(poll).size(), 1u);
}

TEST_F(BacklogCases, S63_ManyQueuesNearlyAllEmpty) {
  constexpr int kQueues = 10'000;
  std::vector<std::string> names;
  for (int i = 0; i < kQueues; ++i) {
    names.push_back(absl::StrCat("q", i));
    Ask<engine::QueueReply>(engine::CreateQueueCommand{names.back(), {}, {}});
  }
  broker_.Crash();  // nothing is known from having filled them
  engine::LeaseCommand subscription = BrokerHarness::LeaseCall("", 60'000);
  subscription.queues.assign(names.begin() + 5'000, names.end());
  auto poll = broker_.Start(subscription);
  // While it waits nothing is read.
  EXPECT_EQ(RoundsOf([this] { broker_.Advance(30'000, 500); }), 0u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_LE(RoundsOf([&] { broker_.Enqueue(names.back()); }), 2u);
    ASSERT_EQ(LeasesOf(poll).size(), 1u);
    EXPECT_LE(RoundsOf([&] { Finish(LeasesOf(poll)); }), 1u);
    poll = broker_.Start(subscription);
  }
}

TEST_F(BacklogCases, ARestartReadsNothingOfTheBacklog) {
  class CountingStore final : public storage::MemoryStore {
   public:
    absl::StatusOr<std::vector<storage::Row>> Scan(absl::string_view from, absl::string_view to,
                                                   size_t limit,
                                                   storage::Direction direction) const override {
      auto rows = storage::MemoryStore::Scan(from, to, limit, direction);
      if (rows.ok()) read += rows->size();
      return rows;
    }
    mutable size_t read = 0;
  };
  CountingStore store;
  ManualClock clock;
  ManualExecutor executor;
  const auto run = [&](runtime::Loop* loop) {
    while (loop->Step() || executor.RunOne()) {
    }
  };
  const auto submit = [&](runtime::Loop* loop, engine::Command command) {
    auto outcome = std::make_shared<engine::Outcome>();
    EXPECT_TRUE(
        loop->Submit({std::move(command), [outcome](engine::Outcome o) { *outcome = std::move(o); },
                      nullptr, 0})
            .ok());
    run(loop);
    return outcome;
  };
  {
    runtime::Loop loop(&store, &clock, &executor, {}, {});
    ASSERT_TRUE(loop.Start().ok());
    for (int i = 0; i < 50; ++i) {
      submit(&loop, engine::EnqueueCommand{"q", Jobs(1'000, BrokerHarness::Job()), {}});
    }
  }
  store.read = 0;
  runtime::Loop loop(&store, &clock, &executor, {}, {});
  ASSERT_TRUE(loop.Start().ok());
  EXPECT_LE(store.read, 10u);
  auto lease = BrokerHarness::LeaseCall("q", 0);
  const auto first = submit(&loop, lease);
  EXPECT_EQ(std::get<engine::LeaseReply>(first->body).leases.size(), 1u);
  EXPECT_LE(store.read, 10u + engine::kWindowRefill);
  lease.max_jobs = 1'000;
  const auto many = submit(&loop, lease);
  EXPECT_GE(std::get<engine::LeaseReply>(many->body).leases.size(), engine::kWindowRefill - 1);
}

}  // namespace
}  // namespace stint::testing
