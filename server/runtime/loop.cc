#include "server/runtime/loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/error.h"
#include "server/engine/policy.h"

namespace stint::runtime {

using engine::Reason;

namespace {

// How often the loop looks around by itself. Well under kStallMs, so that waiting for calls
// is never taken for a stall.
constexpr int64_t kLongestWaitMs = 500;

absl::Status Unavailable(Reason reason, absl::string_view message) {
  engine::ErrorDetails details;
  details.reason = reason;
  details.retry_after_ms = engine::kSecondMs;
  return engine::MakeError(std::move(details), message);
}

absl::Status Recovering() {
  return Unavailable(Reason::kStoreRecovering,
                     "the disk is full and the store is being opened again: outcome unknown, "
                     "repeat the call with the same request_id or token");
}

}  // namespace

absl::Status CallExpired() {
  return engine::MakeError(Reason::kCallExpired,
                           "nobody waited for the answer any more; the call had no effect");
}

Loop::Loop(storage::Store* store, const Clock* clock, Executor* executor,
           const LoopOptions& options, LoopHooks hooks)
    : store_(store),
      clock_(clock),
      executor_(executor),
      options_(options),
      hooks_(std::move(hooks)),
      engine_(options.engine, &rows_),
      broker_time_(clock),
      inbox_(options.inbox),
      metrics_(options.labelled_queues),
      boot_id_(clock->BootId()) {}

Loop::~Loop() = default;

absl::Status Loop::Start() {
  // The engine needs the time to load, and the time goes on from what it loads.
  auto row = store_->MultiGet({storage::MetaKey(storage::kGroupRow)});
  if (!row.ok()) return row.status();
  record::GroupRecord last;
  if (row->front().has_value()) last.ParseFromString(*row->front());
  broker_time_.Start(last);
  if (absl::Status s = engine_.Load(*store_, Now()); !s.ok()) return s;
  last_group_ = engine_.loaded_group().group();
  synced_.store(last_group_, std::memory_order_release);
  last_pass_boot_ms_ = last_second_boot_ms_ = clock_->BootMs();
  last_progress_ms_.store(last_pass_boot_ms_);
  metrics_.Load(engine_.TakeEffects());
  const storage::Space space = store_->CheckSpace();
  engine_.set_low_space(space.low);
  metrics_.Tick(last_pass_boot_ms_, space);
  started_.store(true);
  return absl::OkStatus();
}

absl::Status Loop::Submit(Call call) {
  if (!started_.load()) {
    return Unavailable(Reason::kStarting, "the broker is starting; try again in a moment");
  }
  unanswered_.fetch_add(1);
  absl::Status pushed = inbox_.Push(std::move(call));
  if (!pushed.ok()) unanswered_.fetch_sub(1);
  return pushed;
}

void Loop::BeginDrain() {
  drain_asked_.store(true);
  inbox_.Wake();
}

bool Loop::Drained() const { return drain_asked_.load() && unanswered_.load() == 0; }

engine::Now Loop::Now() {
  return {broker_time_.NowMs(), clock_->WallMs(), engine::Mix(hooks_.entropy, ++passes_)};
}

bool Loop::Step() {
  const bool worked = Pass();
  if (worked || syncing_ == nullptr) last_progress_ms_.store(clock_->BootMs());
  return worked;
}

bool Loop::Pass() {
  if (failed_ || !started_) return false;
  bool worked = FinishSync();
  if (failed_) return false;
  if (!failure_.ok() && syncing_ == nullptr) {
    StoreFailed(std::exchange(failure_, absl::OkStatus()));
    return true;
  }
  if (recovering_) return Reopen();
  // Nothing more can be decided until the group in sync is durable; the pass is not complete.
  if (open_.has_value() && syncing_ != nullptr) return worked;

  const engine::Now now = Now();
  NoticeStall(now);
  EverySecond(now);
  if (!failure_.ok()) return syncing_ == nullptr;
  if (!open_.has_value()) worked = OpenGroup(now) || worked;
  if (failed_) return false;
  if (!failure_.ok()) return true;
  if (open_.has_value() && syncing_ == nullptr) {
    CommitGroup();
    worked = true;
  }
  return worked;
}

int64_t Loop::WaitMs() {
  if (open_.has_value()) return kLongestWaitMs;  // woken when the sync has returned
  if (!carried_.empty() || !carried_due_.empty()) return 0;
  const engine::Now now = Now();
  int64_t wait = kLongestWaitMs;
  const int64_t next = std::min(engine_.NextDueMs(now), matcher_.NextMs());
  if (next != INT64_MAX) wait = std::min(wait, next - now.broker_ms);
  if (trailer_at_ms_ != INT64_MAX) wait = std::min(wait, trailer_at_ms_ - clock_->BootMs());
  return std::max<int64_t>(0, wait);
}

bool Loop::FinishSync() {
  absl::Status result;
  {
    const MutexLock lock(sync_mutex_);
    if (!sync_result_.has_value()) return false;
    result = *std::move(sync_result_);
    sync_result_.reset();
  }
  if (result.ok()) {
    syncing_.reset();
  } else {
    StoreFailed(result);
  }
  return true;
}

void Loop::StoreFailed(const absl::Status& why) {
  if (absl::IsResourceExhausted(why)) {
    Recover(why);
  } else {
    Fail(why);
  }
}

void Loop::NoticeStall(const engine::Now& now) {
  // From one pass's look at the clock to the next one's, so that a stall in the middle of a
  // pass is seen as well.
  const int64_t boot_ms = clock_->BootMs();
  const int64_t gap_ms = boot_ms - std::exchange(last_pass_boot_ms_, boot_ms);
  hold_lapses_ = gap_ms > engine::kStallMs;
  if (!hold_lapses_) return;
  engine_.ForgiveStall(gap_ms, now);
  metrics_.CountStall(gap_ms);
  if (hooks_.on_notice && engine_.lease_count() > 0) {
    hooks_.on_notice(absl::StrCat("the broker stood still for ", gap_ms,
                                  " ms; every lease gets that time back"));
  }
}

void Loop::EverySecond(const engine::Now& now) {
  const int64_t boot_ms = clock_->BootMs();
  if (boot_ms >= trailer_at_ms_) {
    write_trailer_ = true;
    trailer_at_ms_ = INT64_MAX;
  }
  if (boot_ms - last_second_boot_ms_ < engine::kSecondMs) return;
  last_second_boot_ms_ = boot_ms;
  const storage::Space space = store_->CheckSpace();
  engine_.set_low_space(space.low);
  metrics_.Tick(boot_ms, space);
  if (space.tight) engine_.GiveUpHistory(now);
  if (space.stuck) {
    failure_ = absl::ResourceExhaustedError("what was deleted gives no space back until then");
  }
  // Broker time on disk keeps up while anything waits for it.
  if (engine_.HasPending()) write_trailer_ = true;
  for (ParkedCall& gone : matcher_.TakeAbandoned()) {
    if (gone.job.has_value()) engine_.Unwatch(*gone.job);
    std::vector<Reply> reply;
    reply.push_back({std::move(gone.call.done), {CallExpired(), {}}});
    Publish(&reply);
  }
  // Wake-ups are for speed; this look is for correctness.
  for (const std::string& queue : matcher_.Queues()) {
    if (engine_.ReadyIn(queue) > 0) runnable_.insert(queue);
  }
}

void Loop::CommitGroup() {
  if (!open_->writes) {
    metrics_.CountGroup(engine_.TakeEffects(), nullptr);
    Group group = *std::move(open_);
    open_.reset();
    Publish(&group);
    return;
  }
  const engine::Now now = Now();
  engine::GroupStamp stamp;
  stamp.mark = {++last_group_, synced_group()};
  stamp.now = now;
  stamp.boot_ms = clock_->BootMs();
  stamp.boot_id = boot_id_;
  engine_.FinishGroup(stamp);
  const storage::Batch batch = rows_.Seal(stamp.mark);
  const absl::StatusOr<storage::Ticket> ticket = store_->Commit(batch, store_->epoch());
  if (!ticket.ok()) {
    StoreFailed(ticket.status());
    return;
  }
  // A trailer needs no trailer of its own.
  trailer_at_ms_ =
      open_->replies.empty() && write_trailer_ ? INT64_MAX : stamp.boot_ms + options_.trailer_ms;
  write_trailer_ = false;
  open_->number = last_group_;
  open_->effects = engine_.TakeEffects();
  open_->figures.bytes = batch.bytes();
  syncing_ = std::make_shared<Group>(*std::move(open_));
  open_.reset();
  executor_->Post([this, ticket = *ticket, group = syncing_, began_us = clock_->BootMicros()] {
    absl::Status synced = store_->Sync(ticket);
    if (synced.ok()) {
      synced_.store(group->number, std::memory_order_release);
      // Before the answers: who has one finds it counted.
      group->figures.commit_us = clock_->BootMicros() - began_us;
      metrics_.CountGroup(group->effects, &group->figures);
      Publish(group.get());
    }
    {
      const MutexLock lock(sync_mutex_);
      sync_result_ = std::move(synced);
    }
    inbox_.Wake();
  });
}

void Loop::Publish(Group* group) {
  Publish(&group->replies);
  for (engine::SessionVerdict& verdict : group->verdicts) {
    if (hooks_.on_verdict) hooks_.on_verdict(std::move(verdict));
  }
}

void Loop::Publish(std::vector<Reply>* replies) {
  for (Reply& reply : *replies) {
    reply.done(std::move(reply.outcome));
    unanswered_.fetch_sub(1);
  }
  replies->clear();
}

void Loop::AnswerGroups(const absl::Status& status) {
  for (Group* group : {syncing_.get(), open_.has_value() ? &*open_ : nullptr}) {
    if (group == nullptr) continue;
    for (Reply& reply : group->replies) reply.outcome = {status, {}};
    Publish(&group->replies);
  }
  syncing_.reset();
  open_.reset();
}

void Loop::Recover(const absl::Status& why) {
  if (hooks_.on_notice) {
    hooks_.on_notice(absl::StrCat("the disk is full (", why.message(),
                                  "); opening the store again in low space"));
  }
  AnswerGroups(Recovering());
  recovering_ = true;
  last_reopen_boot_ms_ = 0;
  Reopen();
}

bool Loop::Reopen() {
  std::vector<Reply> replies;
  for (Call& call : inbox_.Take()) replies.push_back({std::move(call.done), {Recovering(), {}}});
  const bool worked = !replies.empty();
  Publish(&replies);
  const int64_t boot_ms = clock_->BootMs();
  if (last_reopen_boot_ms_ != 0 && boot_ms - last_reopen_boot_ms_ < engine::kSecondMs) {
    return worked;
  }
  last_reopen_boot_ms_ = boot_ms;
  absl::Status opened = store_->Recover();
  // There may be no room even to open: try again until there is.
  if (absl::IsResourceExhausted(opened)) return worked;
  if (opened.ok()) opened = engine_.Load(*store_, Now());
  if (!opened.ok()) {
    Fail(opened);
    return true;
  }
  recovering_ = false;
  last_group_ = engine_.loaded_group().group();
  metrics_.Load(engine_.TakeEffects());
  synced_.store(last_group_, std::memory_order_release);
  engine_.set_draining(draining_);
  engine_.set_low_space(store_->CheckSpace().low);
  write_trailer_ = false;
  trailer_at_ms_ = INT64_MAX;
  last_pass_boot_ms_ = clock_->BootMs();
  return true;
}

void Loop::Fail(const absl::Status& why) {
  Abort(Unavailable(Reason::kStoreFailed,
                    "the store failed: outcome unknown, repeat the call with the same "
                    "request_id or token when the broker is back"));
  if (hooks_.on_fatal) hooks_.on_fatal(why);
}

void Loop::Abort(const absl::Status& reason) {
  failed_ = true;
  inbox_.Close(reason);
  AnswerGroups(reason);
  std::vector<Reply> replies;
  while (!inbox_.empty()) {
    for (Call& call : inbox_.Take()) replies.push_back({std::move(call.done), {reason, {}}});
  }
  for (ParkedCall& parked : matcher_.TakeAll()) {
    replies.push_back({std::move(parked.call.done), {reason, {}}});
  }
  for (Item& item : std::exchange(carried_, {})) {
    Call& call = item.call.has_value() ? *item.call : item.parked->call;
    replies.push_back({std::move(call.done), {reason, {}}});
  }
  Publish(&replies);
}

}  // namespace stint::runtime
