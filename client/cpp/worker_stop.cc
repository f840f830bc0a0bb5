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

template <typename Condition>
void Worker::Impl::WaitWhile(std::unique_lock<std::mutex>& lock, absl::Duration after_grace,
                             Condition condition) {
  // A later call of Stop may bring the end of the grace nearer.
  while (condition() && clock_->Now() < grace_end_ + after_grace) {
    clock_->Wait(ended_changed_, lock, grace_end_ + after_grace);
  }
}

bool Worker::Impl::HandlersRun() const {
  for (const auto& [key, held] : leases_) {
    if (held->phase != Phase::kSettling) return true;
  }
  return false;
}

void Worker::Impl::CancelAll(std::unique_lock<std::mutex>& lock) {
  std::vector<HeldPtr> running;
  for (const auto& [key, held] : leases_) {
    if (held->phase != Phase::kSettling && !held->cancel.cancelled()) running.push_back(held);
  }
  lock.unlock();
  for (const HeldPtr& held : running) CancelHandler(held, CancelReason::kStopping);
  lock.lock();
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
  std::unique_lock<std::mutex> lock(mutex_);
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
    while (!stop_done_) ended_changed_.wait(lock);
    return report_;
  }
  mode_ = Mode::kStopping;
  poll_interrupted_ = true;
  poll_call_.Cancel();
  poll_changed_.notify_all();

  grace_end_ = end;
  const auto busy = [this] { return !poll_done_ || !Drained(); };
  WaitWhile(lock, absl::ZeroDuration(), busy);
  if (HandlersRun()) {
    CancelAll(lock);
    WaitWhile(lock, kHandlerPatience, [this] { return HandlersRun(); });
    HandBackAll();
  }
  WaitWhile(lock, kHandlerPatience + kLastSettles, busy);
  report_.unsettled = static_cast<int>(settles_.size() + settling_);

  mode_ = Mode::kStopped;
  settle_call_.Cancel();
  beat_call_.Cancel();
  poll_changed_.notify_all();
  pool_changed_.notify_all();
  beat_changed_.notify_all();
  settle_changed_.notify_all();
  // Poll, heartbeat and settle thread; pool threads may be in a handler and are joined last.
  std::vector<std::thread> own;
  for (size_t i = 0; i < 3; ++i) own.push_back(std::move(threads_[i]));
  lock.unlock();
  for (std::thread& thread : own) thread.join();
  link_->Leave();
  lock.lock();
  stop_done_ = true;
  NoteChange();
  return report_;
}

}  // namespace stint::client
