// What the loop counts: each thing that happens to jobs once, when it is durable; and which
// queues have a label of their own.
#include "server/runtime/loop_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

using engine::JobEvent;
using engine::JobTime;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

class LoopMetricsTest : public CaseTest {
 protected:
  runtime::LoopFigures::Queue Figures(const std::string& name) {
    for (auto& queue : broker_.loop().metrics().Copy().queues) {
      if (queue.name == name) return queue;
    }
    ADD_FAILURE() << "no label " << name;
    return {};
  }
  // What happened in queue q since the last call, without enqueues.
  std::map<JobEvent, int64_t> News() {
    std::map<JobEvent, int64_t> news;
    const auto events = Figures("q").counts.events;
    for (size_t i = 1; i < events.size(); ++i) {
      if (events[i] != last_[i]) news[static_cast<JobEvent>(i)] = events[i] - last_[i];
    }
    last_ = events;
    return news;
  }
  GrantedLease LeaseOne() {
    auto leases = broker_.Lease("q");
    EXPECT_EQ(leases.size(), 1u);
    News();
    return leases.empty() ? GrantedLease() : std::move(leases.front());
  }
  GrantedLease EnqueueAndLease(const engine::NewJob& job = BrokerHarness::Job()) {
    broker_.Enqueue("q", job);
    return LeaseOne();
  }

  std::array<int64_t, engine::kJobEvents> last_ = {};
};

TEST_F(LoopMetricsTest, EachWayOfSettlingIsCounted) {
  broker_.Enqueue("q");
  EXPECT_EQ(Figures("q").counts.events[0], 1);
  EXPECT_EQ(broker_.Lease("q").size(), 1u);
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kGranted, 1)));
  broker_.Complete(EnqueueAndLease());
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kCompleted, 1)));
  broker_.Fail(EnqueueAndLease());
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kFailed, 1)));
  broker_.Fail(EnqueueAndLease(), std::nullopt, true);
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kFailed, 1), Pair(JobEvent::kDeadRejected, 1)));
  const GrantedLease released = EnqueueAndLease();
  broker_.Release(released);
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kReleased, 1)));
  EXPECT_FALSE(broker_.Complete(released).status.ok());
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kStaleToken, 1)));
}

TEST_F(LoopMetricsTest, ARepeatedCallIsCountedOnce) {
  engine::EnqueueCommand enqueue{"q", {BrokerHarness::Job()}, {"", "r1", 7}};
  broker_.Call(enqueue);
  broker_.Call(enqueue);
  EXPECT_EQ(Figures("q").counts.events[0], 1);
  const GrantedLease lease = LeaseOne();
  broker_.Complete(lease);
  broker_.Complete(lease);
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kCompleted, 1)));
}

TEST_F(LoopMetricsTest, ALapseALossAndWhatTakesItBack) {
  const GrantedLease late = EnqueueAndLease();
  broker_.Advance(16'000);
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kLapsed, 1), Pair(JobEvent::kLoss, 1)));
  EXPECT_EQ(broker_.Heartbeat(late), LeaseStatus::kRenewed);
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kLateRenewal, 1)));
  broker_.Advance(16'000);
  News();
  EXPECT_TRUE(broker_.Complete(late).status.ok());
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kCompleted, 1), Pair(JobEvent::kLateSettle, 1)));
  EXPECT_EQ(broker_.Heartbeat(late), LeaseStatus::kLost);
  const auto heartbeats = broker_.loop().metrics().Copy().heartbeats;
  EXPECT_EQ(heartbeats[static_cast<size_t>(LeaseStatus::kRenewed)], 1);
  EXPECT_EQ(heartbeats[static_cast<size_t>(LeaseStatus::kLost)], 1);
}

TEST_F(LoopMetricsTest, EachWayOfEndingIsCounted) {
  engine::NewJob fragile = BrokerHarness::Job();
  fragile.record.set_max_losses(1);
  EnqueueAndLease(fragile);
  broker_.Advance(16'000);
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kLapsed, 1), Pair(JobEvent::kLoss, 1),
                                  Pair(JobEvent::kDeadLosses, 1)));
  engine::NewJob single = BrokerHarness::Job();
  single.record.set_max_attempts(1);
  single.record.set_run_limit_ms(5'000);
  const GrantedLease limited = EnqueueAndLease(single);
  broker_.Advance(6'000);
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kFailed, 1), Pair(JobEvent::kRevokedRunLimit, 1),
                                  Pair(JobEvent::kDeadAttempts, 1)));
  Ask<engine::StateReply>(engine::RedriveCommand{BrokerHarness::Ref(limited), {}});
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kRedriven, 1)));
  Ask<engine::StateReply>(engine::CancelCommand{BrokerHarness::Ref(limited), {}});
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kCancelledByClient, 1)));
  const GrantedLease ignored = EnqueueAndLease();
  Ask<engine::StateReply>(engine::CancelCommand{BrokerHarness::Ref(ignored), {}});
  broker_.Advance(11'000);
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kRevokedCancel, 1),
                                  Pair(JobEvent::kCancelledByClient, 1)));
  engine::NewJob soon = BrokerHarness::Job();
  soon.expire_after_ms = 1'000;
  broker_.Enqueue("q", soon);
  broker_.Advance(2'000);
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kExpired, 1)));
}

TEST_F(LoopMetricsTest, EachWayOfLeavingTheStoreIsCounted) {
  record::QueueSettings settings;
  settings.mutable_retention()->set_finished_count(1);
  settings.mutable_retention()->set_finished_age_ms(60'000);
  Configure("q", settings);
  broker_.Complete(EnqueueAndLease());
  broker_.Complete(EnqueueAndLease());
  broker_.Advance(1'000);
  EXPECT_THAT(News(), UnorderedElementsAre(Pair(JobEvent::kCompleted, 1),
                                           Pair(JobEvent::kRemovedCount, 1)));
  broker_.Advance(60'000);
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kRemovedAge, 1)));

  Ask<engine::EmptyReply>(
      engine::DeleteJobCommand{BrokerHarness::Ref(EnqueueAndLease()), true, {}});
  EXPECT_THAT(News(),
              ElementsAre(Pair(JobEvent::kRevokedRemoved, 1), Pair(JobEvent::kRemovedDeleted, 1)));
  EnqueueAndLease();
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  News();
  Ask<engine::PurgeReply>(engine::PurgeQueueCommand{"q", true, {}});
  EXPECT_THAT(News(),
              ElementsAre(Pair(JobEvent::kRevokedRemoved, 1), Pair(JobEvent::kRemovedPurged, 4)));
  broker_.Settle();
  EXPECT_THAT(News(), IsEmpty()) << "the steps of a purge are not counted again";

  settings.mutable_retention()->set_finished_age_ms(0);
  Ask<engine::QueueReply>(engine::UpdateQueueCommand{"q", {"*"}, settings, {}, 0, {}});
  broker_.Complete(EnqueueAndLease());
  EXPECT_THAT(News(), UnorderedElementsAre(Pair(JobEvent::kCompleted, 1),
                                           Pair(JobEvent::kRemovedNotKept, 1)));
  broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job()));
  Ask<engine::EmptyReply>(engine::DeleteQueueCommand{"q", true, {}});
  EXPECT_THAT(News(), ElementsAre(Pair(JobEvent::kRemovedWithQueue, 2)));
  EXPECT_EQ(Figures("q").depths, engine::Depths{});
}

TEST_F(LoopMetricsTest, TimesAreThoseOfBrokerTime) {
  engine::NewJob job = BrokerHarness::Job();
  job.delay_ms = 1'000;
  broker_.Enqueue("q", job);
  broker_.Advance(1'000);
  broker_.Advance(7'000);
  const GrantedLease lease = LeaseOne();
  broker_.Advance(2'000);
  broker_.Complete(lease);
  const auto times = Figures("q").counts.times;
  EXPECT_EQ(times[static_cast<size_t>(JobTime::kWait)].sum, 7'000);
  EXPECT_EQ(times[static_cast<size_t>(JobTime::kRun)].sum, 2'000);
  EXPECT_EQ(times[static_cast<size_t>(JobTime::kLifetime)].sum, 10'000);
  // 7 s is over 5 s and not over 10 s.
  EXPECT_EQ(times[static_cast<size_t>(JobTime::kWait)].counts[10], 1u);
}

TEST_F(LoopMetricsTest, NothingIsCountedBeforeItIsDurable) {
  broker_.Enqueue("q");
  const auto call = broker_.Submit(engine::EnqueueCommand{"q", {BrokerHarness::Job()}, {}});
  while (broker_.loop().Step()) {
  }
  EXPECT_FALSE(call->outcome.has_value());
  EXPECT_EQ(Figures("q").counts.events[0], 1);
  EXPECT_EQ(Figures("q").depths[2], 1);
  broker_.Settle();
  EXPECT_TRUE(call->outcome.has_value());
  EXPECT_EQ(Figures("q").counts.events[0], 2);
  EXPECT_EQ(Figures("q").depths[2], 2);
}

TEST_F(LoopMetricsTest, AStallIsCounted) {
  broker_.Settle();
  broker_.Freeze(3'000);
  broker_.Settle();
  const auto figures = broker_.loop().metrics().Copy();
  EXPECT_EQ(figures.stalls, 1);
  EXPECT_EQ(figures.stalled_ms, 3'000);
}

TEST_F(LoopMetricsTest, S92_GaugesAfterARestart) {
  broker_.EnqueueMany("q", Jobs(7, BrokerHarness::Job()));
  for (const GrantedLease& lease : broker_.Lease("q", 7)) broker_.Fail(lease, {}, true);
  broker_.EnqueueMany("q", Jobs(105, BrokerHarness::Job()));
  EXPECT_EQ(broker_.Lease("q", 5, 3'600'000).size(), 5u);
  engine::NewJob later = BrokerHarness::Job();
  later.delay_ms = 5'000;
  broker_.EnqueueMany("q", Jobs(20, later));
  broker_.Crash();
  // delayed, held, ready, leased, completed, cancelled, dead
  EXPECT_EQ(Figures("q").depths, (engine::Depths{20, 0, 100, 5, 0, 0, 7}));

  record::QueueSettings settings;
  settings.mutable_retention()->set_finished_age_ms(0);
  Ask<engine::QueueReply>(engine::UpdateQueueCommand{"q", {"*"}, settings, {}, 0, {}});
  for (int round = 0; round < 60; ++round) {
    broker_.Advance(100);
    for (const GrantedLease& lease : broker_.Lease("q", 3)) broker_.Complete(lease);
    for (const int64_t jobs : Figures("q").depths) EXPECT_GE(jobs, 0);
  }
  broker_.Advance(3'600'000, 1'000);
  for (const GrantedLease& lease : broker_.Lease("q", 100)) broker_.Complete(lease);
  EXPECT_EQ(Figures("q").depths, (engine::Depths{0, 0, 0, 0, 0, 0, 7}));
}

// --- Labels ---

class LabelsTest : public ::testing::Test {
 protected:
  static engine::GroupEffects::Queue Queue(uint32_t id, int64_t ready, bool removed = false) {
    return {id, absl::StrCat("q", id), {0, 0, ready, 0, 0, 0, 0}, removed};
  }
  void Enqueue(uint32_t id, int64_t jobs) {
    engine::GroupEffects effects;
    effects.counts.push_back({id, JobEvent::kEnqueued, jobs});
    effects.queues.push_back(Queue(id, ready_[id] += jobs));
    if (!told_.insert({id, true}).second) effects.queues.back().name.clear();
    metrics_.CountGroup(effects, nullptr);
    all_ += jobs;
  }
  // Label to what was enqueued under it. Their sum is always all there was.
  std::map<std::string, int64_t> Labels() {
    std::map<std::string, int64_t> labels;
    int64_t sum = 0;
    int64_t ready = 0;
    for (const auto& queue : metrics_.Copy().queues) {
      labels[queue.name] = queue.counts.events[0];
      sum += queue.counts.events[0];
      ready += queue.depths[2];
    }
    EXPECT_LE(sum, all_);
    int64_t expected = 0;
    for (const auto& [id, jobs] : ready_) expected += jobs;
    EXPECT_EQ(ready, expected);
    return labels;
  }
  void Minute() { metrics_.Tick(boot_ms_ += 60'000, {}); }

  runtime::LoopMetrics metrics_{2};
  int64_t boot_ms_ = 1'000'000;
  std::map<uint32_t, int64_t> ready_;
  std::map<uint32_t, bool> told_;
  int64_t all_ = 0;
};

TEST_F(LabelsTest, FirstComeFirstServedAndTheRestTogether) {
  Enqueue(1, 10);
  Enqueue(2, 20);
  Enqueue(3, 30);
  Enqueue(4, 40);
  EXPECT_THAT(Labels(), ElementsAre(Pair("", 70), Pair("q1", 10), Pair("q2", 20)));
}

TEST_F(LabelsTest, AtStartThoseWithTheMostWork) {
  engine::GroupEffects loaded;
  for (uint32_t id = 1; id <= 4; ++id) loaded.queues.push_back(Queue(id, ready_[id] = id));
  metrics_.Load(loaded);
  EXPECT_THAT(Labels(), ElementsAre(Pair("", 0), Pair("q3", 0), Pair("q4", 0)));
}

TEST_F(LabelsTest, ABusyQueueTakesTheLabelOfAQuietOneAndNoCountFalls) {
  Minute();
  Enqueue(1, 100);
  Enqueue(2, 10);
  Enqueue(3, 19);
  Minute();
  EXPECT_THAT(Labels(), ElementsAre(Pair("", 19), Pair("q1", 100), Pair("q2", 10)))
      << "19 is not twice 10";
  Enqueue(1, 100);
  Enqueue(2, 10);
  Enqueue(3, 20);
  Minute();
  EXPECT_THAT(Labels(), ElementsAre(Pair("", 39), Pair("q1", 200), Pair("q3", 0)));
  // The other way round: its counts go on where they were.
  Enqueue(1, 100);
  Enqueue(2, 7);
  Minute();
  EXPECT_THAT(Labels(), ElementsAre(Pair("", 46), Pair("q1", 300), Pair("q2", 20)));
}

TEST_F(LabelsTest, AnEmptyQueueWithoutTrafficForADayGivesItsLabelBack) {
  Minute();
  Enqueue(1, 1);
  Enqueue(2, 1);
  Enqueue(1, -1);
  for (int minute = 0; minute < 24 * 60; ++minute) Minute();
  EXPECT_THAT(Labels(), ElementsAre(Pair("", 0), Pair("q2", 1))) << "q2 has a job";
  Enqueue(3, 5);
  EXPECT_THAT(Labels(), ElementsAre(Pair("", 0), Pair("q2", 1), Pair("q3", 5)));
}

TEST_F(LabelsTest, ADeletedQueueKeepsItsCountsForTheNextOfThatName) {
  Enqueue(1, 5);
  engine::GroupEffects deleted;
  deleted.queues.push_back({1, "", {}, true});
  metrics_.CountGroup(deleted, nullptr);
  ready_.erase(1);
  EXPECT_THAT(Labels(), ElementsAre(Pair("", 0), Pair("q1", 5)));
  engine::GroupEffects again;
  again.queues.push_back({9, "q1", {0, 0, ready_[9] = 3, 0, 0, 0, 0}, false});
  again.counts.push_back({9, JobEvent::kEnqueued, 3});
  metrics_.CountGroup(again, nullptr);
  all_ += 3;
  EXPECT_THAT(Labels(), ElementsAre(Pair("", 0), Pair("q1", 8)));
}

TEST_F(LabelsTest, S61_ManyQueuesCostOneSeries) {
  for (uint32_t id = 1; id <= 20'000; ++id) Enqueue(id, 1);
  Minute();
  EXPECT_EQ(metrics_.Copy().queues.size(), 3u);
  EXPECT_EQ(Labels()[""], 19'998);
}

}  // namespace
}  // namespace stint::testing
