// The heartbeat thread of a worker: renews all leases with one call, every third of the
// shortest lease, and within a second again after a call that failed.
//
// Only an explicit answer ends a handler's work. A lease that was not renewed for its whole
// duration is marked unconfirmed.
#include <algorithm>
#include <utility>

#include "client/cpp/proto_time.h"
#include "client/cpp/status.h"
#include "client/cpp/worker_impl.h"

namespace stint::client {
namespace {

constexpr absl::Duration kRetryMost = absl::Seconds(1);
// Whatever the broker asks for, heartbeats do not come closer than this.
constexpr absl::Duration kShortestInterval = absl::Milliseconds(50);
constexpr absl::Duration kShortestDeadline = absl::Seconds(1);
constexpr absl::Duration kLongestDeadline = absl::Seconds(5);
constexpr int kMaxLeasesPerCall = 10'000;
constexpr size_t kMaxProgressBytes = 4096;
// Of all leases in one call; what has no room goes with the next one.
constexpr size_t kMaxProgressPerCall = 2 << 20;

}  // namespace

absl::Duration Worker::Impl::BeatInterval(const HeldLease& held) const {
  absl::Duration interval = held.lease.has_heartbeat_interval()
                                ? ToAbsl(held.lease.heartbeat_interval())
                                : ToAbsl(held.lease.lease_duration()) / 3;
  return std::max(std::min(interval, server_interval_), kShortestInterval);
}

absl::Duration Worker::Impl::NextBeat() const {
  if (leases_.empty()) return absl::InfiniteDuration();
  if (retry_beat_at_ != absl::InfiniteDuration()) return retry_beat_at_;
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [key, held] : leases_) {
    if (!held->lost) next = std::min(next, held->renewed_at + BeatInterval(*held));
  }
  return next;
}

absl::Duration Worker::Impl::NextUnconfirmed() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [key, held] : leases_) {
    if (held->lost || held->cancel.unconfirmed()) continue;
    next = std::min(next, held->renewed_at + ToAbsl(held->lease.lease_duration()));
  }
  return next;
}

void Worker::Impl::RunHeartbeat() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      while (mode_ != Mode::kStopped) {
        planned_beat_ = NextBeat();
        const absl::Duration wake = std::min(planned_beat_, NextUnconfirmed());
        if (wake <= clock_->Now()) break;
        clock_->Wait(beat_changed_, mutex_, wake);
      }
      planned_beat_ = absl::InfiniteDuration();
      if (mode_ == Mode::kStopped) return;
    }
    MarkUnconfirmed();
    Beat();
  }
}

void Worker::Impl::MarkUnconfirmed() {
  std::vector<HeldPtr> late;
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, held] : leases_) {
      if (held->lost || held->cancel.unconfirmed()) continue;
      if (held->renewed_at + ToAbsl(held->lease.lease_duration()) > clock_->Now()) continue;
      held->cancel.SetUnconfirmed(true);
      late.push_back(held);
    }
  }
  for (const HeldPtr& held : late) {
    WorkerEvent event{WorkerEvent::Kind::kUnconfirmed};
    event.lease = &held->lease;
    Tell(event);
    if (options_.cancel_when_unconfirmed) CancelHandler(held, CancelReason::kUnconfirmed);
  }
}

void Worker::Impl::SetProgress(const HeldPtr& held, std::string progress) {
  if (progress.size() > kMaxProgressBytes) progress.resize(kMaxProgressBytes);
  const MutexLock lock(mutex_);
  held->progress = std::move(progress);
  held->progress_unsent = true;
}

void Worker::Impl::Beat() {
  v1::HeartbeatRequest request;
  request.set_worker(options_.worker);
  std::vector<HeldPtr> asked;
  absl::Duration interval = absl::InfiniteDuration();
  absl::Duration sent_at;
  size_t progress_bytes = 0;
  {
    const MutexLock lock(mutex_);
    sent_at = clock_->Now();
    if (NextBeat() > sent_at) return;
    for (const auto& [key, held] : leases_) {
      if (held->lost || request.leases_size() >= kMaxLeasesPerCall) continue;
      v1::HeartbeatItem* const item = request.add_leases();
      item->set_job(key.first);
      item->set_token(key.second);
      if (held->progress_unsent && progress_bytes + held->progress.size() <= kMaxProgressPerCall) {
        progress_bytes += held->progress.size();
        item->set_progress(held->progress);
        held->progress_unsent = false;
      }
      interval = std::min(interval, BeatInterval(*held));
      asked.push_back(held);
    }
  }
  v1::HeartbeatResponse response;
  const absl::Status status = link_->Heartbeat(
      request, &response, std::clamp(interval, kShortestDeadline, kLongestDeadline), &beat_call_);
  if (!absl::IsCancelled(status)) NoteReachable(status);
  const bool renewed = status.ok() && response.results_size() == request.leases_size();
  {
    const MutexLock lock(mutex_);
    const absl::Duration retry = std::min(interval, kRetryMost);
    retry_beat_at_ = absl::InfiniteDuration();
    if (!renewed) {
      retry_beat_at_ = clock_->Now() + RandomBetween(retry / 2, retry);
      for (size_t i = 0; i < asked.size(); ++i) {
        if (request.leases(static_cast<int>(i)).has_progress()) asked[i]->progress_unsent = true;
      }
    } else if (response.has_next_interval()) {
      server_interval_ = ToAbsl(response.next_interval());
    }
  }
  if (!renewed) return;
  for (size_t i = 0; i < asked.size(); ++i) {
    ApplyVerdict(asked[i], response.results(static_cast<int>(i)).status(), sent_at);
  }
}

void Worker::Impl::ApplyVerdict(const HeldPtr& held, v1::LeaseStatus status,
                                absl::Duration sent_at) {
  CancelReason reason = CancelReason::kNone;
  {
    const MutexLock lock(mutex_);
    if (status == v1::LEASE_STATUS_LOST || status == v1::LEASE_STATUS_RUN_LIMIT) {
      reason = status == v1::LEASE_STATUS_LOST ? CancelReason::kLeaseLost : CancelReason::kRunLimit;
      // While a settle is under way its own answer decides: the job may have ended by it.
      if (held->phase == Phase::kSettling || held->lost) return;
      held->lost = true;
      ++stats_.lost;
      NoteChange();
    } else {
      held->renewed_at = std::max(held->renewed_at, sent_at);
      held->cancel.SetUnconfirmed(false);
      if (status != v1::LEASE_STATUS_CANCEL_REQUESTED) return;
      if (held->phase == Phase::kSettling || held->cancel.cancelled()) return;
      reason = CancelReason::kCancelRequested;
    }
  }
  if (reason != CancelReason::kCancelRequested) {
    WorkerEvent event{WorkerEvent::Kind::kLeaseLost};
    event.lease = &held->lease;
    event.detail = std::string(Describe(reason));
    Tell(event);
  }
  CancelHandler(held, reason);
}

std::vector<v1::HeartbeatItem> Worker::Impl::HeldLeases() const {
  std::vector<v1::HeartbeatItem> held;
  const MutexLock lock(mutex_);
  for (const auto& [key, lease] : leases_) {
    if (lease->lost || held.size() >= kMaxLeasesPerCall) continue;
    held.emplace_back();
    held.back().set_job(key.first);
    held.back().set_token(key.second);
  }
  return held;
}

void Worker::Impl::OnVerdict(const v1::HeartbeatResult& verdict,
                             std::optional<absl::Duration> sent_at) {
  HeldPtr held;
  {
    const MutexLock lock(mutex_);
    const auto found = leases_.find(Key(verdict.job(), verdict.token()));
    if (found == leases_.end()) return;
    held = found->second;
    // What comes unasked renews nothing.
    if (!sent_at.has_value()) sent_at = held->renewed_at;
  }
  ApplyVerdict(held, verdict.status(), *sent_at);
}

void Worker::Impl::CancelHandler(const HeldPtr& held, CancelReason reason) {
  held->cancel.Cancel(reason);
  WorkerEvent event{WorkerEvent::Kind::kCancelling};
  event.lease = &held->lease;
  event.detail = std::string(Describe(reason));
  Tell(event);
}

}  // namespace stint::client
