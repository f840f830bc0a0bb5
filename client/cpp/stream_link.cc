#include "client/cpp/stream_link.h"

#include <algorithm>
#include <utility>

#include "client/cpp/proto_time.h"
#include "client/cpp/status.h"

namespace stint::client {
namespace {

constexpr char kStreamJobs[] = "/stint.v1.WorkerService/StreamJobs";
constexpr absl::Duration kHelloDeadline = absl::Seconds(5);
constexpr absl::Duration kReopenMost = absl::Milliseconds(100);
// A sign of life at least this often with and without leases.
constexpr absl::Duration kBusyFrame = absl::Seconds(5);
constexpr absl::Duration kIdleFrame = absl::Seconds(20);
constexpr absl::Duration kLeaveMost = absl::Seconds(2);
// The broker's limits on a message.
constexpr size_t kMaxOperations = 1000;
constexpr size_t kMaxMessageBytes = 3 * 1024 * 1024;
constexpr int64_t kMaxCredit = 1000;

absl::Status NotConnected(const absl::Status& why) {
  if (!why.ok()) return why;
  return absl::UnavailableError("there is no connection to the broker");
}

v1::HeartbeatItem ItemOf(const v1::Lease& lease) {
  v1::HeartbeatItem item;
  item.set_job(lease.job());
  item.set_token(lease.token());
  return item;
}

}  // namespace

// One stream from its hello to its end.
class StreamLink::Attempt final : public StreamEvents {
 public:
  explicit Attempt(StreamLink* link) : link_(link) {}

  google::protobuf::MessageLite* NextMessage() override {
    received.Clear();
    return &received;
  }
  void OnMessage() override { link_->OnMessage(this); }
  void OnSent() override { link_->OnSent(this); }
  void OnEnd(const absl::Status& status) override { link_->OnEnd(this, status); }

  std::shared_ptr<Stream> stream;  // and what follows: guarded by the link's mutex
  int64_t channel = 0;
  v1::StreamJobsRequest sending;
  v1::StreamJobsResponse received;  // only gRPC's reading thread

 private:
  StreamLink* const link_;
};

StreamLink::StreamLink(std::shared_ptr<Connection> connection, v1::Hello hello, Clock* clock,
                       StreamLinkHooks hooks)
    : connection_(std::move(connection)),
      hello_(std::move(hello)),
      clock_(clock),
      hooks_(std::move(hooks)),
      unary_(connection_),
      keeper_([this] { Keep(); }) {}

StreamLink::~StreamLink() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    // One that is just being opened is cancelled by Connect.
    if (attempt_ != nullptr && attempt_->stream != nullptr) attempt_->stream->Cancel();
    while (attempt_ != nullptr) changed_.Wait(mutex_);
  }
  keeper_.join();
}

void StreamLink::Keep() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    absl::Duration wake = absl::InfiniteDuration();
    const absl::Duration now = clock_->Now();
    if (attempt_ == nullptr && !streams_unknown_ && !leaving_) {
      if (now >= next_try_) {
        Connect();
        continue;
      }
      wake = next_try_;
    } else if (state_ == State::kHello) {
      if (now >= hello_until_) {
        BreakSilent();
        hello_until_ = absl::InfiniteDuration();
      }
      wake = hello_until_;
    } else if (state_ == State::kUp) {
      wake = last_sent_ + kBusyFrame;
      if (now >= wake) {
        lock.Unlock();
        const bool busy = !hooks_.held().empty();
        lock.Lock();
        if (state_ != State::kUp) continue;
        if ((busy || now >= last_sent_ + kIdleFrame) && outgoing_.empty() && !sending_) {
          Outgoing(0);
          MaySend();
        }
        wake = std::max(last_sent_ + kBusyFrame, now + kBusyFrame / 5);
      }
    }
    clock_->Wait(changed_, mutex_, wake);
  }
}

void StreamLink::Connect() {
  auto attempt = std::make_shared<Attempt>(this);
  attempt_ = attempt;
  state_ = State::kHello;
  v1::Hello* hello = attempt->sending.mutable_hello();
  *hello = hello_;
  hello->set_previous_session(session_);
  // Jobs that have arrived and that the worker may not count among its own yet. Before it is asked:
  // what it takes over meanwhile is in one of the two.
  for (const v1::Lease& lease : arrived_) *hello->add_held() = ItemOf(lease);
  for (const v1::HeartbeatItem& item : taken_) *hello->add_held() = item;
  mutex_.Unlock();
  std::vector<v1::HeartbeatItem> held = hooks_.held();
  mutex_.Lock();
  for (v1::HeartbeatItem& item : held) *hello->add_held() = std::move(item);
  outgoing_.clear();
  bytes_back_ = 0;
  sending_ = true;
  hello_sent_at_ = last_sent_ = clock_->Now();
  hello_until_ = hello_sent_at_ + kHelloDeadline;
  attempt->channel = connection_->channel();
  attempt->stream = connection_->OpenStream(kStreamJobs, attempt);
  attempt->stream->Send(attempt->sending);
  if (stopping_) attempt->stream->Cancel();
}

void StreamLink::BreakSilent() {
  attempt_->stream->Cancel();
  connection_->ReplaceChannel(attempt_->channel);
}

v1::StreamJobsRequest* StreamLink::Outgoing(size_t bytes) {
  if (outgoing_.empty() || outgoing_operations_ >= kMaxOperations ||
      outgoing_bytes_ + bytes > kMaxMessageBytes) {
    outgoing_.emplace_back();
    outgoing_operations_ = 0;
    outgoing_bytes_ = 0;
  }
  ++outgoing_operations_;
  outgoing_bytes_ += bytes;
  return &outgoing_.back();
}

void StreamLink::MaySend() {
  if (state_ != State::kUp || sending_ || outgoing_.empty()) return;
  attempt_->sending = std::move(outgoing_.front());
  outgoing_.pop_front();
  sending_ = true;
  last_sent_ = clock_->Now();
  attempt_->stream->Send(attempt_->sending);
}

void StreamLink::OnSent(Attempt* attempt) {
  const MutexLock lock(mutex_);
  if (attempt != attempt_.get()) return;
  sending_ = false;
  MaySend();
}

void StreamLink::OnMessage(Attempt* attempt) {
  v1::StreamJobsResponse& message = attempt->received;
  std::optional<absl::Duration> sent_at;
  std::vector<v1::HeartbeatResult> verdicts(message.verdicts().begin(), message.verdicts().end());
  bool leave = false;
  {
    const MutexLock lock(mutex_);
    if (message.has_welcome()) {
      state_ = State::kUp;
      session_ = message.welcome().session();
      backoff_.Reset();
      sent_at = hello_sent_at_;
      verdicts.assign(message.welcome().held().begin(), message.welcome().held().end());
    }
    for (v1::PushedJob& job : *message.mutable_jobs()) {
      --credit_;
      bytes_back_ += job.credit_bytes();
      arrived_.push_back(std::move(*job.mutable_lease()));
    }
    for (v1::StreamAnswer& answer : *message.mutable_answers()) {
      const auto waiting = waiters_.find(answer.id());
      if (waiting == waiters_.end()) continue;  // nobody waits any more
      Waiter* waiter = waiting->second;
      const auto place = static_cast<size_t>(answer.id() - waiter->first);
      waiter->answers[place] = std::move(answer);
      --waiter->missing;
      waiters_.erase(waiting);
    }
    // Should this process die of what it got, the broker has to know that it was alive.
    if (message.jobs_size() > 0 && outgoing_.empty() && !sending_ &&
        clock_->Now() >= last_sent_ + kBusyFrame) {
      Outgoing(0);
      MaySend();
    }
    leave = message.has_drain() && message.drain().reason() == v1::DRAIN_REASON_WORKER;
  }
  changed_.NotifyAll();
  if (message.has_welcome() && hooks_.on_reach) hooks_.on_reach(absl::OkStatus());
  for (const v1::HeartbeatResult& verdict : verdicts) hooks_.on_verdict(verdict, sent_at);
  if (leave) hooks_.on_leave();
}

void StreamLink::OnEnd(Attempt* attempt, const absl::Status& status) {
  if (absl::IsUnauthenticated(status)) connection_->ReadTokenAgain();
  bool was_up = false;
  {
    const MutexLock lock(mutex_);
    was_up = state_ == State::kUp;
  }
  // A stream that breaks is opened again at once; only when that fails there is something to tell.
  if (!was_up && !status.ok() && !absl::IsCancelled(status) && !absl::IsUnimplemented(status)) {
    if (hooks_.on_reach) hooks_.on_reach(status);
  }
  // Until the end of this: the destructor waits for it.
  const MutexLock lock(mutex_);
  if (attempt != attempt_.get()) return;
  state_ = State::kDown;
  sending_ = false;
  streams_unknown_ = absl::IsUnimplemented(status);
  last_break_ = status.ok() || absl::IsCancelled(status)
                    ? absl::UnavailableError("the stream to the broker ended")
                    : status;
  ++breaks_;
  next_try_ =
      clock_->Now() + (was_up ? RandomBetween(absl::ZeroDuration(), kReopenMost)
                              : backoff_.Next(RetryDelay(status).value_or(absl::ZeroDuration())));
  FailWaiters(NotConnected(last_break_));
  credit_ = 0;
  attempt_ = nullptr;
  changed_.NotifyAll();
}

void StreamLink::FailWaiters(const absl::Status& status) {
  for (auto& [id, waiter] : waiters_) {
    waiter->missing = 0;
    waiter->failed = status;
  }
  waiters_.clear();
  outgoing_.clear();
}

bool StreamLink::Begin(CallCanceller* canceller, bool* cancelled) {
  if (canceller == nullptr) return true;
  return canceller->Begin([this, cancelled] {
    const MutexLock lock(mutex_);
    *cancelled = true;
    changed_.NotifyAll();
  });
}

bool StreamLink::AwaitUp(absl::Duration until, const bool& cancelled) {
  const int64_t breaks = breaks_;
  while (state_ != State::kUp && breaks_ == breaks && !streams_unknown_ && !stopping_ &&
         !leaving_ && !cancelled && clock_->Now() < until) {
    clock_->Wait(changed_, mutex_, until);
  }
  return state_ == State::kUp && !cancelled;
}

void StreamLink::SetCredit(int64_t wanted) {
  const int64_t more = std::min(wanted, kMaxCredit) - credit_;
  if (more == 0 && (bytes_back_ == 0 || wanted == 0)) return;
  v1::Credit* credit = Outgoing(0)->mutable_credit();
  credit->set_jobs(credit->jobs() + static_cast<int32_t>(more));
  credit->set_bytes(credit->bytes() + std::exchange(bytes_back_, 0));
  credit_ += more;
  MaySend();
}

void StreamLink::TakeJobs(int64_t most, v1::LeaseJobsResponse* response) {
  while (!arrived_.empty() && most-- > 0) {
    taken_.push_back(ItemOf(arrived_.front()));
    *response->add_leases() = std::move(arrived_.front());
    arrived_.pop_front();
  }
}

absl::Status StreamLink::Lease(const v1::LeaseJobsRequest& request, v1::LeaseJobsResponse* response,
                               absl::Duration deadline, CallCanceller* canceller) {
  bool cancelled = false;
  MutexLock lock(mutex_);
  taken_.clear();  // whoever asks again has them in its hands
  if (streams_unknown_) {
    lock.Unlock();
    return unary_.Lease(request, response, deadline, canceller);
  }
  const absl::Duration now = clock_->Now();
  const absl::Duration wait = ToAbsl(request.wait());
  if (wait == absl::ZeroDuration()) {
    // What was granted is wanted back, and no more.
    SetCredit(0);
    lock.Unlock();
    std::vector<v1::StreamAnswer> answers;
    // An answer comes behind every job that was pushed before it.
    Ask(
        1, deadline, nullptr, /*vital=*/false,
        [](size_t, int64_t id, v1::StreamJobsRequest* message) {
          message->add_heartbeats()->set_id(id);
        },
        &answers)
        .IgnoreError();
    lock.Lock();
    TakeJobs(static_cast<int64_t>(arrived_.size()), response);
    return absl::OkStatus();
  }
  lock.Unlock();
  if (!Begin(canceller, &cancelled)) return absl::CancelledError("cancelled before it was sent");
  lock.Lock();
  absl::Status status;
  // A stream that breaks is followed by another, mostly at once, which has to be given room anew.
  do {
    if (!AwaitUp(now + deadline, cancelled)) {
      status = NotConnected(last_break_);
      break;
    }
    const int64_t session = session_;
    SetCredit(request.max_jobs() - static_cast<int64_t>(arrived_.size()));
    while (arrived_.empty() && state_ == State::kUp && session_ == session && !cancelled &&
           clock_->Now() < now + wait) {
      clock_->Wait(changed_, mutex_, now + wait);
    }
  } while (arrived_.empty() && !cancelled && clock_->Now() < now + wait);
  if (cancelled) {
    SetCredit(0);
    status = absl::CancelledError("interrupted");
  } else if (status.ok()) {
    TakeJobs(request.max_jobs(), response);
  }
  const bool unary = streams_unknown_ && !cancelled;
  lock.Unlock();
  if (canceller != nullptr) canceller->End();
  return unary ? unary_.Lease(request, response, deadline, canceller) : status;
}

absl::Status StreamLink::Ask(
    size_t count, absl::Duration deadline, CallCanceller* canceller, bool vital,
    const std::function<void(size_t, int64_t, v1::StreamJobsRequest*)>& add,
    std::vector<v1::StreamAnswer>* answers) {
  bool cancelled = false;
  if (!Begin(canceller, &cancelled)) return absl::CancelledError("cancelled before it was sent");
  absl::Status status;
  {
    MutexLock lock(mutex_);
    const absl::Duration until = clock_->Now() + deadline;
    // UNIMPLEMENTED, when the broker knows no streams: the caller asks in another way.
    if (!AwaitUp(until, cancelled)) {
      status = cancelled ? absl::CancelledError("interrupted") : NotConnected(last_break_);
    } else {
      Waiter waiter;
      waiter.first = next_id_;
      waiter.missing = count;
      waiter.answers.resize(count);
      for (size_t i = 0; i < count; ++i) {
        const int64_t id = next_id_++;
        waiters_[id] = &waiter;
        v1::StreamJobsRequest operation;
        add(i, id, &operation);
        Outgoing(operation.ByteSizeLong())->MergeFrom(operation);
      }
      MaySend();
      while (waiter.missing > 0 && !cancelled && clock_->Now() < until) {
        clock_->Wait(changed_, mutex_, until);
      }
      status = waiter.failed;
      if (status.ok() && waiter.missing > 0) {
        status = cancelled ? absl::CancelledError("interrupted")
                           : absl::DeadlineExceededError("the broker did not answer in time");
        // Whatever waits is still that of the stream it was sent on.
        if (vital && !cancelled) BreakSilent();
      }
      for (size_t i = 0; i < count; ++i) waiters_.erase(waiter.first + static_cast<int64_t>(i));
      *answers = std::move(waiter.answers);
    }
  }
  if (canceller != nullptr) canceller->End();
  return status;
}

absl::Status StreamLink::Heartbeat(const v1::HeartbeatRequest& request,
                                   v1::HeartbeatResponse* response, absl::Duration deadline,
                                   CallCanceller* canceller) {
  std::vector<v1::StreamAnswer> answers;
  absl::Status status = Ask(
      1, deadline, canceller, /*vital=*/true,
      [&request](size_t, int64_t id, v1::StreamJobsRequest* message) {
        v1::StreamHeartbeat* heartbeat = message->add_heartbeats();
        heartbeat->set_id(id);
        *heartbeat->mutable_leases() = request.leases();
      },
      &answers);
  if (absl::IsUnimplemented(status)) {
    return unary_.Heartbeat(request, response, deadline, canceller);
  }
  if (!status.ok()) return status;
  if (answers[0].has_error()) return FromRpcStatus(answers[0].error());
  *response = std::move(*answers[0].mutable_heartbeat());
  return absl::OkStatus();
}

absl::Status StreamLink::Settle(const v1::SettleJobsRequest& request,
                                v1::SettleJobsResponse* response, absl::Duration deadline,
                                CallCanceller* canceller) {
  std::vector<v1::StreamAnswer> answers;
  absl::Status status = Ask(
      static_cast<size_t>(request.items_size()), deadline, canceller, /*vital=*/false,
      [&request](size_t i, int64_t id, v1::StreamJobsRequest* message) {
        v1::StreamSettle* settle = message->add_settles();
        settle->set_id(id);
        *settle->mutable_item() = request.items(static_cast<int>(i));
      },
      &answers);
  if (absl::IsUnimplemented(status)) return unary_.Settle(request, response, deadline, canceller);
  if (!status.ok()) return status;
  for (v1::StreamAnswer& answer : answers) {
    v1::SettleResult* result = response->add_results();
    if (answer.has_error()) {
      *result->mutable_error() = std::move(*answer.mutable_error());
    } else {
      *result = std::move(*answer.mutable_settle());
    }
  }
  return absl::OkStatus();
}

bool StreamLink::JobsMayCome() {
  const MutexLock lock(mutex_);
  return credit_ > 0 || !arrived_.empty();
}

void StreamLink::Leave() {
  MutexLock lock(mutex_);
  leaving_ = true;
  if (state_ == State::kUp) {
    Outgoing(0)->mutable_goodbye();
    MaySend();
    const absl::Duration until = clock_->Now() + kLeaveMost;
    while (attempt_ != nullptr && clock_->Now() < until) clock_->Wait(changed_, mutex_, until);
  }
  changed_.NotifyAll();
}

}  // namespace stint::client
