#include "tests/sim/callers.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/engine/limits.h"

namespace stint::sim {

using engine::Command;
using engine::Outcome;
using engine::SettleKind;

namespace {

constexpr size_t kRemembered = 40;

template <typename T>
void Keep(T value, std::vector<T>* in) {
  in->push_back(std::move(value));
  if (in->size() > kRemembered) in->erase(in->begin());
}

}  // namespace

void Callers::DoSomething() {
  int total = 0;
  for (const int weight : profile_->weights) total += weight;
  int64_t at = random_->Below(total);
  for (size_t i = 0; i < kActs; ++i) {
    at -= profile_->weights[i];
    if (at < 0) return Do(static_cast<Act>(i));
  }
}

void Callers::Do(Act act) {
  switch (act) {
    case Act::kEnqueue:
      return Enqueue();
    case Act::kLease:
      return Lease();
    case Act::kHeartbeat:
      return Heartbeat();
    case Act::kSettle:
      return Settle();
    case Act::kSettleAgain:
      return SettleAgain();
    case Act::kLie:
      return Lie();
    case Act::kForget:
      if (!held_.empty()) Keep(TakeHeld(static_cast<size_t>(random_->Next())), &past_);
      return;
    case Act::kCancel:
      return Send(engine::CancelCommand{AnyJob(), Key()});
    case Act::kRedrive:
      return Send(engine::RedriveCommand{AnyJob(), Key()});
    case Act::kDelete:
      return Send(engine::DeleteJobCommand{AnyJob(), random_->Chance(300), Key()});
    case Act::kUpdate:
      return Update();
    case Act::kBatch:
      return Batch();
    case Act::kWait:
      return broker_->Call(engine::WaitJobCommand{AnyJob(), random_->Pick(profile_->wait_ms)},
                           [](const Outcome*) {});
    case Act::kCreateQueue:
      return CreateOrUpdateQueue(true);
    case Act::kUpdateQueue:
      return CreateOrUpdateQueue(false);
    case Act::kDeleteQueue:
      return Send(engine::DeleteQueueCommand{AnyQueue(), random_->Chance(600), Key()});
    case Act::kPause:
      return Send(engine::PauseQueueCommand{AnyQueue(), true, Key()});
    case Act::kResume:
      return Send(engine::PauseQueueCommand{AnyQueue(), false, Key()});
    case Act::kPurge:
      return Send(engine::PurgeQueueCommand{AnyQueue(), random_->Chance(400), Key()});
    case Act::kStats:
      return broker_->Call(engine::QueueStatsCommand{AnyQueue()}, [](const Outcome*) {});
    case Act::kRepeat:
      return Repeat();
    case Act::kAbandon:
      return broker_->AbandonOne();
    case Act::kStream:
      return broker_->ActOnStream();
    case Act::kCount:
      return;
  }
}

engine::RequestKey Callers::Key() {
  engine::RequestKey key;
  if (!random_->Chance(profile_->request_ids)) return key;
  key.identity = random_->Chance(500) ? "alice" : "bob";
  // Now and then one that was used for something else.
  key.request_id =
      absl::StrCat("r", random_->Chance(20) ? random_->Between(0, requests_) : ++requests_);
  key.fingerprint = ++contents_;
  return key;
}

engine::JobRef Callers::AnyJob() {
  if (jobs_.empty() || random_->Chance(20)) {
    return {AnyQueue(), absl::StrCat("own", random_->Below(8))};
  }
  engine::JobRef job = random_->Pick(jobs_);
  if (random_->Chance(10)) job.queue = AnyQueue();
  return job;
}

Callers::Held Callers::TakeHeld(size_t i) {
  i %= held_.size();
  Held held = std::move(held_[i]);
  held_.erase(held_.begin() + static_cast<int64_t>(i));
  return held;
}

engine::NewJob Callers::NewJob() {
  engine::NewJob job;
  job.record.set_payload(absl::StrCat("p", ++payloads_, "."));
  if (random_->Chance(profile_->big_payloads)) job.record.mutable_payload()->append(6'000, 'x');
  job.record.set_priority(
      static_cast<int32_t>(random_->Chance(700) ? engine::kDefaultPriority : random_->Below(10)));
  if (random_->Chance(profile_->own_ids)) {
    job.record.set_job_id(absl::StrCat("own", random_->Below(8)));
  }
  if (random_->Chance(300)) {
    job.record.set_max_attempts(static_cast<int32_t>(random_->Between(1, 3)));
  }
  if (random_->Chance(300)) {
    job.record.set_max_losses(static_cast<int32_t>(random_->Between(1, 3)));
  }
  if (random_->Chance(200)) {
    job.record.set_loss_backoff_ms(random_->Pick<int64_t>({0, 200, 5'000}));
  }
  if (random_->Chance(100)) job.record.set_run_limit_ms(random_->Pick<int64_t>({1'000, 5'000}));
  if (random_->Chance(200)) {
    job.record.mutable_retry()->set_initial_delay_ms(random_->Pick<int64_t>({0, 1, 300}));
  }
  if (random_->Chance(100)) {
    job.delay_ms = random_->Pick<int64_t>({0, 1, 500, 20'000});
  } else if (random_->Chance(100)) {
    job.due_wall_ms = broker_->WallMs() + random_->Between(-2'000, 30'000);
  }
  if (random_->Chance(70)) {
    job.expire_after_ms = random_->Pick<int64_t>({1, 1'000, 20'000});
  } else if (random_->Chance(70)) {
    job.record.set_expiry_wall_ms(broker_->WallMs() + random_->Between(1, 20'000));
  }
  return job;
}

void Callers::Enqueue() {
  engine::EnqueueCommand enqueue;
  enqueue.queue = AnyQueue();
  const int64_t jobs = random_->Chance(700) ? 1 : random_->Between(1, 4);
  for (int64_t i = 0; i < jobs; ++i) enqueue.jobs.push_back(NewJob());
  enqueue.request = Key();
  Send(std::move(enqueue));
}

void Callers::Batch() {
  using Operation = engine::BatchCommand::Operation;
  engine::BatchCommand batch;
  if (run_.has_value() && random_->Chance(700)) {
    const auto& [last, reply] = *run_;
    batch = broker_->FindBatch(last.queue, last.operation, last.force, reply.bound,
                               reply.next_sequence);
    // The queue of that name may be another one by now.
    batch.queue_id = reply.queue_id;
    batch.dry_run = last.dry_run;
  } else {
    const std::string& queue = AnyQueue();
    const auto operation =
        random_->Pick<Operation>({Operation::kCancel, Operation::kRedrive, Operation::kDelete});
    batch = broker_->FindBatch(queue, operation, random_->Chance(500), 0, 0);
    batch.dry_run = random_->Chance(100);
  }
  run_.reset();
  batch.request = Key();
  Send(std::move(batch));
}

void Callers::Lease() {
  engine::LeaseCommand lease;
  lease.queues = {AnyQueue()};
  if (random_->Chance(300)) lease.queues.push_back(AnyQueue());
  if (random_->Chance(50)) lease.queues.insert(lease.queues.begin(), "nowhere");
  lease.max_jobs = static_cast<int32_t>(random_->Chance(600) ? 1 : random_->Between(1, 4));
  lease.lease_ms = random_->Pick(profile_->lease_ms);
  lease.wait_ms = random_->Pick(profile_->wait_ms);
  lease.worker = absl::StrCat("w", random_->Below(4));
  if (random_->Chance(profile_->request_ids)) lease.request_id = absl::StrCat("l", ++requests_);
  lease.max_reply_bytes =
      random_->Chance(200) ? engine::kMinReplyBytes : engine::kDefaultReplyBytes;
  Send(std::move(lease));
}

void Callers::Heartbeat() {
  engine::HeartbeatCommand beat;
  beat.worker = absl::StrCat("w", random_->Below(4));
  for (const Held& held : held_) {
    if (held.worker == beat.worker || random_->Chance(100)) {
      beat.items.push_back({held.job, held.token});
    }
  }
  // One that was given up, or is not its own.
  if (!past_.empty() && random_->Chance(400)) {
    const Held& past = random_->Pick(past_);
    beat.items.push_back({past.job, past.token});
  }
  broker_->Call(std::move(beat), [](const Outcome*) {});
}

engine::SettleItem Callers::RandomSettle(const Held& held) {
  engine::SettleItem item;
  item.job = held.job;
  item.token = held.token;
  const int64_t kind = random_->Below(10);
  item.kind = kind < 4   ? SettleKind::kComplete
              : kind < 8 ? SettleKind::kFail
                         : SettleKind::kRelease;
  if (item.kind == SettleKind::kComplete && random_->Chance(500)) {
    item.result = absl::StrCat("result ", held.token);
  }
  if (item.kind == SettleKind::kFail) {
    item.error = "it broke";
    item.no_retry = random_->Chance(100);
    if (random_->Chance(300)) item.delay_ms = random_->Pick<int64_t>({0, 1, 2'000});
  }
  if (item.kind == SettleKind::kRelease) {
    if (random_->Chance(300)) item.delay_ms = random_->Pick<int64_t>({0, 500});
    if (random_->Chance(200)) item.release_reason = engine::ReleaseReason::kKindUnknown;
  }
  return item;
}

void Callers::SendSettle(std::vector<engine::SettleItem> items) {
  if (items.empty()) return;
  Send(engine::SettleCommand{std::move(items)});
}

void Callers::Settle() {
  std::vector<engine::SettleItem> items;
  const int64_t count = random_->Chance(700) ? 1 : random_->Between(1, 4);
  for (int64_t i = 0; i < count && !held_.empty(); ++i) {
    const Held held = TakeHeld(static_cast<size_t>(random_->Next()));
    items.push_back(RandomSettle(held));
    Keep(held, &past_);
  }
  SendSettle(std::move(items));
}

// Late, twice, or something else than the first time.
void Callers::SettleAgain() {
  std::vector<engine::SettleItem> items;
  for (int64_t i = random_->Between(0, 2); i >= 0 && !past_.empty(); --i) {
    items.push_back(RandomSettle(random_->Pick(past_)));
  }
  SendSettle(std::move(items));
}

void Callers::Lie() {
  std::vector<Held> all = held_;
  all.insert(all.end(), past_.begin(), past_.end());
  if (all.empty()) return;
  Held lie = random_->Pick(all);
  switch (random_->Below(4)) {
    case 0:
      lie.token += random_->Between(-2, 2);
      break;
    case 1:
      lie.token = random_->Pick(all).token;
      break;
    case 2:
      lie.job = AnyJob();
      break;
    default:
      lie.token = 0;
      break;
  }
  if (random_->Chance(300)) {
    engine::HeartbeatCommand beat;
    beat.items.push_back({lie.job, lie.token});
    broker_->Call(std::move(beat), [](const Outcome*) {});
  } else {
    SendSettle({RandomSettle(lie)});
  }
}

void Callers::Update() {
  engine::UpdateJobCommand update;
  update.job = AnyJob();
  if (random_->Chance(300)) update.priority = static_cast<int32_t>(random_->Below(10));
  if (random_->Chance(300)) update.max_attempts = static_cast<int32_t>(random_->Between(1, 4));
  if (random_->Chance(300)) update.max_losses = static_cast<int32_t>(random_->Between(1, 4));
  if (random_->Chance(200)) {
    update.delay_ms = random_->Pick<int64_t>({0, 1, 3'000});
  } else if (random_->Chance(200)) {
    update.due_wall_ms = broker_->WallMs() + random_->Between(-1'000, 10'000);
  }
  update.request = Key();
  Send(std::move(update));
}

void Callers::CreateOrUpdateQueue(bool create) {
  const record::QueueSettings settings = RandomSettings(random_);
  if (create) return Send(engine::CreateQueueCommand{AnyQueue(), settings, Key()});
  engine::UpdateQueueCommand update;
  update.queue = AnyQueue();
  update.settings = settings;
  for (const char* field :
       {"*", "max_jobs", "max_attempts", "max_losses", "loss_backoff_ms", "retention"}) {
    if (random_->Chance(250)) update.fields.emplace_back(field);
  }
  if (random_->Chance(150)) update.draining = random_->Chance(400);
  if (random_->Chance(100)) update.expected_version = static_cast<uint64_t>(random_->Between(1, 4));
  update.request = Key();
  Send(std::move(update));
}

void Callers::Send(const Sent& sent) {
  broker_->Call(sent.command, [this, sent](const Outcome* outcome) { NoteAnswer(sent, outcome); });
}

void Callers::NoteAnswer(const Sent& sent, const Outcome* outcome) {
  const bool lost = outcome == nullptr || outcome->status.code() == absl::StatusCode::kUnavailable;
  if (lost || random_->Chance(100)) Keep(sent, &repeatable_);
  if (lost || !outcome->status.ok()) return;
  if (const auto* enqueued = std::get_if<engine::EnqueueReply>(&outcome->body)) {
    for (const engine::EnqueuedJob& job : enqueued->jobs) {
      Keep(engine::JobRef{enqueued->queue, job.job_id}, &jobs_);
    }
  } else if (const auto* step = std::get_if<engine::BatchReply>(&outcome->body)) {
    run_.reset();
    if (step->next_sequence != 0) {
      run_.emplace(std::get<engine::BatchCommand>(sent.command), *step);
    }
  } else if (const auto* leases = std::get_if<engine::LeaseReply>(&outcome->body)) {
    for (const engine::GrantedLease& lease : leases->leases) {
      Keep(Held{{lease.job.queue, lease.job.job_id}, lease.token, lease.job.state.worker()},
           &held_);
    }
  }
}

// When the request window is over, the answer to an enqueue with an id of its own does not tell
// whether it is repeated or there is a new job of that id.
bool Callers::WorthRepeating(const Sent& sent) const {
  const auto* enqueue = std::get_if<engine::EnqueueCommand>(&sent.command);
  if (enqueue == nullptr || enqueue->request.request_id.empty()) return true;
  const bool own_ids =
      std::any_of(enqueue->jobs.begin(), enqueue->jobs.end(),
                  [](const engine::NewJob& job) { return !job.record.job_id().empty(); });
  // Well before, since the call may wait its turn.
  return !own_ids ||
         broker_->NowMs() - sent.first_ms < profile_->options.engine.request_window_ms / 2;
}

void Callers::Repeat() {
  if (repeatable_.empty()) return;
  const size_t i = static_cast<size_t>(random_->Next()) % repeatable_.size();
  Sent sent = repeatable_[i];
  const bool worth = WorthRepeating(sent);
  if (!worth || random_->Chance(500)) {
    repeatable_.erase(repeatable_.begin() + static_cast<int64_t>(i));
  }
  if (!worth) return;
  std::visit(
      [this](auto& c) {
        if constexpr (requires { c.request; }) {
          // Other content under the same id.
          if (random_->Chance(100)) c.request.fingerprint = ++contents_;
        }
      },
      sent.command);
  Send(sent);
}

void Callers::WorkHonestly() {
  if (honest_calls_ > 0) return;
  ++honest_calls_;
  engine::LeaseCommand lease;
  lease.queues = profile_->queues;
  lease.max_jobs = 10;
  lease.lease_ms = engine::kDefaultLeaseMs;
  lease.wait_ms = 5'000;
  lease.worker = "honest";
  lease.max_reply_bytes = engine::kDefaultReplyBytes;
  broker_->Call(std::move(lease), [this](const Outcome* outcome) {
    --honest_calls_;
    if (outcome == nullptr || !outcome->status.ok()) return;
    engine::SettleCommand settle;
    for (const engine::GrantedLease& granted : std::get<engine::LeaseReply>(outcome->body).leases) {
      engine::SettleItem item;
      item.job = {granted.job.queue, granted.job.job_id};
      item.token = granted.token;
      settle.items.push_back(std::move(item));
    }
    if (!settle.items.empty()) broker_->Call(std::move(settle), [](const Outcome*) {});
  });
}

}  // namespace stint::sim
