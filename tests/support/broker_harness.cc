#include "tests/support/broker_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <variant>

namespace stint::testing {

bool ManualExecutor::RunOne() {
  if (posted_.empty()) return false;
  const std::function<void()> work = std::move(posted_.front());
  posted_.pop_front();
  work();
  return true;
}

BrokerHarness::BrokerHarness(runtime::LoopOptions options, storage::MemoryFaults faults)
    : options_(std::move(options)) {
  Open(std::make_unique<storage::MemoryStore>(std::move(faults)));
}

BrokerHarness::~BrokerHarness() { executor_.Clear(); }

void BrokerHarness::Open(std::unique_ptr<storage::MemoryStore> store) {
  executor_.Clear();
  loop_.reset();
  store_ = std::move(store);
  runtime::LoopHooks hooks;
  hooks.entropy = 42;
  hooks.on_notice = [this](const std::string& line) { notices_.push_back(line); };
  hooks.on_fatal = [this](const absl::Status& why) { fatal_ = why; };
  hooks.on_verdict = [this](engine::SessionVerdict verdict) {
    if (on_verdict_) on_verdict_(std::move(verdict));
  };
  loop_ = std::make_unique<runtime::Loop>(store_.get(), &clock_, &executor_, options_, hooks);
  const absl::Status started = loop_->Start();
  EXPECT_TRUE(started.ok()) << started;
}

std::shared_ptr<PendingCall> BrokerHarness::Start(engine::Command command) {
  auto pending = Submit(std::move(command));
  Settle();
  return pending;
}

std::shared_ptr<PendingCall> BrokerHarness::Submit(engine::Command command) {
  auto pending = std::make_shared<PendingCall>();
  runtime::Call call;
  call.command = std::move(command);
  call.done = [pending](engine::Outcome outcome) {
    EXPECT_FALSE(pending->outcome.has_value()) << "answered twice";
    pending->outcome = std::move(outcome);
  };
  call.abandoned = [pending] { return pending->abandoned; };
  if (absl::Status refused = loop_->Submit(std::move(call)); !refused.ok()) {
    pending->outcome = engine::Outcome{std::move(refused), {}};
  }
  return pending;
}

engine::Outcome BrokerHarness::Call(engine::Command command) {
  const auto pending = Start(std::move(command));
  if (!pending->outcome.has_value()) {
    ADD_FAILURE() << "the call waits";
    return {absl::InternalError("the call waits"), {}};
  }
  return *std::move(pending->outcome);
}

bool BrokerHarness::Step() {
  const uint64_t before = loop_->rows().rounds();
  const bool stepped = loop_->Step();
  most_rounds_ = std::max(most_rounds_, loop_->rows().rounds() - before);
  return stepped;
}

void BrokerHarness::Settle() {
  while (true) {
    const bool stepped = Step();
    if (stepped && late_syncs_) continue;
    const bool ran = executor_.RunOne();
    if (!stepped && !ran) return;
  }
}

void BrokerHarness::Advance(int64_t ms, int64_t step_ms) {
  while (ms > 0) {
    const int64_t step = std::min(ms, step_ms);
    clock_.boot_ms += step;
    clock_.wall_ms += step;
    ms -= step;
    Settle();
  }
}

void BrokerHarness::StepWall(int64_t ms) {
  clock_.wall_ms += ms;
  Settle();
}

void BrokerHarness::Freeze(int64_t ms) {
  clock_.boot_ms += ms;
  clock_.wall_ms += ms;
}

void BrokerHarness::Crash(int64_t down_ms, size_t unsynced_kept) {
  std::unique_ptr<storage::MemoryStore> next = store_->CrashCopy(unsynced_kept);
  clock_.boot_ms += down_ms;
  clock_.wall_ms += down_ms;
  Open(std::move(next));
}

engine::NewJob BrokerHarness::Job(std::string payload) {
  engine::NewJob job;
  job.record.set_payload(std::move(payload));
  job.record.set_priority(engine::kDefaultPriority);
  return job;
}

engine::EnqueueReply BrokerHarness::EnqueueMany(const std::string& queue,
                                                std::vector<engine::NewJob> jobs) {
  engine::Outcome outcome = Call(engine::EnqueueCommand{queue, std::move(jobs), {}});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  if (!outcome.status.ok()) return {};
  return std::get<engine::EnqueueReply>(std::move(outcome.body));
}

engine::EnqueueReply BrokerHarness::Enqueue(const std::string& queue, engine::NewJob job) {
  std::vector<engine::NewJob> jobs;
  jobs.push_back(std::move(job));
  return EnqueueMany(queue, std::move(jobs));
}

engine::LeaseCommand BrokerHarness::LeaseCall(const std::string& queue, int64_t wait_ms,
                                              const std::string& worker) {
  engine::LeaseCommand lease;
  lease.queues = {queue};
  lease.max_jobs = 1;
  lease.lease_ms = engine::kDefaultLeaseMs;
  lease.wait_ms = wait_ms;
  lease.worker = worker;
  lease.max_reply_bytes = engine::kDefaultReplyBytes;
  return lease;
}

std::vector<engine::GrantedLease> BrokerHarness::Lease(const std::string& queue, int jobs,
                                                       int64_t lease_ms,
                                                       const std::string& worker) {
  engine::LeaseCommand lease = LeaseCall(queue, 0, worker);
  lease.max_jobs = jobs;
  lease.lease_ms = lease_ms;
  engine::Outcome outcome = Call(std::move(lease));
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  if (!outcome.status.ok()) return {};
  return std::get<engine::LeaseReply>(std::move(outcome.body)).leases;
}

engine::SettleResult BrokerHarness::Settle(engine::SettleItem item) {
  engine::SettleCommand settle;
  settle.items.push_back(std::move(item));
  engine::Outcome outcome = Call(std::move(settle));
  if (!outcome.status.ok()) return {outcome.status, {}, {}, {}, 0, 0};
  return std::get<engine::SettleReply>(std::move(outcome.body)).results.front();
}

engine::SettleItem BrokerHarness::Completion(const engine::GrantedLease& lease,
                                             std::string result) {
  engine::SettleItem item;
  item.job = Ref(lease);
  item.token = lease.token;
  item.kind = engine::SettleKind::kComplete;
  item.result = std::move(result);
  return item;
}

engine::SettleResult BrokerHarness::Complete(const engine::GrantedLease& lease,
                                             std::string result) {
  return Settle(Completion(lease, std::move(result)));
}

engine::SettleResult BrokerHarness::Fail(const engine::GrantedLease& lease,
                                         std::optional<int64_t> retry_after_ms, bool no_retry) {
  engine::SettleItem item;
  item.job = Ref(lease);
  item.token = lease.token;
  item.kind = engine::SettleKind::kFail;
  item.error = "failed by the test";
  item.delay_ms = retry_after_ms;
  item.no_retry = no_retry;
  return Settle(std::move(item));
}

engine::SettleResult BrokerHarness::Release(const engine::GrantedLease& lease,
                                            std::optional<int64_t> delay_ms) {
  engine::SettleItem item;
  item.job = Ref(lease);
  item.token = lease.token;
  item.kind = engine::SettleKind::kRelease;
  item.delay_ms = delay_ms;
  return Settle(std::move(item));
}

engine::LeaseStatus BrokerHarness::Heartbeat(const engine::GrantedLease& lease) {
  engine::HeartbeatCommand heartbeat;
  heartbeat.worker = lease.job.state.worker();
  heartbeat.items.push_back({Ref(lease), lease.token});
  engine::Outcome outcome = Call(std::move(heartbeat));
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  if (!outcome.status.ok()) return engine::LeaseStatus::kLost;
  return std::get<engine::HeartbeatReply>(outcome.body).statuses.front();
}

engine::JobSnapshot BrokerHarness::Get(const std::string& queue, const std::string& job_id) {
  engine::Outcome outcome = Call(engine::WaitJobCommand{{queue, job_id}, 0});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  if (!outcome.status.ok()) return {};
  return std::get<engine::JobReply>(std::move(outcome.body)).job;
}

engine::QueueStatsReply BrokerHarness::Stats(const std::string& queue) {
  engine::Outcome outcome = Call(engine::QueueStatsCommand{queue});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status;
  if (!outcome.status.ok()) return {};
  return std::get<engine::QueueStatsReply>(std::move(outcome.body));
}

absl::Status BrokerHarness::Check() {
  Settle();
  if (!loop_->Idle()) return absl::InternalError("the loop is not at rest");
  return loop_->engine().CheckInvariants(*store_);
}

}  // namespace stint::testing
