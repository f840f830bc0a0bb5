#include "server/api/worker_stream.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "server/api/convert.h"
#include "server/api/error_details.h"
#include "server/api/names.h"
#include "server/api/time_values.h"
#include "server/api/validate.h"
#include "server/engine/error.h"

namespace stint::api {
namespace {

// After the end of the worker's half: a stream that broke is known to be broken by then.
constexpr int64_t kBreakNoticedMs = 500;

absl::Status Draining() {
  engine::ErrorDetails details;
  details.reason = engine::Reason::kDraining;
  details.retry_after_ms = engine::kSecondMs;
  return engine::MakeError(std::move(details),
                           "the broker is shutting down; open the stream again when it is back");
}

// What a hello takes of memory until the session is over, its list of leases excepted. A short
// text costs more than its bytes.
size_t BytesKept(const v1::Hello& hello) {
  constexpr size_t kPerText = 64;
  size_t bytes = hello.worker().size() + hello.version().size();
  for (const std::string& queue : hello.queues()) bytes += kPerText + queue.size();
  for (const std::string& kind : hello.kinds()) bytes += kPerText + kind.size();
  return bytes;
}

}  // namespace

WorkerStream::WorkerStream(WorkerStreamContext context, StreamTransport* transport)
    : context_(std::move(context)),
      transport_(transport),
      last_message_ms_(context_.edge->clock()->BootMs()),
      outbox_(engine::kDefaultReplyBytes) {}

void WorkerStream::Begin() {
  const MutexLock lock(mutex_);
  const auto session = context_.edge->sessions()->Open(weak_from_this());
  if (!session.ok()) return EndWith(session.status());
  session_ = *session;
  MayRead();
}

void WorkerStream::OnMessage(v1::StreamJobsRequest message) {
  uint64_t continued = 0;
  {
    const MutexLock lock(mutex_);
    reading_ = false;
    if (phase_ != Phase::kHello && phase_ != Phase::kOpen) return;
    last_message_ms_ = context_.edge->clock()->BootMs();
    if (std::exchange(silent_, false)) WithdrawPoll();  // it takes its place in the line again
    absl::Status status = Validate(message, /*first=*/phase_ == Phase::kHello);
    if (status.ok() && phase_ == Phase::kHello) {
      const auto previous = static_cast<uint64_t>(message.hello().previous_session());
      const bool may = context_.edge->sessions()->MayContinue(previous, message.hello().worker(),
                                                              context_.identity);
      if (!may) message.mutable_hello()->clear_previous_session();
      continued = may ? previous : 0;
      status = Hello(std::move(*message.mutable_hello()));
    }
    if (status.ok()) status = AddCredit(message.credit());
    if (!status.ok()) return EndWith(std::move(status));
    for (v1::StreamEnqueue& enqueue : *message.mutable_enqueues()) Enqueue(std::move(enqueue));
    Settle(&message);
    for (const v1::StreamHeartbeat& heartbeat : message.heartbeats()) Heartbeat(heartbeat);
    if (message.has_goodbye()) Leave();
    MayPoll();
    MayRead();
    MayWrite();
  }
  if (continued != 0) context_.edge->sessions()->EndContinued(continued);
}

absl::Status WorkerStream::Hello(v1::Hello hello) {
  if (absl::Status status = context_.edge->CheckOpen(); !status.ok()) return status;
  hello_ = std::move(hello);
  lease_ms_ =
      hello_.has_lease_duration() ? MillisOf(hello_.lease_duration()) : engine::kDefaultLeaseMs;
  loss_grace_ms_ = hello_.has_stream_loss_grace() ? MillisOf(hello_.stream_loss_grace())
                                                  : engine::kDefaultStreamLossGraceMs;
  if (hello_.max_reply_bytes() != 0) {
    outbox_ = StreamOutbox(static_cast<size_t>(hello_.max_reply_bytes()));
  }
  runtime::SessionInfo info;
  info.identity = context_.identity;
  info.worker = hello_.worker();
  info.version = hello_.version();
  info.kinds.assign(hello_.kinds().begin(), hello_.kinds().end());
  const int shown = std::min(hello_.queues_size(), static_cast<int>(engine::kMaxShownQueues));
  info.queues.assign(hello_.queues().begin(), hello_.queues().begin() + shown);
  if (absl::Status status =
          context_.edge->sessions()->Introduce(session_, std::move(info), BytesKept(hello_));
      !status.ok()) {
    return status;
  }
  hello_.clear_kinds();
  phase_ = Phase::kOpen;

  v1::StreamHeartbeat held;
  held.mutable_leases()->Swap(hello_.mutable_held());
  engine::HeartbeatCommand renew = ToCommand(held, hello_.worker(), session_);
  const size_t bytes = held.ByteSizeLong();
  Submit(std::move(renew), 1, bytes,
         [held = std::move(held)](WorkerStream& self, engine::Outcome outcome)
             ABSL_EXCLUSIVE_LOCKS_REQUIRED(self.mutex_) {
               const auto* reply = std::get_if<engine::HeartbeatReply>(&outcome.body);
               if (outcome.status.ok() && reply == nullptr) {
                 outcome.status = UnexpectedAnswer();
               }
               if (!outcome.status.ok()) return self.EndWith(std::move(outcome.status));
               v1::Welcome welcome;
               welcome.set_session(static_cast<int64_t>(self.session_));
               ToResults(held.leases(), *reply, welcome.mutable_held());
               self.outbox_.SetWelcome(std::move(welcome));
               if (self.context_.edge->workers()->IsDrained(self.hello_.worker())) {
                 self.TellDrain(v1::DRAIN_REASON_WORKER);
               }
               self.MayPoll();
             });
  // Refused at once: the worker comes again and goes on with the same session, which keeps all
  // that it holds until then.
  if (phase_ != Phase::kOpen) return end_status_;
  if (hello_.previous_session() != 0) {
    // What was pushed to it and is not among the held never arrived.
    engine::EndSessionCommand rest;
    rest.session = static_cast<uint64_t>(hello_.previous_session());
    rest.worker = hello_.worker();
    Submit(std::move(rest), 1, 0, [](WorkerStream&, engine::Outcome) {});
  }
  return absl::OkStatus();
}

absl::Status WorkerStream::AddCredit(const v1::Credit& credit) {
  if (credit_jobs_ + credit.jobs() > engine::kMaxCreditJobs) {
    return engine::MakeError(
        engine::Reason::kInvalidRequest,
        absl::StrCat("credit.jobs: there would be room for ", credit_jobs_ + credit.jobs(),
                     " jobs; ", engine::kMaxCreditJobs, " is the most"));
  }
  // What waits in the line would still bring as much as there was room for.
  if (credit.jobs() < 0 || credit.bytes() < 0) WithdrawPoll();
  // Less than nothing has a limit too, however often something is taken away.
  credit_jobs_ = std::max(credit_jobs_ + credit.jobs(), -engine::kMaxCreditJobs);
  credit_bytes_ =
      std::clamp(credit_bytes_ + credit.bytes(), -engine::kMaxCreditBytes, engine::kMaxCreditBytes);
  return absl::OkStatus();
}

void WorkerStream::Leave() {
  phase_ = Phase::kLeaving;
  WithdrawPoll();
  goodbye_under_way_ = true;
  // What was not written yet is released with the rest.
  outbox_.TakeJobs();
  engine::EndSessionCommand end;
  end.session = session_;
  end.worker = hello_.worker();
  Submit(std::move(end), 1, 0,
         [](WorkerStream& self, engine::Outcome outcome)
             ABSL_EXCLUSIVE_LOCKS_REQUIRED(self.mutex_) {
               self.goodbye_under_way_ = false;
               self.goodbye_applied_ = outcome.status.ok();  // else again at the next tick
             });
}

void WorkerStream::MayPoll() {
  // What waits behind a write is not counted in the budget of answers: nothing shall wait behind a
  // large one, and little behind a small one.
  if (writing_ && writing_bytes_ > AnswerBudget::kSmallBytes) return;
  if (phase_ != Phase::kOpen || !outbox_.welcomed() || draining_ || stuck_ || poll_at_tick_ ||
      poll_ != nullptr || outbox_.jobs() > 0 || credit_jobs_ <= 0 || credit_bytes_ <= 0 ||
      hello_.queues().empty()) {
    return;
  }
  engine::LeaseCommand lease;
  lease.queues.assign(hello_.queues().begin(), hello_.queues().end());
  lease.max_jobs = static_cast<int32_t>(std::min<int64_t>(credit_jobs_, engine::kMaxLeaseJobs));
  lease.lease_ms = lease_ms_;
  lease.wait_ms = engine::kMaxWaitMs;
  lease.worker = hello_.worker();
  lease.session = session_;
  int64_t most =
      hello_.max_reply_bytes() == 0 ? engine::kDefaultReplyBytes : hello_.max_reply_bytes();
  if (writing_) most = std::min(most, static_cast<int64_t>(AnswerBudget::kSmallBytes));
  lease.max_reply_bytes = std::min(credit_bytes_, most);
  lease.last_in_line = silent_;
  poll_ = std::make_shared<Poll>();
  runtime::Call call;
  for (const std::string& queue : lease.queues) call.bytes += queue.size();
  call.command = std::move(lease);
  call.abandoned = [poll = poll_] { return poll->withdrawn.load(); };
  call.done = [self = shared_from_this(), poll = poll_](engine::Outcome outcome) {
    const MutexLock lock(self->mutex_);
    self->OnLeases(poll, std::move(outcome));
    self->MayPoll();
    self->MayWrite();
    self->MayFinish();
  };
  if (absl::Status status = context_.edge->Submit(std::move(call)); !status.ok()) {
    OnLeases(std::shared_ptr<Poll>(poll_), {std::move(status), {}});
  }
}

void WorkerStream::OnLeases(const std::shared_ptr<Poll>& poll, engine::Outcome outcome) {
  if (poll_ == poll) poll_ = nullptr;
  auto* reply = std::get_if<engine::LeaseReply>(&outcome.body);
  if (!outcome.status.ok() || reply == nullptr) {
    const engine::Reason reason = engine::ReasonOf(outcome.status);
    if (reason == engine::Reason::kDraining) return TellDrain(v1::DRAIN_REASON_SERVER);
    // Withdrawn: another one takes its place at once. Overloaded and the like: later.
    poll_at_tick_ = reason != engine::Reason::kCallExpired;
    return;
  }
  if (reply->leases.empty()) return;
  engine::SettleCommand undo = ToUndo(*reply);
  if (phase_ != Phase::kOpen || draining_) {
    return context_.edge->SubmitUnattended(std::move(undo));
  }
  for (size_t i = 0; i < reply->leases.size(); ++i) {
    v1::PushedJob job;
    *job.mutable_lease() = ToLease(std::move(reply->leases[i]));
    job.set_credit_bytes(static_cast<int64_t>(job.lease().ByteSizeLong()));
    --credit_jobs_;
    credit_bytes_ -= job.credit_bytes();
    outbox_.Add(std::move(job), std::move(undo.items[i].job));
  }
}

void WorkerStream::WithdrawPoll() {
  if (poll_ != nullptr) poll_->withdrawn = true;
}

void WorkerStream::ReleaseUnwritten() {
  StreamOutbox::Unwritten unwritten = outbox_.TakeJobs();
  if (unwritten.releases.empty()) return;
  credit_jobs_ += static_cast<int64_t>(unwritten.releases.size());
  credit_bytes_ += unwritten.credit_bytes;
  engine::SettleCommand undo;
  undo.items = std::move(unwritten.releases);
  context_.edge->SubmitUnattended(std::move(undo));
}

void WorkerStream::MayRead() {
  if (reading_ || reads_ended_ || (phase_ != Phase::kHello && phase_ != Phase::kOpen) ||
      operations_ >= engine::kMaxSessionOperations ||
      bytes_ + outbox_.bytes() >= engine::kMaxSessionBytes) {
    return;
  }
  reading_ = true;
  transport_->Read();
}

void WorkerStream::MayWrite() {
  if (writing_ || (phase_ != Phase::kOpen && phase_ != Phase::kLeaving)) return;
  size_t bytes = outbox_.NextBytes();
  if (!context_.answers->Take(bytes)) {
    // Callers have left too much unread. The jobs go to others; answers are small.
    ReleaseUnwritten();
    poll_at_tick_ = true;
    bytes = outbox_.NextBytes();
    if (!context_.answers->Take(bytes)) return;  // until the next tick
  }
  writing_bytes_ = bytes;
  const std::optional<v1::StreamJobsResponse> message = outbox_.Pack();
  if (!message.has_value()) {
    return context_.answers->Give(std::exchange(writing_bytes_, 0));
  }
  writing_ = true;
  write_began_ms_ = context_.edge->clock()->BootMs();
  transport_->Write(*message);
}

void WorkerStream::OnWritten(bool ok) {
  const MutexLock lock(mutex_);
  writing_ = false;
  stuck_ = false;
  context_.answers->Give(std::exchange(writing_bytes_, 0));
  if (phase_ == Phase::kOver) return;
  if (ok) {
    MayWrite();
    MayPoll();
    MayRead();
  }
  MayFinish();
}

void WorkerStream::MayFinish() {
  if (writing_ || phase_ == Phase::kOver) return;
  if (phase_ == Phase::kEnding) return BecomeOver(end_status_);
  if (phase_ == Phase::kLeaving && operations_ == 0 && goodbye_applied_ && outbox_.empty()) {
    BecomeOver(absl::OkStatus());
  }
}

void WorkerStream::EndWith(absl::Status status) {
  if (phase_ == Phase::kEnding || phase_ == Phase::kOver) return;
  phase_ = Phase::kEnding;
  end_status_ = std::move(status);
  WithdrawPoll();
  ReleaseUnwritten();
  MayFinish();
}

void WorkerStream::BecomeOver(const absl::Status& status) {
  phase_ = Phase::kOver;
  WithdrawPoll();
  if (session_ != 0) context_.edge->sessions()->Close(session_);
  if (transport_ != nullptr) transport_->Finish(status);
}

void WorkerStream::TellDrain(v1::DrainReason reason) {
  if (std::exchange(draining_, true)) return;
  WithdrawPoll();
  ReleaseUnwritten();
  v1::Drain drain;
  drain.set_reason(reason);
  outbox_.Add(std::move(drain));
  MayWrite();
}

void WorkerStream::OnBadMessage(const absl::Status& status) {
  const MutexLock lock(mutex_);
  reading_ = false;
  EndWith(status);
}

void WorkerStream::OnReadsEnded() {
  const MutexLock lock(mutex_);
  reading_ = false;
  reads_ended_ = true;
  reads_ended_ms_ = context_.edge->clock()->BootMs();
  // Nobody has said hello, so there is nothing that a tick would have to judge.
  if (phase_ == Phase::kHello) {
    EndWith(engine::MakeError(engine::Reason::kInvalidRequest, "the stream ended before a hello"));
  }
}

void WorkerStream::OnBroken() {
  const MutexLock lock(mutex_);
  if (phase_ == Phase::kOver) return;
  const bool lost = phase_ == Phase::kOpen;
  const int64_t silence_ms = context_.edge->clock()->BootMs() - last_message_ms_;
  ReleaseUnwritten();
  if (lost && loss_grace_ms_ > 0 && silence_ms <= engine::kStreamAliveMs) {
    engine::EndSessionCommand end;
    end.session = session_;
    end.worker = hello_.worker();
    end.grace_ms = loss_grace_ms_;
    context_.edge->SubmitUnattended(std::move(end));
  }
  phase_ = Phase::kEnding;
  end_status_ = absl::CancelledError("the stream is broken");
  WithdrawPoll();
  MayFinish();
}

void WorkerStream::Detach() {
  const MutexLock lock(mutex_);
  transport_ = nullptr;
  if (phase_ != Phase::kOver) BecomeOver(absl::CancelledError("the stream is gone"));
}

void WorkerStream::OnVerdict(const engine::SessionVerdict& verdict) {
  const MutexLock lock(mutex_);
  if (phase_ != Phase::kOpen) return;
  v1::HeartbeatResult result;
  result.set_job(JobName(verdict.queue, verdict.job_id));
  result.set_token(verdict.token);
  result.set_status(static_cast<v1::LeaseStatus>(verdict.status));
  outbox_.Add(std::move(result));
  MayWrite();
}

void WorkerStream::OnTick(int64_t now_ms) {
  const MutexLock lock(mutex_);
  if (phase_ == Phase::kOver || transport_ == nullptr) return;
  if (phase_ == Phase::kHello && now_ms - last_message_ms_ > engine::kHelloMs) {
    EndWith(engine::MakeError(engine::Reason::kInvalidRequest, "hello: did not come in time"));
  }
  if (phase_ == Phase::kOpen && reads_ended_ && now_ms - reads_ended_ms_ >= kBreakNoticedMs) {
    Leave();
  }
  if (phase_ == Phase::kLeaving && !goodbye_applied_ && !goodbye_under_way_) Leave();
  if (!silent_ && now_ms - last_message_ms_ > engine::kSilentSessionMs) {
    silent_ = true;
    WithdrawPoll();
  }
  if (writing_ && now_ms - write_began_ms_ >= lease_ms_) {
    // Nothing can be said to a worker that does not read, not even why.
    WithdrawPoll();
    phase_ = Phase::kEnding;
    end_status_ = absl::CancelledError("the worker does not read");
    transport_->Cancel();
    return;
  }
  if (writing_ && now_ms - write_began_ms_ >= lease_ms_ / 3) {
    stuck_ = true;
    WithdrawPoll();
    ReleaseUnwritten();
  }
  poll_at_tick_ = false;
  MayPoll();
  MayWrite();
  MayFinish();
}

void WorkerStream::OnDrain(runtime::DrainCause cause) {
  const MutexLock lock(mutex_);
  if (phase_ != Phase::kOpen) return;
  TellDrain(cause == runtime::DrainCause::kServer ? v1::DRAIN_REASON_SERVER
                                                  : v1::DRAIN_REASON_WORKER);
}

int64_t WorkerStream::LastHeardMs() const {
  const MutexLock lock(mutex_);
  return last_message_ms_;
}

void WorkerStream::OnEnd(bool continued) {
  const MutexLock lock(mutex_);
  EndWith(continued ? absl::OkStatus() : Draining());
}

}  // namespace stint::api
