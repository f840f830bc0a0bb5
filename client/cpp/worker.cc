#include "client/cpp/worker.h"

#include <exception>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/proto_time.h"
#include "client/cpp/random_id.h"
#include "client/cpp/stream_link.h"
#include "client/cpp/worker_impl.h"

namespace stint::client {
namespace {

constexpr int kMaxConcurrency = 1000;
constexpr size_t kMaxQueues = 10'000;
constexpr absl::Duration kShortestLease = absl::Seconds(1);
constexpr absl::Duration kLongestLease = absl::Hours(24);
// What a hello takes.
constexpr int kMaxAnnouncedKinds = 100;

}  // namespace

Result Result::Complete(std::string result) { return Result(Kind::kComplete, std::move(result)); }

Result Result::Fail(std::string error) { return Result(Kind::kFail, std::move(error)); }

Result Result::Release(absl::Duration delay) {
  Result result(Kind::kRelease, "");
  if (delay > absl::ZeroDuration()) result.delay_ = delay;
  return result;
}

Result&& Result::RetryAfter(absl::Duration delay) && {
  delay_ = delay;
  no_retry_ = false;
  return std::move(*this);
}

Result&& Result::NoRetry() && {
  no_retry_ = true;
  delay_.reset();
  return std::move(*this);
}

Worker::Worker(std::shared_ptr<Connection> connection, WorkerOptions options, Handler handler)
    : impl_(std::make_unique<Impl>(std::move(connection), std::move(options),
                                   std::map<std::string, Handler>(), std::move(handler))) {}

Worker::Worker(std::shared_ptr<Connection> connection, WorkerOptions options,
               std::map<std::string, Handler> handlers)
    : impl_(std::make_unique<Impl>(std::move(connection), std::move(options), std::move(handlers),
                                   nullptr)) {}

Worker::~Worker() = default;

absl::Status Worker::Start() { return impl_->Start(); }
void Worker::Pause() { impl_->Pause(); }
void Worker::Resume() { impl_->Resume(); }
absl::Status Worker::Wait() { return impl_->Wait(); }
StopReport Worker::Stop(absl::Duration grace) { return impl_->Stop(grace); }
WorkerStats Worker::stats() const { return impl_->stats(); }
const std::string& Worker::worker_id() const { return impl_->worker_id(); }

Worker::Impl::Impl(std::shared_ptr<Connection> connection, WorkerOptions options,
                   std::map<std::string, Handler> handlers, Handler any_kind)
    : connection_(std::move(connection)),
      options_(std::move(options)),
      handlers_(std::move(handlers)),
      any_kind_(std::move(any_kind)),
      clock_(options_.clock == nullptr ? Clock::System() : options_.clock) {
  if (options_.worker.empty()) options_.worker = RandomWorkerId();
}

Worker::Impl::~Impl() {
  Stop(absl::ZeroDuration());
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
  link_ = nullptr;
}

std::unique_ptr<WorkerLink> Worker::Impl::MakeLink() {
  // "Nothing is there" is an answer that only a call gives.
  if (!options_.stream || options_.exit_when_empty) {
    return std::make_unique<UnaryLink>(connection_);
  }
  v1::Hello hello;
  hello.set_worker(options_.worker);
  for (const std::string& queue : options_.queues) hello.add_queues(queue);
  *hello.mutable_lease_duration() = ToProto(options_.lease_duration);
  hello.set_version(options_.version);
  for (const auto& [kind, handler] : handlers_) {
    if (!kind.empty() && hello.kinds_size() < kMaxAnnouncedKinds) hello.add_kinds(kind);
  }
  StreamLinkHooks hooks;
  hooks.held = [this] { return HeldLeases(); };
  hooks.on_verdict = [this](const v1::HeartbeatResult& verdict,
                            std::optional<absl::Duration> sent_at) { OnVerdict(verdict, sent_at); };
  hooks.on_reach = [this](const absl::Status& status) { NoteReachable(status); };
  hooks.on_leave = [this] { OnLeave(); };
  return std::make_unique<StreamLink>(connection_, std::move(hello), clock_, std::move(hooks));
}

absl::Status Worker::Impl::Validate() const {
  if (options_.queues.empty() || options_.queues.size() > kMaxQueues) {
    return absl::InvalidArgumentError("a worker needs 1 to 10,000 queues");
  }
  if (options_.concurrency < 1 || options_.concurrency > kMaxConcurrency) {
    return absl::InvalidArgumentError(
        absl::StrCat("concurrency is ", options_.concurrency, "; it has to be 1 to 1,000"));
  }
  if (options_.lease_duration < kShortestLease || options_.lease_duration > kLongestLease) {
    return absl::InvalidArgumentError(absl::StrCat("the lease duration is ",
                                                   absl::FormatDuration(options_.lease_duration),
                                                   "; it has to be 1 s to 24 h"));
  }
  if (!any_kind_ && handlers_.empty()) {
    return absl::InvalidArgumentError("a worker needs a handler");
  }
  return absl::OkStatus();
}

absl::Status Worker::Impl::Start() {
  absl::Status valid = Validate();
  if (!valid.ok()) return valid;
  const MutexLock lock(mutex_);
  if (mode_ != Mode::kNew) {
    return absl::FailedPreconditionError("a worker is started at most once");
  }
  link_ = MakeLink();
  mode_ = Mode::kRunning;
  threads_.emplace_back([this] { RunPoll(); });
  threads_.emplace_back([this] { RunHeartbeat(); });
  threads_.emplace_back([this] { RunSettle(); });
  for (int i = 0; i < options_.concurrency; ++i) {
    threads_.emplace_back([this] { RunPool(); });
  }
  return absl::OkStatus();
}

absl::Status Worker::Impl::Wait() {
  const MutexLock lock(mutex_);
  while (!stop_done_ && !(mode_ == Mode::kRunning && poll_done_ && Drained())) {
    ended_changed_.Wait(mutex_);
  }
  return poll_status_;
}

WorkerStats Worker::Impl::stats() const {
  const MutexLock lock(mutex_);
  WorkerStats stats = stats_;
  stats.held = static_cast<int>(leases_.size());
  return stats;
}

void Worker::Impl::Tell(const WorkerEvent& event) const {
  if (options_.on_event) options_.on_event(event);
}

void Worker::Impl::RunPool() {
  MutexLock lock(mutex_);
  while (true) {
    while (waiting_.empty() && mode_ != Mode::kStopped) pool_changed_.Wait(mutex_);
    if (mode_ == Mode::kStopped) return;
    HeldPtr held = std::move(waiting_.front());
    waiting_.pop_front();
    // Lost or handed back before it began: it never starts.
    const bool start = held->phase == Phase::kWaiting && !held->lost;
    if (start) {
      held->phase = Phase::kRunning;
      held->started_at = clock_->Now();
      lock.Unlock();
      RunHandler(held);
      lock.Lock();
    } else if (held->lost) {
      DropLease(held);
    }
    --places_used_;
    poll_changed_.NotifyAll();
    NoteChange();
  }
}

const Handler* Worker::Impl::FindHandler(const std::string& kind) const {
  if (any_kind_) return &any_kind_;
  const auto found = handlers_.find(kind);
  return found == handlers_.end() || !found->second ? nullptr : &found->second;
}

void Worker::Impl::RunHandler(const HeldPtr& held) {
  const Handler* const handler = FindHandler(held->lease.kind());
  if (handler == nullptr) {
    const MutexLock lock(mutex_);
    if (held->phase == Phase::kRunning) {
      QueueSettle(held, Result::Release(), v1::RELEASE_REASON_KIND_UNKNOWN);
    }
    return;
  }
  WorkerEvent started{WorkerEvent::Kind::kStarted};
  started.lease = &held->lease;
  Tell(started);
  Result result = CallHandler(*handler, held);
  const CancelReason cancelled = held->cancel.reason();
  v1::ReleaseReason reason = v1::RELEASE_REASON_UNSPECIFIED;
  const bool ours = cancelled == CancelReason::kStopping || cancelled == CancelReason::kUnconfirmed;
  if (ours && result.kind() == Result::Kind::kFail) {
    // The handler gave up because the worker told it to; that is not the job's failure.
    result = Result::Release();
  }
  if (ours && result.kind() == Result::Kind::kRelease) reason = v1::RELEASE_REASON_SHUTDOWN;

  const MutexLock lock(mutex_);
  if (held->phase != Phase::kRunning) return;  // Stop has handed it back
  if (held->lost) {
    DropLease(held);
  } else {
    QueueSettle(held, result, reason);
  }
}

Result Worker::Impl::CallHandler(const Handler& handler, const HeldPtr& held) {
  JobContext context(held->lease, held->cancel, [this, &held](std::string progress) {
    SetProgress(held, std::move(progress));
  });
  try {
    return handler(context);
  } catch (const std::bad_alloc&) {
    return Result::Fail("the handler ran out of memory (std::bad_alloc)");
  } catch (const std::exception& error) {
    return Result::Fail(absl::StrCat("the handler threw an exception: ", error.what()));
  } catch (...) {
    return Result::Fail("the handler threw something that is not an exception");
  }
}

}  // namespace stint::client
