// How the loop applies one group: which commands, in which order, until each is done, parked
// or carried over into the next group.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/engine/error.h"
#include "server/runtime/loop.h"

namespace stint::runtime {

using engine::Outcome;
using engine::Reason;
using engine::Verdict;

namespace {

// Rounds of fetching for one group. What needs more is applied again in the next one.
constexpr int kMaxRounds = 4;
// More groups than any command needs; a sign of a mistake, not of load.
constexpr int kMaxCarried = 100;

absl::Status JobGone() {
  return engine::MakeError(Reason::kJobNotFound, "the job was removed before it ended");
}

}  // namespace

void Loop::StartDraining(std::vector<Item>* items) {
  draining_ = true;
  engine_.set_draining(true);
  runnable_.clear();
  for (Item& item : std::exchange(*items, {})) {
    if (item.parked.has_value()) {
      EndWait(*std::move(item.parked), items);
    } else {
      items->push_back(std::move(item));
    }
  }
  for (ParkedCall& parked : matcher_.TakeAll()) EndWait(std::move(parked), items);
}

void Loop::EndWait(ParkedCall parked, std::vector<Item>* items) {
  if (parked.job.has_value()) {
    // Answered with the job as it is.
    engine_.Unwatch(*parked.job);
    std::get<engine::WaitJobCommand>(parked.call.command).wait_ms = 0;
  } else if (draining_) {
    Answer(&parked.call, {absl::OkStatus(), engine::LeaseReply{}});
    return;
  } else {
    // A last look: leases that an earlier sending of the same call was given are its own.
    std::get<engine::LeaseCommand>(parked.call.command).wait_ms = 0;
  }
  Item item;
  item.call = std::move(parked.call);
  items->push_back(std::move(item));
}

const engine::Command& Loop::Item::command() const {
  if (call.has_value()) return call->command;
  if (parked.has_value()) return parked->call.command;
  return own;
}

bool Loop::OpenGroup(const engine::Now& now) {
  open_.emplace();
  served_ = 0;
  std::vector<Item> items = std::exchange(carried_, {});
  std::vector<Item> due = std::exchange(carried_due_, {});
  if (drain_asked_.load() && !draining_) StartDraining(&items);
  for (ParkedCall& parked : matcher_.TakeExpired(now.broker_ms)) {
    EndWait(std::move(parked), &items);
  }
  for (Call& call : inbox_.Take()) {
    Item item;
    item.call = std::move(call);
    items.push_back(std::move(item));
  }
  for (engine::Command& command :
       engine_.DueCommands(now, engine::kMaxGroupOperations / 4, !hold_lapses_)) {
    Item item;
    item.own = std::move(command);
    due.push_back(std::move(item));
  }
  if (items.empty() && due.empty() && runnable_.empty() && !write_trailer_ &&
      open_->replies.empty()) {
    open_.reset();
    return false;
  }
  size_t operations = due.size();
  for (const Item& item : items) operations += OperationsOf(item.command());
  if (absl::Status s = ApplyAll(&items, &due, now); !s.ok()) {
    // Calls that have not been answered in this group get the same answer as those that have.
    for (std::vector<Item>* list : {&items, &due}) {
      for (Item& item : *list) {
        if (item.done) continue;
        if (item.call.has_value()) Answer(&*item.call, {});
        if (item.parked.has_value()) Answer(&item.parked->call, {});
      }
    }
    failure_ = std::move(s);
    return true;
  }
  open_->writes = engine_.HasChanges() || write_trailer_;
  open_->figures.operations = operations + served_;
  open_->verdicts = engine_.TakeVerdicts();
  return true;
}

absl::Status Loop::ApplyAll(std::vector<Item>* items, std::vector<Item>* due,
                            const engine::Now& now) {
  rows_.Forget(synced_group());
  rows_.BeginGroup();
  int rounds = 0;
  while (ApplyPass(items, due, now) && rows_.HasNeeds() && rounds < kMaxRounds) {
    if (absl::Status s = rows_.Fetch(*store_); !s.ok()) return s;
    ++rounds;
  }
  if (absl::Status s = Carry(items, &carried_); !s.ok()) return s;
  return Carry(due, &carried_due_);
}

bool Loop::ApplyPass(std::vector<Item>* items, std::vector<Item>* due, const engine::Now& now) {
  engine_.BeginPass();
  bool settle_pending = false;
  for (Item& item : *items) {
    if (!item.done && !item.again) ApplyItem(&item, now);
    settle_pending = settle_pending || (!item.done && LaneOf(item.command()) == Lane::kSettle);
  }
  // Settles and heartbeats come before the lapses they prevent.
  for (Item& item : *due) {
    if (!item.done && !settle_pending) ApplyItem(&item, now);
  }
  AnswerEnded();
  ServeWoken(items, now);
  const auto needs_rows = [](const Item& item) { return !item.done && !item.again; };
  return std::any_of(items->begin(), items->end(), needs_rows) ||
         std::any_of(due->begin(), due->end(), needs_rows);
}

absl::Status Loop::Carry(std::vector<Item>* items, std::vector<Item>* carried) {
  for (Item& item : *items) {
    if (item.done) continue;
    if (!std::exchange(item.again, false) && ++item.carried > kMaxCarried) {
      return absl::InternalError("a command does not come to an end; this is a bug");
    }
    carried->push_back(std::exchange(item, Item()));
    item.done = true;
  }
  return absl::OkStatus();
}

void Loop::ApplyItem(Item* item, const engine::Now& now) {
  Call* call = item->call.has_value()     ? &*item->call
               : item->parked.has_value() ? &item->parked->call
                                          : nullptr;
  if (call != nullptr && call->abandoned && call->abandoned()) {
    Answer(call, {CallExpired(), {}});
    item->done = true;
    return;
  }
  if (item->call.has_value()) EndEarlierSending(item->command());
  engine::Result result = engine_.Apply(item->command(), now);
  switch (result.verdict) {
    case Verdict::kNeedsRows:
      return;
    case Verdict::kAgain:
      item->again = true;
      return;
    case Verdict::kParked:
      item->done = true;
      ParkItem(item, result, now);
      return;
    case Verdict::kDone:
      item->done = true;
      if (call == nullptr) {
        if (!result.outcome.status.ok() && hooks_.on_notice) {
          hooks_.on_notice(std::string(result.outcome.status.message()));
        }
        return;
      }
      if (auto* info = std::get_if<engine::ServerInfoReply>(&result.outcome.body)) {
        info->parked_calls = static_cast<int64_t>(matcher_.size());
        info->synced_group = synced_group();
      }
      Answer(call, std::move(result.outcome));
      return;
  }
}

void Loop::EndEarlierSending(const engine::Command& command) {
  const auto* lease = std::get_if<engine::LeaseCommand>(&command);
  if (lease == nullptr) return;
  // Whoever repeats a call does not read the answer to the first. A job given to that one
  // would wait for its lease to lapse once the repeat has said that there is none.
  if (auto earlier = matcher_.TakeEarlierSending(*lease)) {
    Answer(&earlier->call, {absl::OkStatus(), engine::LeaseReply{}});
  }
}

void Loop::ParkItem(Item* item, const engine::Result& result, const engine::Now& now) {
  if (item->parked.has_value()) {
    matcher_.Park(*std::move(item->parked));
    return;
  }
  Call* call = &*item->call;
  if (draining_) {
    // No wait begins any more: it is answered with the job as it is.
    std::get<engine::WaitJobCommand>(call->command).wait_ms = 0;
    item->done = false;
    ApplyItem(item, now);
    return;
  }
  if (matcher_.size() >= options_.max_parked_calls ||
      (matcher_.size() > 0 &&
       matcher_.bytes() + Matcher::BytesOf(*call) > options_.max_parked_bytes)) {
    engine::ErrorDetails details;
    details.reason = Reason::kOverloaded;
    details.retry_after_ms = engine::kSecondMs;
    Answer(call, {engine::MakeError(std::move(details),
                                    absl::StrCat(matcher_.size(), " calls are waiting already; ",
                                                 "call again without a wait, or later")),
                  {}});
    return;
  }
  ParkedCall parked;
  if (const auto* wait = std::get_if<engine::WaitJobCommand>(&call->command)) {
    parked.id = matcher_.NextId();
    parked.job = result.parked_job;
    parked.deadline_ms = now.broker_ms + wait->wait_ms;
    engine_.Watch(result.parked_job);
  } else {
    const auto& lease = std::get<engine::LeaseCommand>(call->command);
    parked.id = matcher_.NextId(lease.last_in_line);
    parked.deadline_ms = now.broker_ms + lease.wait_ms;
  }
  parked.call = std::move(*call);
  matcher_.Park(std::move(parked));
}

void Loop::ServeWoken(std::vector<Item>* items, const engine::Now& now) {
  for (std::string& queue : engine_.TakeWoken()) runnable_.insert(std::move(queue));
  if (draining_) runnable_.clear();
  for (auto it = runnable_.begin(); it != runnable_.end();) {
    const std::string& queue = *it;
    bool none_for_it = false;
    while (!none_for_it && engine_.UnclaimedIn(queue) > 0) {
      // The rest of a long line goes into the next group.
      if (served_ >= engine::kMaxGroupOperations) return;
      Item item;
      item.parked = matcher_.TakeFirst(queue);
      if (!item.parked.has_value()) break;
      served_ +=
          std::min(OperationsOf(item.command()), static_cast<size_t>(engine_.UnclaimedIn(queue)));
      const size_t waiting = matcher_.size();
      ApplyItem(&item, now);
      none_for_it = matcher_.size() > waiting;  // it waits again
      if (!item.done) items->push_back(std::move(item));
    }
    // Calls may leave some of what they claim, so that is looked at again.
    const bool over = none_for_it || engine_.ReadyIn(queue) == 0 || !matcher_.HasWaiters(queue);
    it = over ? runnable_.erase(it) : std::next(it);
  }
}

void Loop::AnswerEnded() {
  for (engine::EndedJob& ended : engine_.TakeEnded()) {
    for (ParkedCall& parked : matcher_.TakeWaitersOf(ended.key)) {
      engine_.Unwatch(ended.key);
      if (ended.reply.has_value()) {
        Answer(&parked.call, {absl::OkStatus(), *ended.reply});
      } else {
        Answer(&parked.call, {JobGone(), {}});
      }
    }
  }
}

void Loop::Answer(Call* call, Outcome outcome) {
  open_->replies.push_back({std::move(call->done), std::move(outcome)});
}

}  // namespace stint::runtime
