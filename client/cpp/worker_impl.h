// Inside of worker.h: one object, one mutex, four kinds of threads.
//
//   poll thread (worker_poll.cc)            asks for as many jobs as places are free
//   pool threads, one a place (worker.cc)   run handlers
//   heartbeat thread (worker_heartbeat.cc)  renews every lease with one call
//   settle thread (worker_settle.cc)        sends results; what gathers goes with the next call
//   Stop (worker_stop.cc)                   runs on its caller
//
// A lease goes kWaiting (for a pool thread; there is always one) → kRunning → kSettling and
// leaves `leases_` when its settle is answered or it is lost. No call of the broker, no handler and
// no `on_event` runs under the mutex.
#ifndef STINT_CLIENT_CPP_WORKER_IMPL_H_
#define STINT_CLIENT_CPP_WORKER_IMPL_H_

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cpp/backoff.h"
#include "client/cpp/worker.h"
#include "client/cpp/worker_link.h"
#include "sync/mutex.h"

namespace stint::client {

class Worker::Impl {
 public:
  Impl(std::shared_ptr<Connection> connection, WorkerOptions options,
       std::map<std::string, Handler> handlers, Handler any_kind);
  ~Impl();

  absl::Status Start();
  void Pause();
  void Resume();
  absl::Status Wait();
  StopReport Stop(absl::Duration grace);
  WorkerStats stats() const;
  const std::string& worker_id() const { return options_.worker; }

 private:
  enum class Mode { kNew, kRunning, kStopping, kStopped };
  enum class Phase { kWaiting, kRunning, kSettling };

  struct HeldLease {
    v1::Lease lease;
    CancelToken cancel;
    Phase phase = Phase::kWaiting;  // this and what follows: guarded by mutex_
    absl::Duration renewed_at;
    absl::Duration started_at;
    bool lost = false;
    std::string progress;
    bool progress_unsent = false;
  };
  using HeldPtr = std::shared_ptr<HeldLease>;
  using Key = std::pair<std::string, int64_t>;  // job, token

  struct PendingSettle {
    HeldPtr held;
    v1::SettleItem item;
    Result::Kind kind;
    absl::Duration run_time;
  };

  // worker.cc
  absl::Status Validate() const;
  std::unique_ptr<WorkerLink> MakeLink();
  void RunPool();
  void RunHandler(const HeldPtr& held);
  Result CallHandler(const Handler& handler, const HeldPtr& held);
  const Handler* FindHandler(const std::string& kind) const;
  void Tell(const WorkerEvent& event) const;
  bool Drained() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return leases_.empty() && settles_.empty() && settling_ == 0;
  }
  void NoteChange() { ended_changed_.NotifyAll(); }

  // worker_stop.cc
  template <typename Predicate>
  void WaitWhile(absl::Duration after_grace, Predicate holds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Gives the mutex up meanwhile.
  void CancelAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void HandBackAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HandlersRun() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // worker_poll.cc
  void RunPoll();
  bool PollOnce();
  int WantedJobs() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveBackUnseen();
  void Accept(v1::LeaseJobsResponse* response, bool hand_back);
  void WaitBeforePoll(const absl::Status& status);
  // Tells of the first failure and the end of an outage.
  void NoteReachable(const absl::Status& status);

  // worker_heartbeat.cc
  void RunHeartbeat();
  absl::Duration BeatInterval(const HeldLease& held) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration NextBeat() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration NextUnconfirmed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MarkUnconfirmed();
  void Beat();
  void SetProgress(const HeldPtr& held, std::string progress);
  void ApplyVerdict(const HeldPtr& held, v1::LeaseStatus status, absl::Duration sent_at);
  // For the stream: what is held, what the broker says of it, and that this worker shall leave.
  std::vector<v1::HeartbeatItem> HeldLeases() const;
  void OnVerdict(const v1::HeartbeatResult& verdict, std::optional<absl::Duration> sent_at);
  void OnLeave();  // worker_poll.cc
  // Cancels a handler and tells of it.
  void CancelHandler(const HeldPtr& held, CancelReason reason);

  // worker_settle.cc
  // Queues a settle of `held` and moves it to kSettling.
  void QueueSettle(const HeldPtr& held, const Result& result, v1::ReleaseReason reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunSettle();
  std::vector<PendingSettle> TakeBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendBatch(std::vector<PendingSettle> batch);
  void SettleAgain(std::vector<PendingSettle> settles);
  void WaitBeforeSettle(const absl::Status& status);
  void Refused(PendingSettle settle, const absl::Status& status);
  void Accepted(const PendingSettle& settle, const v1::SettleResult& result);
  void DropLease(const HeldPtr& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<Connection> connection_;
  // Made by Start; goes before everything it calls back.
  std::unique_ptr<WorkerLink> link_;
  WorkerOptions options_;
  const std::map<std::string, Handler> handlers_;
  const Handler any_kind_;
  Clock* const clock_;

  CallCanceller poll_call_;
  CallCanceller settle_call_;
  CallCanceller beat_call_;

  // Only the poll thread: the request whose answer has not been seen.
  std::optional<v1::LeaseJobsRequest> unseen_;
  Backoff poll_backoff_;
  // Only the settle thread. `send_alone_`: so many settles go one by one, because the broker
  // refused them together and does not say which it means.
  Backoff settle_backoff_;
  size_t send_alone_ = 0;

  mutable Mutex mutex_;
  Condition poll_changed_;
  Condition pool_changed_;
  Condition beat_changed_;
  Condition settle_changed_;
  Condition ended_changed_;
  Mode mode_ ABSL_GUARDED_BY(mutex_) = Mode::kNew;
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;
  // An operator wants this worker to end.
  bool leave_ ABSL_GUARDED_BY(mutex_) = false;
  bool poll_interrupted_ ABSL_GUARDED_BY(mutex_) = false;  // Pause or Stop ended the call under way
  bool poll_done_ ABSL_GUARDED_BY(mutex_) = false;         // the poll thread has ended
  absl::Status poll_status_ ABSL_GUARDED_BY(mutex_);
  bool stop_done_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration grace_end_ ABSL_GUARDED_BY(mutex_);  // of Stop
  bool unreachable_ ABSL_GUARDED_BY(mutex_) = false;
  // Leases in kWaiting and handlers that have not returned.
  int places_used_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Key, HeldPtr> leases_ ABSL_GUARDED_BY(mutex_);
  std::deque<HeldPtr> waiting_ ABSL_GUARDED_BY(mutex_);
  std::deque<PendingSettle> settles_ ABSL_GUARDED_BY(mutex_);
  size_t settle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t settling_ ABSL_GUARDED_BY(mutex_) = 0;  // settles in the call under way
  // After a heartbeat that failed.
  absl::Duration retry_beat_at_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  absl::Duration server_interval_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  absl::Duration planned_beat_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  WorkerStats stats_ ABSL_GUARDED_BY(mutex_);
  StopReport report_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_WORKER_IMPL_H_
