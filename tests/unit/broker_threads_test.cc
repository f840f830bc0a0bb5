// The broker without gRPC, on the threads that it has in stintd: callers, the thread of decisions,
// the thread that makes groups durable, readers, a scrape and sessions, all at once. The other
// tests of the loop step it on one thread; what a thread sanitizer can find between threads it
// finds here.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/error.h"
#include "server/guarded_store.h"
#include "server/ops/metrics.h"
#include "server/runtime/broker_loop.h"
#include "server/runtime/sessions.h"
#include "storage/memory_store.h"
#include "storage/reader.h"
#include "storage/rocks_store.h"
#include "sync/mutex.h"
#include "tests/support/broker_harness.h"
#include "tests/support/temp_folder.h"

namespace stint {
namespace {

using engine::Reason;
using engine::ReasonOf;
using testing::BrokerHarness;

// Longer than any test takes, so that nothing here hangs on how fast the machine is.
constexpr int64_t kLongMs = 10 * engine::kMinuteMs;

// Waits for the answer; a refusal at the door is one too.
engine::Outcome Ask(runtime::Gateway* gateway, engine::Command command) {
  struct Answer {
    Mutex mutex;
    Condition changed;
    std::optional<engine::Outcome> outcome ABSL_GUARDED_BY(mutex);
  };
  // Shared: the publishing thread may still be in Unlock when the asker goes on.
  const auto answer = std::make_shared<Answer>();
  const absl::Status taken = gateway->Submit({std::move(command),
                                              [answer](engine::Outcome outcome) {
                                                const MutexLock lock(answer->mutex);
                                                answer->outcome = std::move(outcome);
                                                answer->changed.NotifyAll();
                                              },
                                              nullptr, 100});
  if (!taken.ok()) return {taken, {}};
  const MutexLock lock(answer->mutex);
  while (!answer->outcome.has_value()) answer->changed.Wait(answer->mutex);
  return *std::move(answer->outcome);
}

engine::LeaseCommand Poll(const std::string& queue, const std::string& worker) {
  engine::LeaseCommand lease = BrokerHarness::LeaseCall(queue, kLongMs, worker);
  lease.lease_ms = kLongMs;
  return lease;
}

engine::SettleCommand Complete(const engine::GrantedLease& lease) {
  engine::SettleItem item;
  item.job = BrokerHarness::Ref(lease);
  item.token = lease.token;
  return {{std::move(item)}};
}

int64_t Count(const runtime::LoopFigures& figures, engine::JobEvent event) {
  int64_t jobs = 0;
  for (const auto& queue : figures.queues) jobs += queue.counts.events[static_cast<size_t>(event)];
  return jobs;
}

// A broker of the test, and what looks at it from beside the loop until Stop.
class ThreadedLoop {
 public:
  explicit ThreadedLoop(std::unique_ptr<storage::Store> store, runtime::LoopHooks hooks = {})
      : store_(std::move(store)) {
    auto loop = runtime::BrokerLoop::Start(&store_, runtime::LoopOptions{}, std::move(hooks));
    EXPECT_TRUE(loop.ok()) << loop.status();
    if (!loop.ok()) return;
    loop_ = *std::move(loop);
    watchers_.emplace_back([this] {
      while (!stopping_) ReadOnce();
    });
    watchers_.emplace_back([this] {
      while (!stopping_) ScrapeOnce();
    });
  }
  ~ThreadedLoop() { Stop(); }

  runtime::BrokerLoop* loop() { return loop_.get(); }
  // Ends what looks at the loop, then the loop.
  void Stop() {
    stopping_ = true;
    for (std::thread& watcher : watchers_) watcher.join();
    watchers_.clear();
    loop_ = nullptr;
  }

 private:
  void ReadOnce() {
    const auto queue = reader_.FindQueue("jobs");
    ASSERT_TRUE(queue.ok()) << queue.status();
    if (!queue->has_value()) return;
    const auto page = reader_.ListJobs(**queue, 0, 20, 100, /*with_payload=*/true,
                                       [](const storage::StoredJob&) { return true; });
    ASSERT_TRUE(page.ok()) << page.status();
  }
  void ScrapeOnce() {
    runtime::BrokerLoop* const loop = loop_.get();
    ops::Metrics metrics({"1.2.3", "memory"}, &counts_);
    metrics.Open({loop, [loop] { return loop->metrics().Copy(); },
                  [loop] { return loop->inbox_fill(); }, [loop] { return loop->store_figures(); },
                  [] { return size_t{0}; }, [] { return runtime::WorkerCount{}; }});
    // Written while the loop may still be answering what the page asks for.
    const std::function<std::string()> text = metrics.Gather([] {});
    ASSERT_NE(text().find("\nstint_queues "), std::string::npos);
    ASSERT_GE(loop->stuck_ms(), 0);
    metrics.Close();
  }

  GuardedStore store_;
  storage::Reader reader_{&store_};
  ops::RpcCounts counts_;
  std::unique_ptr<runtime::BrokerLoop> loop_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> watchers_;
};

class BrokerThreadsTest : public ::testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<storage::Store> OpenStore() {
    if (GetParam() == std::string("memory")) return std::make_unique<storage::MemoryStore>();
    storage::RocksOptions options;
    options.folder = folder_.File("store");
    options.reserve_bytes = 1 << 20;
    auto store = storage::RocksStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  test::TempFolder folder_;
};

TEST_P(BrokerThreadsTest, ProducersWorkersReadersAndAScrapeAtOnce) {
  constexpr int kProducers = 2;
  constexpr int kWorkers = 3;
  constexpr int kJobsEach = 150;
  ThreadedLoop broker(OpenStore());
  runtime::BrokerLoop* const loop = broker.loop();
  ASSERT_NE(loop, nullptr);
  std::atomic<int> completed{0};
  const auto produce = [loop] {
    for (int i = 0; i < kJobsEach; ++i) {
      const auto enqueued =
          Ask(loop, engine::EnqueueCommand{"jobs", {BrokerHarness::Job("payload")}, {}});
      ASSERT_TRUE(enqueued.status.ok()) << enqueued.status;
    }
  };
  const auto work = [loop, &completed](const std::string& worker) {
    while (completed < kProducers * kJobsEach) {
      const auto granted = Ask(loop, Poll("jobs", worker));
      // The drain that the last job begins ends the waits of the others.
      if (ReasonOf(granted.status) == Reason::kDraining) return;
      ASSERT_TRUE(granted.status.ok()) << granted.status;
      for (const auto& lease : std::get<engine::LeaseReply>(granted.body).leases) {
        const auto beat = Ask(
            loop,
            engine::HeartbeatCommand{worker, {{BrokerHarness::Ref(lease), lease.token, "half"}}});
        ASSERT_TRUE(beat.status.ok()) << beat.status;
        const auto settled = Ask(loop, Complete(lease));
        ASSERT_TRUE(settled.status.ok()) << settled.status;
        ASSERT_TRUE(std::get<engine::SettleReply>(settled.body).results[0].status.ok());
        if (++completed == kProducers * kJobsEach) loop->BeginDrain();
      }
    }
  };
  std::vector<std::thread> callers;
  for (int i = 0; i < kProducers; ++i) callers.emplace_back(produce);
  for (int i = 0; i < kWorkers; ++i) callers.emplace_back(work, absl::StrCat("w", i));
  for (std::thread& caller : callers) caller.join();
  const runtime::LoopFigures figures = loop->metrics().Copy();
  EXPECT_EQ(Count(figures, engine::JobEvent::kEnqueued), kProducers * kJobsEach);
  EXPECT_EQ(Count(figures, engine::JobEvent::kGranted), kProducers * kJobsEach);
  EXPECT_EQ(Count(figures, engine::JobEvent::kCompleted), kProducers * kJobsEach);
}

TEST_P(BrokerThreadsTest, TheEndAnswersEveryCallThatWasTaken) {
  constexpr int kCallers = 4;
  constexpr int kCallsEach = 100;
  std::atomic<int> answered{0};
  ThreadedLoop broker(OpenStore());
  runtime::BrokerLoop* const loop = broker.loop();
  ASSERT_NE(loop, nullptr);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([loop, &answered] {
      const auto done = [&answered](const engine::Outcome&) { ++answered; };
      for (int call = 0; call < kCallsEach; ++call) {
        // Half of them wait for jobs that never come.
        const engine::Command command =
            call % 2 == 0
                ? engine::Command(Poll("empty", "w"))
                : engine::Command(engine::EnqueueCommand{"jobs", {BrokerHarness::Job()}, {}});
        ASSERT_TRUE(loop->Submit({command, done, nullptr, 100}).ok());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  broker.Stop();
  EXPECT_EQ(answered, kCallers * kCallsEach);
}

INSTANTIATE_TEST_SUITE_P(Stores, BrokerThreadsTest, ::testing::Values("memory", "rocksdb"),
                         [](const auto& chosen) { return std::string(chosen.param); });

// Every job is there once, although the disk is full again and again and callers repeat.
TEST(BrokerFaultThreadsTest, AFullDiskBesideCallersReadersAndAScrape) {
  constexpr int kCallers = 3;
  constexpr int kJobsEach = 60;
  std::atomic<int> syncs{0};
  storage::MemoryFaults faults;
  faults.before_sync = [&syncs](storage::Ticket) {
    return ++syncs % 7 == 0 ? absl::ResourceExhaustedError("full") : absl::OkStatus();
  };
  faults.kept_at_recover = [](size_t unsynced) { return unsynced; };
  ThreadedLoop broker(std::make_unique<storage::MemoryStore>(std::move(faults)));
  runtime::BrokerLoop* const loop = broker.loop();
  ASSERT_NE(loop, nullptr);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([loop, caller] {
      for (int i = 0; i < kJobsEach; ++i) {
        engine::RequestKey request;
        request.request_id = absl::StrCat(caller, "-", i);
        const engine::EnqueueCommand enqueue{"jobs", {BrokerHarness::Job()}, request};
        engine::Outcome outcome = Ask(loop, enqueue);
        while (ReasonOf(outcome.status) == Reason::kStoreRecovering) outcome = Ask(loop, enqueue);
        ASSERT_TRUE(outcome.status.ok()) << outcome.status;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_GE(syncs, 7);
  engine::Outcome stats = Ask(loop, engine::QueueStatsCommand{"jobs"});
  while (ReasonOf(stats.status) == Reason::kStoreRecovering) {
    stats = Ask(loop, engine::QueueStatsCommand{"jobs"});
  }
  ASSERT_TRUE(stats.status.ok()) << stats.status;
  EXPECT_EQ(std::get<engine::QueueStatsReply>(stats.body).counters.ready(), kCallers * kJobsEach);
}

TEST(BrokerFaultThreadsTest, AFailedStoreEndsEveryCallOnce) {
  std::atomic<int> syncs{0};
  storage::MemoryFaults faults;
  faults.before_sync = [&syncs](storage::Ticket) {
    return ++syncs >= 20 ? absl::InternalError("EIO") : absl::OkStatus();
  };
  std::atomic<int> fatal{0};
  runtime::LoopHooks hooks;
  hooks.on_fatal = [&fatal](const absl::Status&) { ++fatal; };
  ThreadedLoop broker(std::make_unique<storage::MemoryStore>(std::move(faults)), std::move(hooks));
  runtime::BrokerLoop* const loop = broker.loop();
  ASSERT_NE(loop, nullptr);
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([loop] {
      engine::Outcome outcome;
      while (outcome.status.ok()) {
        outcome = Ask(loop, engine::EnqueueCommand{"jobs", {BrokerHarness::Job()}, {}});
      }
      EXPECT_EQ(ReasonOf(outcome.status), Reason::kStoreFailed) << outcome.status;
    });
  }
  callers.emplace_back(
      [loop] { EXPECT_EQ(ReasonOf(Ask(loop, Poll("empty", "w")).status), Reason::kStoreFailed); });
  for (std::thread& caller : callers) caller.join();
  broker.Stop();
  EXPECT_EQ(fatal, 1);
}

class WatchedSession final : public runtime::Session {
 public:
  void OnVerdict(const engine::SessionVerdict& verdict) override {
    const MutexLock lock(mutex_);
    told_ = verdict.token;
    changed_.NotifyAll();
  }
  void OnTick(int64_t now_ms) override { heard_ms_ = now_ms; }
  void OnDrain(runtime::DrainCause /*cause*/) override {}
  int64_t LastHeardMs() const override { return heard_ms_; }
  void OnEnd(bool /*continued*/) override { ++ends_; }

  void AwaitVerdictOn(int64_t token) {
    const MutexLock lock(mutex_);
    while (told_ != token) changed_.Wait(mutex_);
  }
  int ends() const { return ends_; }

 private:
  Mutex mutex_;
  Condition changed_;
  int64_t told_ ABSL_GUARDED_BY(mutex_) = 0;
  std::atomic<int64_t> heard_ms_{0};
  std::atomic<int> ends_{0};
};

TEST(SessionThreadsTest, VerdictsTicksListsAndDrainsAtOnce) {
  constexpr int kSessions = 3;
  constexpr int kJobsEach = 40;
  runtime::Sessions sessions(&runtime::SystemClock());
  sessions.Start();
  runtime::LoopHooks hooks;
  hooks.on_verdict = [&sessions](const engine::SessionVerdict& verdict) { sessions.Tell(verdict); };
  ThreadedLoop broker(std::make_unique<storage::MemoryStore>(), std::move(hooks));
  runtime::BrokerLoop* const loop = broker.loop();
  ASSERT_NE(loop, nullptr);
  std::atomic<bool> over{false};
  std::thread watcher([&sessions, &over] {
    while (!over) {
      sessions.Tick();
      EXPECT_LE(sessions.List().size(), size_t{kSessions});
      sessions.DrainWorkers([](const runtime::SessionInfo& info) { return info.version == "old"; });
    }
  });
  const auto hold = [&sessions, loop](const std::string& worker) {
    const auto session = std::make_shared<WatchedSession>();
    const auto id = sessions.Open(session);
    ASSERT_TRUE(id.ok()) << id.status();
    ASSERT_TRUE(sessions.Introduce(*id, {"", worker, "old", {}, {worker}, 0}, 0).ok());
    for (int i = 0; i < kJobsEach; ++i) {
      ASSERT_TRUE(
          Ask(loop, engine::EnqueueCommand{worker, {BrokerHarness::Job()}, {}}).status.ok());
      engine::LeaseCommand poll = Poll(worker, worker);
      poll.session = *id;
      const auto granted = Ask(loop, poll);
      ASSERT_TRUE(granted.status.ok()) << granted.status;
      const auto lease = std::get<engine::LeaseReply>(granted.body).leases.at(0);
      ASSERT_TRUE(Ask(loop, engine::CancelCommand{BrokerHarness::Ref(lease), {}}).status.ok());
      session->AwaitVerdictOn(lease.token);
      ASSERT_TRUE(Ask(loop, Complete(lease)).status.ok());
    }
    sessions.EndContinued(*id);
    EXPECT_EQ(session->ends(), 1);
    sessions.Close(*id);
    ASSERT_TRUE(Ask(loop, engine::EndSessionCommand{*id, worker, std::nullopt}).status.ok());
  };
  std::vector<std::thread> holders;
  for (int i = 0; i < kSessions; ++i) holders.emplace_back(hold, absl::StrCat("w", i));
  for (std::thread& holder : holders) holder.join();
  over = true;
  watcher.join();
  sessions.DrainAll();
  EXPECT_EQ(sessions.size(), 0u);
  EXPECT_EQ(ReasonOf(sessions.Open({}).status()), Reason::kDraining);
}

}  // namespace
}  // namespace stint
