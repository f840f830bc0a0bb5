// One session of a worker, without gRPC: what comes in becomes commands, what they come to and
// the jobs that the worker has room for go out, packed into as few messages as the other side
// reads. PROTOCOL.md tells the rules from the worker's side.
//
//   hello ─► open ─┬─ goodbye, or an orderly end of the worker's half ─► leaving ─► over
//                  ├─ our own end: bad message, stuck reader, broker stops ─► ending ─► over
//                  └─ the stream breaks ─► over
//
// Jobs come by a LeaseJobs of its own: at most one waits in the line of the matcher, for as many
// jobs and bytes as there is room for, and the next follows when what it brought is written.
//
// How it is used: a transport (grpc_worker_stream.cc; a test's own) calls the On… methods and
// carries out what StreamTransport asks for. Thread rule: any thread, any order; all state is
// under one mutex, and StreamTransport is called under it.
#ifndef STINT_SERVER_API_WORKER_STREAM_H_
#define STINT_SERVER_API_WORKER_STREAM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/api/answer_budget.h"
#include "server/api/calls_under_way.h"
#include "server/api/edge.h"
#include "server/api/stream_outbox.h"
#include "server/runtime/sessions.h"
#include "stint/v1/worker_service.pb.h"
#include "sync/mutex.h"

namespace stint::api {

// Carries a stream. None of these waits; their ends come as On… from another thread, or later.
class StreamTransport {
 public:
  virtual ~StreamTransport() = default;
  // Asks for the next message: OnMessage or OnReadsEnded. One at a time.
  virtual void Read() = 0;
  // OnWritten. One at a time.
  virtual void Write(const v1::StreamJobsResponse& message) = 0;
  // The end of the stream; no write is under way. At most once, also after it broke.
  virtual void Finish(const absl::Status& status) = 0;
  // Breaks the stream: OnBroken follows.
  virtual void Cancel() = 0;
};

struct WorkerStreamContext {
  Edge* edge;
  std::shared_ptr<CallsUnderWay> calls;
  std::shared_ptr<AnswerBudget> answers;
  // Of the caller's credential.
  std::string identity;
};

class WorkerStream final : public runtime::Session,
                           public std::enable_shared_from_this<WorkerStream> {
 public:
  // `transport` stays until Detach.
  WorkerStream(WorkerStreamContext context, StreamTransport* transport);

  // Asks for the first message.
  void Begin();

  // From the transport.
  void OnMessage(v1::StreamJobsRequest message);
  // A message that cannot be read or is too large.
  void OnBadMessage(const absl::Status& status);
  // No more messages will come: an orderly end, or OnBroken follows soon.
  void OnReadsEnded();
  void OnWritten(bool ok);
  void OnBroken();
  // The transport goes away.
  void Detach();

  // From the sessions.
  void OnVerdict(const engine::SessionVerdict& verdict) override;
  void OnTick(int64_t now_ms) override;
  void OnDrain(runtime::DrainCause cause) override;
  void OnEnd(bool continued) override;
  int64_t LastHeardMs() const override;

 private:
  enum class Phase { kHello, kOpen, kLeaving, kEnding, kOver };
  // A LeaseJobs of this session; withdrawn, it is given nothing any more.
  struct Poll {
    std::atomic<bool> withdrawn = false;
  };
  absl::Status Hello(v1::Hello hello) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // worker_stream_operations.cc
  void Enqueue(v1::StreamEnqueue enqueue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Settle(v1::StreamJobsRequest* message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Heartbeat(const v1::StreamHeartbeat& heartbeat) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status AddCredit(const v1::Credit& credit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What an operation came to, a refusal included; called under the mutex.
  using Answer = std::function<void(WorkerStream&, engine::Outcome)>;
  // Hands an operation to the engine.
  void Submit(engine::Command command, size_t operations, size_t bytes, Answer answer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Answered(size_t operations, size_t bytes, const Answer& answer, engine::Outcome outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MayPoll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnLeases(const std::shared_ptr<Poll>& poll, engine::Outcome outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WithdrawPoll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReleaseUnwritten() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MayRead() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MayWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MayFinish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndWith(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The broker, or an operator, wants no more jobs to go to this session.
  void TellDrain(v1::DrainReason reason) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BecomeOver(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const WorkerStreamContext context_;
  mutable Mutex mutex_;
  StreamTransport* transport_ ABSL_GUARDED_BY(mutex_);
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kHello;
  absl::Status end_status_ ABSL_GUARDED_BY(mutex_);
  uint64_t session_ ABSL_GUARDED_BY(mutex_) = 0;
  v1::Hello hello_ ABSL_GUARDED_BY(mutex_);
  int64_t lease_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t loss_grace_ms_ ABSL_GUARDED_BY(mutex_) = 0;

  // The worker's half.
  int64_t last_message_ms_ ABSL_GUARDED_BY(mutex_);
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool reads_ended_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t reads_ended_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t operations_ ABSL_GUARDED_BY(mutex_) = 0;  // under way
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;       // of them
  bool goodbye_applied_ ABSL_GUARDED_BY(mutex_) = false;
  bool goodbye_under_way_ ABSL_GUARDED_BY(mutex_) = false;

  // Room for jobs.
  int64_t credit_jobs_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t credit_bytes_ ABSL_GUARDED_BY(mutex_) = engine::kDefaultCreditBytes;
  std::shared_ptr<Poll> poll_ ABSL_GUARDED_BY(mutex_);
  // After a refusal: not before the next tick.
  bool poll_at_tick_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;

  // Our half.
  StreamOutbox outbox_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  size_t writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t write_began_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  // The write under way has taken a third of a lease.
  bool stuck_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_WORKER_STREAM_H_
