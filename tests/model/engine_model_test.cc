// The real broker against a naive model of it: random commands, steps of time, stalls and
// crashes, with every answer compared, and every job, order and figure after each batch. Case S93
// is the same on 100,000 commands.
//
// A failure names its seed; a seed is a run. STINT_MODEL_SEEDS=N runs the seeds 1 to N instead of
// the first 12.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/limits.h"
#include "storage/reader.h"
#include "tests/model/metrics_check.h"
#include "tests/model/naive_broker.h"
#include "tests/support/broker_harness.h"

namespace stint::model {
namespace {

using testing::BrokerHarness;

struct Held {
  std::string queue;
  std::string id;
  int64_t token = 0;
};

class ModelRun {
 public:
  // Of the queues, so many have a label of their own in the metrics.
  ModelRun(uint32_t seed, int queues, size_t labels)
      : random_(seed),
        broker_(OptionsWith(labels)),
        metrics_(labels >= static_cast<size_t>(queues)),
        base_ms_(broker_.clock().wall_ms - broker_.clock().boot_ms) {
    for (int i = 0; i < queues; ++i) names_.push_back(absl::StrCat("q", i));
    Tick();
  }

  void Step() {
    broker_.set_late_syncs(Pick(2) == 0);
    switch (Pick(24)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return Enqueue();
      case 5:
      case 6:
      case 7:
      case 8:
        return Lease();
      case 9:
      case 10:
      case 11:
      case 12:
      case 13:
        return Settle();
      case 14:
      case 15:
        return Heartbeat();
      case 16:
        return Cancel();
      case 17:
        return Redrive();
      case 18:
        return Update();
      case 19:
        return Delete();
      case 20:
        return ChangeQueue();
      default:
        return PassTime();
    }
  }

  // Crashes, and goes on as if nothing had happened.
  void Crash() {
    broker_.Crash(Pick(3) == 0 ? Pick(120'000) : Pick(50), static_cast<size_t>(Pick(2)));
    model_.Restart(NowMs(), broker_.clock().wall_ms);
    metrics_.Restarted(broker_.loop().metrics().Copy());
    broker_.Settle();
    Tick();
  }

  // Every job, figure and invariant.
  void Compare() {
    const absl::Status checked = broker_.Check();
    EXPECT_TRUE(checked.ok()) << checked;
    EXPECT_LE(broker_.most_rounds(), 4u);
    EXPECT_EQ(broker_.loop().engine().queue_count(), model_.queues().size());
    const storage::Reader reader(&broker_.store());
    for (const auto& [name, queue] : model_.queues()) CompareQueue(reader, name, queue);
    metrics_.Compare(broker_.loop().metrics().Copy(), model_.queues());
  }

 private:
  static runtime::LoopOptions OptionsWith(size_t labels) {
    runtime::LoopOptions options;
    options.labelled_queues = labels;
    return options;
  }
  int Pick(int below) { return static_cast<int>(random_() % static_cast<uint32_t>(below)); }
  const std::string& AnyQueue() { return names_[static_cast<size_t>(Pick(Size(names_)))]; }
  template <typename List>
  static int Size(const List& list) {
    return static_cast<int>(list.size());
  }
  // A job that is there, or one that is not (any more).
  std::pair<std::string, std::string> AnyJob() {
    if (known_.empty() || Pick(50) == 0) return {AnyQueue(), "no-such-job"};
    const int from = Pick(3) == 0 ? 0 : std::max(0, Size(known_) - 60);
    return known_[static_cast<size_t>(from + Pick(Size(known_) - from))];
  }
  int64_t NowMs() { return base_ms_ + broker_.clock().boot_ms; }
  void Tick() { model_.Tick(NowMs(), broker_.clock().wall_ms); }

  // --- Commands, each compared in its answer ---

  void Enqueue() {
    const std::string queue = AnyQueue();
    std::vector<Spec> specs(static_cast<size_t>(Pick(8) == 0 ? 1 + Pick(20) : 1));
    engine::EnqueueCommand command;
    command.queue = queue;
    for (Spec& spec : specs) {
      if (Pick(4) == 0) spec.own_id = absl::StrCat("own-", Pick(40));
      if (Pick(2) == 0) spec.priority = Pick(10);
      if (Pick(4) == 0) spec.delay_ms = 1 + Pick(30'000);
      if (spec.delay_ms == 0 && Pick(6) == 0) {
        spec.due_wall_ms = broker_.clock().wall_ms - 1'000 + Pick(30'000);
      }
      if (Pick(6) == 0) spec.expire_after_ms = 1 + Pick(40'000);
      if (Pick(6) == 0) spec.run_limit_ms = 1'000 + Pick(20'000);
      if (Pick(4) == 0) spec.max_attempts = 1 + Pick(3);
      command.jobs.push_back(ToNewJob(spec));
    }
    if (Pick(3) == 0) command.request = {"", absl::StrCat("r-", ++requests_), 1};
    const Reason expected = model_.CheckEnqueue(queue, specs);
    const engine::Outcome outcome = broker_.Call(command);
    ASSERT_EQ(engine::ReasonOf(outcome.status), expected) << outcome.status;
    if (expected == Reason::kNone) {
      const auto& reply = std::get<engine::EnqueueReply>(outcome.body);
      ASSERT_EQ(reply.jobs.size(), specs.size());
      std::vector<std::string> ids;
      for (size_t i = 0; i < specs.size(); ++i) {
        ids.push_back(reply.jobs[i].job_id);
        if (!specs[i].own_id.empty()) {
          EXPECT_EQ(ids[i], specs[i].own_id);
        }
        known_.emplace_back(queue, ids[i]);
      }
      model_.Enqueue(queue, specs, ids);
      Tick();
      // A repeat gives the same answer and does nothing.
      if (!command.request.request_id.empty()) {
        const engine::Outcome again = broker_.Call(command);
        ASSERT_TRUE(again.status.ok()) << again.status;
        EXPECT_EQ(std::get<engine::EnqueueReply>(again.body).jobs.at(0).job_id, ids[0]);
      }
    }
  }

  static engine::NewJob ToNewJob(const Spec& spec) {
    engine::NewJob job = BrokerHarness::Job(std::string(spec.priority % 2 == 0 ? 10 : 5'000, 'x'));
    job.record.set_job_id(spec.own_id);
    job.record.set_priority(spec.priority);
    job.record.set_loss_backoff_ms(0);
    job.record.mutable_retry()->set_jitter(0.0);
    if (spec.delay_ms != 0) job.delay_ms = spec.delay_ms;
    if (spec.due_wall_ms != 0) job.due_wall_ms = spec.due_wall_ms;
    if (spec.expire_after_ms != 0) job.expire_after_ms = spec.expire_after_ms;
    if (spec.run_limit_ms != 0) job.record.set_run_limit_ms(spec.run_limit_ms);
    if (spec.max_attempts != 0) job.record.set_max_attempts(spec.max_attempts);
    return job;
  }

  void Lease() {
    engine::LeaseCommand command = BrokerHarness::LeaseCall(AnyQueue(), 0, "w");
    while (Pick(2) == 0) command.queues.push_back(AnyQueue());
    command.max_jobs = 1 + (Pick(3) == 0 ? Pick(30) : 0);
    command.lease_ms = 1'000 + Pick(20'000);
    if (Pick(3) == 0) command.request_id = absl::StrCat("r-", ++requests_);
    const engine::Outcome outcome = broker_.Call(command);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    const auto& leases = std::get<engine::LeaseReply>(outcome.body).leases;
    for (const engine::GrantedLease& lease : leases) {
      std::string queue;
      Job* next = model_.Next(command.queues, &queue);
      ASSERT_NE(next, nullptr) << lease.job.job_id;
      ASSERT_EQ(lease.job.job_id, next->id);
      ASSERT_EQ(lease.job.queue, queue);
      EXPECT_GT(lease.token, last_token_);
      EXPECT_EQ(1 + lease.job.state.total_failures() + lease.job.state.total_losses(),
                next->attempt());
      EXPECT_EQ(lease.job.record.payload().size(), next->spec.priority % 2 == 0 ? 10u : 5'000u);
      last_token_ = lease.token;
      model_.Grant(queue, next, lease.token, command.lease_ms);
      held_.push_back({queue, next->id, lease.token});
    }
    std::string queue;
    if (Size(leases) < command.max_jobs) {
      EXPECT_EQ(model_.Next(command.queues, &queue), nullptr);
    }
    if (!command.request_id.empty() && !leases.empty()) {
      const engine::Outcome again = broker_.Call(command);
      const auto& repeated = std::get<engine::LeaseReply>(again.body).leases;
      ASSERT_EQ(repeated.size(), leases.size());
      EXPECT_EQ(repeated[0].token, leases[0].token);
    }
  }

  // A lease that is held, or was.
  Held AnyLease() {
    if (held_.empty()) return {AnyQueue(), "no-such-job", 1};
    const int from = Pick(8) == 0 ? 0 : std::max(0, Size(held_) - 40);
    Held held = held_[static_cast<size_t>(from + Pick(Size(held_) - from))];
    if (Pick(40) == 0) held.token += 1;
    return held;
  }

  void Settle() {
    engine::SettleCommand command;
    std::vector<SettleAnswer> expected;
    do {
      const Held held = AnyLease();
      engine::SettleItem item;
      item.job = {held.queue, held.id};
      item.token = held.token;
      item.kind = static_cast<SettleKind>(1 + std::min(2, Pick(5) / 2));
      if (item.kind == SettleKind::kComplete && Pick(2) == 0) item.result = "result";
      if (item.kind != SettleKind::kComplete && Pick(3) == 0) item.delay_ms = Pick(10'000);
      item.no_retry = item.kind == SettleKind::kFail && Pick(8) == 0;
      expected.push_back(
          model_.Settle(held.queue, held.id, held.token, item.kind, item.delay_ms, item.no_retry));
      command.items.push_back(item);
    } while (Pick(3) == 0);
    const engine::Outcome outcome = broker_.Call(command);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    const auto& results = std::get<engine::SettleReply>(outcome.body).results;
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (expected[i].old && !results[i].status.ok()) continue;
      ASSERT_EQ(engine::ReasonOf(results[i].status), expected[i].reason) << results[i].status;
      if (expected[i].reason != Reason::kNone) continue;
      EXPECT_EQ(results[i].state, expected[i].state);
      EXPECT_EQ(results[i].end_reason, expected[i].end);
      EXPECT_EQ(results[i].retry_delay_ms, expected[i].wait_ms);
      EXPECT_EQ(results[i].next_attempt, expected[i].next_attempt);
    }
    Tick();
  }

  void Heartbeat() {
    engine::HeartbeatCommand command{"w", {}};
    std::vector<LeaseStatus> expected;
    for (int i = 1 + Pick(10); i > 0; --i) {
      const Held held = AnyLease();
      command.items.push_back({{held.queue, held.id}, held.token});
      expected.push_back(model_.Heartbeat(held.queue, held.id, held.token));
    }
    const engine::Outcome outcome = broker_.Call(command);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    EXPECT_EQ(std::get<engine::HeartbeatReply>(outcome.body).statuses, expected);
    Tick();
  }

  void ExpectReason(engine::Command command, Reason expected) {
    const engine::Outcome outcome = broker_.Call(std::move(command));
    ASSERT_EQ(engine::ReasonOf(outcome.status), expected) << outcome.status;
    Tick();
  }

  void Cancel() {
    const auto [queue, id] = AnyJob();
    const Reason expected = model_.Cancel(queue, id);
    ExpectReason(engine::CancelCommand{{queue, id}, {}}, expected);
  }

  void Redrive() {
    // Mostly one of those that can be.
    auto [queue, id] = AnyJob();
    for (int i = 0; i < 20; ++i) {
      const Job* job = model_.Find(queue, id);
      if (job != nullptr && job->ended() && job->state != JobState::kCompleted) break;
      std::tie(queue, id) = AnyJob();
    }
    const Reason expected = model_.Redrive(queue, id);
    ExpectReason(engine::RedriveCommand{{queue, id}, {}}, expected);
  }

  void Update() {
    const auto [queue, id] = AnyJob();
    engine::UpdateJobCommand command;
    command.job = {queue, id};
    if (Pick(2) == 0) command.priority = Pick(10);
    if (Pick(2) == 0) command.delay_ms = Pick(2) == 0 ? 0 : Pick(20'000);
    if (Pick(3) == 0) command.max_attempts = 1 + Pick(5);
    const Reason expected =
        model_.Update(queue, id, command.priority, command.delay_ms, command.max_attempts);
    ExpectReason(command, expected);
  }

  void Delete() {
    const auto [queue, id] = AnyJob();
    const bool force = Pick(2) == 0;
    const Reason expected = model_.Delete(queue, id, force);
    ExpectReason(engine::DeleteJobCommand{{queue, id}, force, {}}, expected);
  }

  void ChangeQueue() {
    const std::string queue = AnyQueue();
    switch (Pick(8)) {
      case 0: {
        const bool force = Pick(3) == 0;
        const int64_t purged = model_.Purge(queue, force);
        const engine::Outcome outcome = broker_.Call(engine::PurgeQueueCommand{queue, force, {}});
        ASSERT_EQ(engine::ReasonOf(outcome.status),
                  purged < 0 ? Reason::kQueueNotFound : Reason::kNone);
        if (purged >= 0) {
          EXPECT_EQ(std::get<engine::PurgeReply>(outcome.body).purged, purged);
        }
        return;
      }
      case 1: {
        const bool force = Pick(4) == 0;
        return ExpectReason(engine::DeleteQueueCommand{queue, force, {}},
                            model_.DeleteQueue(queue, force));
      }
      case 2:
      case 3:
      case 4: {
        const bool paused = Pick(3) == 0;
        return ExpectReason(engine::PauseQueueCommand{queue, paused, {}},
                            model_.Pause(queue, paused));
      }
      default:
        return ChangeRules(queue);
    }
  }

  void ChangeRules(const std::string& queue) {
    QueueRules rules;
    record::QueueSettings settings;
    if (Pick(2) == 0) settings.set_max_attempts(rules.max_attempts = 1 + Pick(5));
    if (Pick(2) == 0) settings.set_max_losses(rules.max_losses = 1 + Pick(4));
    if (Pick(2) == 0) {
      settings.mutable_retry()->set_initial_delay_ms(rules.retry_ms = Pick(5'000));
    }
    if (Pick(2) == 0) settings.set_cancel_grace_ms(rules.cancel_grace_ms = 1 + Pick(20'000));
    if (Pick(2) == 0) {
      settings.mutable_retention()->set_finished_age_ms(rules.finished_age_ms =
                                                            Pick(3) == 0 ? 0 : Pick(60'000));
    }
    if (Pick(3) == 0) {
      settings.mutable_retention()->set_finished_count(rules.finished_count = Pick(20));
    }
    if (Pick(6) == 0) settings.set_max_jobs(rules.max_jobs = 1 + Pick(50));
    const bool draining = Pick(12) == 0;
    ExpectReason(engine::UpdateQueueCommand{queue, {"*"}, settings, draining, 0, {}},
                 model_.SetRules(queue, rules, draining));
  }

  void PassTime() {
    if (Pick(40) == 0) {  // the broker stands still
      const int64_t gap_ms = Pick(20'000);
      model_.Stall(gap_ms);
      broker_.Freeze(gap_ms);
      broker_.Settle();
      broker_.Settle();  // nothing lapses in the first pass
      return Tick();
    }
    if (Pick(400) == 0) broker_.clock().wall_ms += Pick(20'000) - 10'000;
    for (int64_t left = Pick(3) == 0 ? Pick(30'000) : Pick(1'000); left > 0;) {
      const int64_t step = std::min<int64_t>(left, 1 + Pick(1'000));
      left -= step;
      broker_.Freeze(step);
      broker_.Settle();
      Tick();
    }
  }

  // --- Comparison at rest ---

  void CompareQueue(const storage::Reader& reader, const std::string& name, const Queue& queue) {
    const auto found = reader.FindQueue(name);
    ASSERT_TRUE(found.ok() && found->has_value()) << name;
    const record::QueueCounters& counters = (*found)->counters;
    EXPECT_EQ(counters.ready(), queue.Count(JobState::kReady)) << name;
    EXPECT_EQ(counters.delayed(), queue.Count(JobState::kDelayed)) << name;
    EXPECT_EQ(counters.leased(), queue.Count(JobState::kLeased)) << name;
    EXPECT_EQ(counters.completed(), queue.Count(JobState::kCompleted)) << name;
    EXPECT_EQ(counters.cancelled(), queue.Count(JobState::kCancelled)) << name;
    EXPECT_EQ(counters.dead(), queue.Count(JobState::kDead)) << name;
    EXPECT_EQ(counters.grants(), queue.grants) << name;
    EXPECT_EQ((*found)->record.paused(), queue.paused) << name;
    const auto page = reader.ListJobs(**found, 0, SIZE_MAX, SIZE_MAX, false,
                                      [](const storage::StoredJob&) { return true; });
    ASSERT_TRUE(page.ok()) << page.status();
    ASSERT_EQ(page->jobs.size(), queue.jobs.size()) << name;
    auto expected = queue.jobs.begin();
    for (const storage::StoredJob& job : page->jobs) CompareJob(job, *expected++);
  }

  static void CompareJob(const storage::StoredJob& job, const Job& expected) {
    const record::JobState& state = job.state;
    ASSERT_EQ(job.job_id, expected.id);
    ASSERT_EQ(state.state(), static_cast<int32_t>(expected.state)) << expected.id;
    EXPECT_EQ(state.priority(), expected.priority) << expected.id;
    EXPECT_EQ(state.total_failures(), expected.failures_ever) << expected.id;
    EXPECT_EQ(state.total_losses(), expected.losses_ever) << expected.id;
    EXPECT_EQ(state.failures(), expected.failures) << expected.id;
    EXPECT_EQ(state.consecutive_losses(), expected.losses_in_a_row) << expected.id;
    EXPECT_EQ(state.owner_token(), expected.token) << expected.id;
    EXPECT_EQ(state.end_reason(), static_cast<int32_t>(expected.end)) << expected.id;
    EXPECT_EQ(state.end_ms(), expected.end_ms) << expected.id;
    EXPECT_EQ(state.due_ms(), expected.due_ms) << expected.id;
    EXPECT_EQ(state.due_wall_ms(), expected.due_wall_ms) << expected.id;
    if (expected.state == JobState::kReady) {
      EXPECT_EQ(state.ready_ms(), expected.ready_ms) << expected.id;
    }
  }

  std::mt19937 random_;
  BrokerHarness broker_;
  MetricsCheck metrics_;
  int64_t base_ms_;  // broker time at boot
  NaiveBroker model_;
  std::vector<std::string> names_;
  std::vector<std::pair<std::string, std::string>> known_;  // queue and id of each job ever
  std::vector<Held> held_;                                  // every lease ever
  int64_t last_token_ = 0;
  int requests_ = 0;
};

uint32_t Seeds() {
  const char* seeds = std::getenv("STINT_MODEL_SEEDS");
  return seeds == nullptr ? 12 : static_cast<uint32_t>(std::atoi(seeds));
}

TEST(EngineModelTest, RandomCommandsAgreeWithTheModel) {
  for (uint32_t seed = 1; seed <= Seeds(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ModelRun run(seed, 4, seed % 5 + 1);
    for (int step = 1; step <= 2'000; ++step) {
      SCOPED_TRACE(absl::StrCat("step ", step));
      run.Step();
      if (step % 40 == 0) run.Compare();
      if (step % 170 == 0) run.Crash();
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(EngineModelTest, S93_GaugesAgainstARecount) {
  ModelRun run(93, 20, 64);
  for (int step = 1; step <= 100'000; ++step) {
    run.Step();
    if (step % 1'000 == 0) run.Compare();
    if (step % 10'000 == 0) run.Crash();
    if (::testing::Test::HasFailure()) {
      FAIL() << "step " << step;
    }
  }
}

}  // namespace
}  // namespace stint::model
