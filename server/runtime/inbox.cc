#include "server/runtime/inbox.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/engine/error.h"

namespace stint::runtime {
namespace {

// A renewal takes far less of the loop than a settle, but a lane full of long heartbeats would
// otherwise keep settles and other heartbeats waiting for longer than a lease.
constexpr size_t kHeartbeatItemsPerPlace = 16;

}  // namespace

Lane LaneOf(const engine::Command& command) {
  if (std::holds_alternative<engine::SettleCommand>(command) ||
      std::holds_alternative<engine::HeartbeatCommand>(command) ||
      std::holds_alternative<engine::EndSessionCommand>(command)) {
    return Lane::kSettle;
  }
  if (std::holds_alternative<engine::LeaseCommand>(command)) return Lane::kDispatch;
  return Lane::kOther;
}

size_t OperationsOf(const engine::Command& command) {
  if (const auto* settle = std::get_if<engine::SettleCommand>(&command)) {
    return settle->items.size();
  }
  if (const auto* enqueue = std::get_if<engine::EnqueueCommand>(&command)) {
    return enqueue->jobs.size();
  }
  if (const auto* lease = std::get_if<engine::LeaseCommand>(&command)) {
    return static_cast<size_t>(lease->max_jobs);
  }
  if (const auto* batch = std::get_if<engine::BatchCommand>(&command)) {
    return std::max<size_t>(1, batch->sequences.size());
  }
  if (const auto* end = std::get_if<engine::EndSessionCommand>(&command)) {
    return end->grace_ms.has_value() ? 1 : engine::kMaxSessionReleases;
  }
  return std::holds_alternative<engine::HeartbeatCommand>(command) ? 0 : 1;
}

size_t PlacesOf(const engine::Command& command) {
  if (const auto* heartbeat = std::get_if<engine::HeartbeatCommand>(&command)) {
    return 1 + heartbeat->items.size() / kHeartbeatItemsPerPlace;
  }
  const bool one = std::holds_alternative<engine::LeaseCommand>(command) ||
                   std::holds_alternative<engine::EndSessionCommand>(command);
  return one ? 1 : std::max<size_t>(1, OperationsOf(command));
}

absl::Status Inbox::Push(Call call) {
  bool wanted = false;
  {
    const MutexLock lock(mutex_);
    if (!closed_.ok()) return closed_;
    LaneState& lane = lanes_[static_cast<size_t>(LaneOf(call.command))];
    const size_t places = PlacesOf(call.command);
    if (!lane.calls.empty() && (lane.places + places > limits_.lane_operations ||
                                lane.bytes + call.bytes > limits_.lane_bytes)) {
      engine::ErrorDetails details;
      details.reason = engine::Reason::kOverloaded;
      details.retry_after_ms = 100;
      return engine::MakeError(std::move(details),
                               absl::StrCat("the broker has ", lane.places,
                                            " operations of this kind waiting; try again later"));
    }
    lane.places += places;
    lane.bytes += call.bytes;
    lane.calls.push_back(std::move(call));
    wanted = waiting_for_calls_;
  }
  if (wanted) changed_.NotifyOne();
  return absl::OkStatus();
}

void Inbox::TakeFrom(LaneState* lane, size_t operations, size_t bytes, Taken* taken) {
  size_t calls = 0;
  // Heartbeats count for nothing, but a group must end.
  while (!lane->calls.empty() && calls < limits_.group_operations) {
    Call& next = lane->calls.front();
    const size_t counts = OperationsOf(next.command);
    const bool fits =
        taken->operations + counts <= operations && taken->bytes + next.bytes <= bytes;
    if (!fits && !taken->calls.empty()) break;
    ++calls;
    taken->operations += counts;
    taken->bytes += next.bytes;
    lane->places -= PlacesOf(next.command);
    lane->bytes -= next.bytes;
    taken->calls.push_back(std::move(next));
    lane->calls.pop_front();
    if (!fits) break;
  }
  lane->passed_over = calls == 0 && !lane->calls.empty();
}

std::vector<Call> Inbox::Take() {
  const MutexLock lock(mutex_);
  woken_ = false;
  std::array<LaneState*, 3> order = {&lanes_[0], &lanes_[1], &lanes_[2]};
  std::stable_partition(order.begin(), order.end(),
                        [](const LaneState* lane) { return lane->passed_over; });
  Taken taken;
  for (auto lane = order.begin(); lane != order.end(); ++lane) {
    const auto waiting = static_cast<size_t>(std::count_if(
        lane + 1, order.end(), [](const LaneState* later) { return !later->calls.empty(); }));
    TakeFrom(*lane, limits_.group_operations - waiting * (limits_.group_operations / 4),
             limits_.group_bytes - waiting * (limits_.group_bytes / 4), &taken);
  }
  return std::move(taken.calls);
}

std::array<Inbox::LaneFill, 3> Inbox::Fill() const {
  const MutexLock lock(mutex_);
  std::array<LaneFill, 3> fill;
  for (size_t i = 0; i < fill.size(); ++i) fill[i] = {lanes_[i].places, lanes_[i].bytes};
  return fill;
}

bool Inbox::empty() const {
  const MutexLock lock(mutex_);
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const LaneState& lane) { return lane.calls.empty(); });
}

void Inbox::Wait(int64_t timeout_ms, bool for_calls) {
  const MutexLock lock(mutex_);
  waiting_for_calls_ = for_calls;
  const auto wanted = [this, for_calls]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return woken_ ||
           (for_calls && std::any_of(lanes_.begin(), lanes_.end(),
                                     [](const LaneState& l) { return !l.calls.empty(); }));
  };
  changed_.WaitFor(mutex_, std::chrono::milliseconds(timeout_ms), wanted);
  waiting_for_calls_ = false;
  woken_ = false;
}

void Inbox::Wake() {
  {
    const MutexLock lock(mutex_);
    woken_ = true;
  }
  changed_.NotifyOne();
}

void Inbox::Close(absl::Status reason) {
  const MutexLock lock(mutex_);
  closed_ = std::move(reason);
}

}  // namespace stint::runtime
