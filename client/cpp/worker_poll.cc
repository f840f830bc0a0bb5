// The poll thread of a worker: asks for jobs, as many as places are free.
//
// A request keeps its `request_id` until its answer has been seen, so that leases whose answer
// was lost on the way come with the repeat instead of lapsing.
#include <algorithm>
#include <utility>

#include "client/cpp/proto_time.h"
#include "client/cpp/random_id.h"
#include "client/cpp/status.h"
#include "client/cpp/worker_impl.h"

namespace stint::client {
namespace {

constexpr absl::Duration kWait = absl::Seconds(20);
// When the queue is expected to be empty but a job of ours may still come back to it.
constexpr absl::Duration kShortWait = absl::Milliseconds(200);
// What an answer may take beyond the wait.
constexpr absl::Duration kCallSlack = absl::Seconds(5);
constexpr absl::Duration kGiveBackDeadline = absl::Seconds(2);
constexpr int kMaxJobsPerCall = 1000;
// Results that wait for the broker's answer; above it no more jobs are taken.
constexpr size_t kMaxPendingSettles = 1000;
constexpr size_t kMaxPendingSettleBytes = 8 * 1024 * 1024;

// Whether the broker would say the same to the same question for ever.
bool IsFinal(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Worker::Impl::Pause() {
  const MutexLock lock(mutex_);
  if (paused_) return;
  paused_ = true;
  poll_interrupted_ = true;
  poll_call_.Cancel();
  poll_changed_.NotifyAll();
}

void Worker::Impl::OnLeave() {
  const MutexLock lock(mutex_);
  leave_ = true;
  poll_interrupted_ = true;
  poll_call_.Cancel();
  poll_changed_.NotifyAll();
}

void Worker::Impl::Resume() {
  const MutexLock lock(mutex_);
  paused_ = false;
  poll_changed_.NotifyAll();
}

int Worker::Impl::WantedJobs() const {
  if (settles_.size() + settling_ >= kMaxPendingSettles ||
      settle_bytes_ >= kMaxPendingSettleBytes) {
    return 0;
  }
  int64_t wanted = std::min(options_.concurrency - places_used_, kMaxJobsPerCall);
  if (options_.max_jobs > 0) wanted = std::min(wanted, options_.max_jobs - stats_.taken);
  return static_cast<int>(std::max<int64_t>(wanted, 0));
}

void Worker::Impl::RunPoll() {
  while (PollOnce()) {
  }
  GiveBackUnseen();
  const MutexLock lock(mutex_);
  poll_done_ = true;
  NoteChange();
}

// False when the thread has to end.
bool Worker::Impl::PollOnce() {
  bool nothing_held = false;
  {
    MutexLock lock(mutex_);
    while (mode_ == Mode::kRunning && (paused_ || leave_ || WantedJobs() == 0)) {
      if (leave_) return false;
      if (options_.max_jobs > 0 && stats_.taken >= options_.max_jobs) return false;
      if (paused_ && poll_interrupted_) {
        poll_interrupted_ = false;
        lock.Unlock();
        GiveBackUnseen();
        lock.Lock();
        continue;
      }
      poll_changed_.Wait(mutex_);
    }
    if (mode_ != Mode::kRunning) return false;
    if (!unseen_.has_value()) {
      unseen_.emplace();
      for (const std::string& queue : options_.queues) unseen_->add_queues(queue);
      unseen_->set_max_jobs(WantedJobs());
      *unseen_->mutable_lease_duration() = ToProto(options_.lease_duration);
      unseen_->set_worker(options_.worker);
      unseen_->set_request_id(RandomId());
    }
    nothing_held = leases_.empty();
    poll_interrupted_ = false;
    poll_call_.Reset();
  }
  absl::Duration wait = kWait;
  if (options_.exit_when_empty) wait = nothing_held ? absl::ZeroDuration() : kShortWait;
  *unseen_->mutable_wait() = ToProto(wait);
  v1::LeaseJobsResponse response;
  const absl::Status status = link_->Lease(*unseen_, &response, wait + kCallSlack, &poll_call_);
  if (!absl::IsCancelled(status)) NoteReachable(status);
  if (status.ok()) {
    unseen_.reset();
    poll_backoff_.Reset();
    const bool empty = response.leases().empty();
    Accept(&response, /*hand_back=*/false);
    return !(options_.exit_when_empty && empty && nothing_held);
  }
  if (ErrorReason(status) == "WORKER_DRAINED") {
    unseen_.reset();
    return false;  // what is held is finished; then it ends, in order
  }
  if (IsFinal(status)) {
    unseen_.reset();
    const MutexLock lock(mutex_);
    if (mode_ == Mode::kRunning) poll_status_ = status;
    return false;
  }
  WaitBeforePoll(status);
  return true;
}

void Worker::Impl::WaitBeforePoll(const absl::Status& status) {
  const MutexLock lock(mutex_);
  if (poll_interrupted_ || mode_ != Mode::kRunning) return;
  const absl::Duration until =
      clock_->Now() + poll_backoff_.Next(RetryDelay(status).value_or(absl::ZeroDuration()));
  while (mode_ == Mode::kRunning && !paused_ && clock_->Now() < until) {
    clock_->Wait(poll_changed_, mutex_, until);
  }
}

// Asks once more for what a call that was ended may have been given, or what was pushed since the
// last one, and hands it back.
void Worker::Impl::GiveBackUnseen() {
  if (!unseen_.has_value() && !link_->JobsMayCome()) return;
  v1::LeaseJobsRequest request = unseen_.value_or(v1::LeaseJobsRequest());
  *request.mutable_wait() = ToProto(absl::ZeroDuration());
  v1::LeaseJobsResponse response;
  const absl::Status status = link_->Lease(request, &response, kGiveBackDeadline, nullptr);
  if (status.ok()) {
    unseen_.reset();
    Accept(&response, /*hand_back=*/true);
  }
}

void Worker::Impl::Accept(v1::LeaseJobsResponse* response, bool hand_back) {
  const MutexLock lock(mutex_);
  for (v1::Lease& lease : *response->mutable_leases()) {
    auto held = std::make_shared<HeldLease>();
    held->lease = std::move(lease);
    held->renewed_at = clock_->Now();
    if (!leases_.emplace(Key(held->lease.job(), held->lease.token()), held).second) continue;
    // More than was asked for cannot be started, so it is not kept.
    if (hand_back || paused_ || mode_ != Mode::kRunning || WantedJobs() == 0) {
      ++stats_.taken;
      QueueSettle(held, Result::Release(), v1::RELEASE_REASON_SHUTDOWN);
      continue;
    }
    ++stats_.taken;
    ++places_used_;
    waiting_.push_back(held);
    pool_changed_.NotifyOne();
  }
  if (NextBeat() < planned_beat_) beat_changed_.NotifyAll();
}

void Worker::Impl::NoteReachable(const absl::Status& status) {
  // An error with a reason is the broker's own word: it can be reached.
  const bool unreachable = IsSafeToRepeat(status) && ErrorReason(status).empty();
  {
    const MutexLock lock(mutex_);
    if (unreachable == unreachable_) return;
    unreachable_ = unreachable;
  }
  WorkerEvent event{unreachable ? WorkerEvent::Kind::kBrokerUnreachable
                                : WorkerEvent::Kind::kBrokerBack};
  event.status = status;
  Tell(event);
}

}  // namespace stint::client
