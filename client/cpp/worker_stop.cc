// The orderly end of a worker.
//
//   grace             no new jobs; handlers, heartbeats and settles go on
//   + 0.5 s           handlers are cancelled and may return
//   + 2 s             what they still hold is handed back; last settles are answered
//
#include <algorithm>
#include <utility>

#include "client/cpp/worker_impl.h"

namespace stint::client {
namespace {

constexpr absl::Duration kHandlerPatience = absl::Milliseconds(500);
constexpr absl::Duration kLastSettles = absl::Seconds(2);

}  // namespace

template <typename Predicate>
void Worker::Impl::WaitWhile(absl::Duration after_grace, Predicate holds) {
  // A later call of Stop may bring the end of the grace nearer.
  while (holds() && clock_->Now() < grace_end_ + after_grace) {
    clock_->Wait(ended_changed_, mutex_, grace_end_ + after_grace);
  }
}

bool Worker::Impl::HandlersRun() const {
  for (const auto& [key, held] : leases_) {
    if (held->phase != Phase::kSettling) return true;
  }
  return false;
}

void Worker::Impl::CancelAll() {
  std::vector<HeldPtr> running;
  for (const auto& [key, held] : leases_) {
    if (held->phase != Phase::kSettling && !held->cancel.cancelled()) running.push_back(held);
  }
  mutex_.Unlock();
  for (const HeldPtr& held : running) CancelHandler(held, CancelReason::kStopping);
  mutex_.Lock();
}

void Worker::Impl::HandBackAll() {
  std::vector<HeldPtr> left;
  for (const auto& [key, held] : leases_) {
    if (held->phase != Phase::kSettling) left.push_back(held);
  }
  for (const HeldPtr& held : left) {
    if (held->phase == Phase::kRunning) ++report_.still_running;
    if (held->lost) {
      held->phase = Phase::kSettling;
      DropLease(held);
    } else {
      QueueSettle(held, Result::Release(), v1::RELEASE_REASON_SHUTDOWN);
    }
  }
}

StopReport Worker::Impl::Stop(absl::Duration grace) {
  MutexLock lock(mutex_);
  if (mode_ == Mode::kNew) {
    mode_ = Mode::kStopped;
    stop_done_ = true;
    NoteChange();
    return report_;
  }
  const absl::Duration end = clock_->Now() + grace;
  if (mode_ != Mode::kRunning) {
    grace_end_ = std::min(grace_end_, end);
    NoteChange();
    while (!stop_done_) ended_changed_.Wait(mutex_);
    return report_;
  }
  mode_ = Mode::kStopping;
  poll_interrupted_ = true;
  poll_call_.Cancel();
  poll_changed_.NotifyAll();

  grace_end_ = end;
  const auto busy = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool polling = !poll_done_;
    return polling || !Drained();
  };
  WaitWhile(absl::ZeroDuration(), busy);
  if (HandlersRun()) {
    CancelAll();
    WaitWhile(kHandlerPatience,
              [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return HandlersRun(); });
    HandBackAll();
  }
  WaitWhile(kHandlerPatience + kLastSettles, busy);
  report_.unsettled = static_cast<int>(settles_.size() + settling_);

  mode_ = Mode::kStopped;
  settle_call_.Cancel();
  beat_call_.Cancel();
  poll_changed_.NotifyAll();
  pool_changed_.NotifyAll();
  beat_changed_.NotifyAll();
  settle_changed_.NotifyAll();
  // Poll, heartbeat and settle thread; pool threads may be in a handler and are joined last.
  std::vector<std::thread> own;
  for (size_t i = 0; i < 3; ++i) own.push_back(std::move(threads_[i]));
  lock.Unlock();
  for (std::thread& thread : own) thread.join();
  link_->Leave();
  lock.Lock();
  stop_done_ = true;
  NoteChange();
  return report_;
}

}  // namespace stint::client
