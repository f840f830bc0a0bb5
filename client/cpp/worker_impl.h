// Inside of worker.h: one object, one mutex, four kinds of threads.
//
//   poll thread (worker_poll.cc)            asks for as many jobs as places are free
//   pool threads, one a place (worker.cc)   run handlers
//   heartbeat thread (worker_heartbeat.cc)  renews every lease with one call
//   settle thread (worker_settle.cc)        sends results; what gathers goes with the next call
//   Stop (worker_stop.cc)                   runs on its caller
//
// A lease goes kWaiting (for a pool thread; there is always one) → kRunning → kSettling and
// leaves `leases_` when its settle is answered or it is lost. Every field below the mutex is
// guarded by it; no call of the broker, no handler and no `on_event` runs under it.
#ifndef STINT_CLIENT_CPP_WORKER_IMPL_H_
#define STINT_CLIENT_CPP_WORKER_IMPL_H_

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/cpp/backoff.h"
#include "client/cpp/worker.h"
#include "client/cpp/worker_link.h"

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
  // Both need the mutex.
  bool Drained() const { return leases_.empty() && settles_.empty() && settling_ == 0; }
  void NoteChange() { ended_changed_.notify_all(); }

  // worker_stop.cc. All need the mutex.
  template <typename Condition>
  void WaitWhile(std::unique_lock<std::mutex>& lock, absl::Duration after_grace,
                 Condition condition);
  void CancelAll(std::unique_lock<std::mutex>& lock);
  void HandBackAll();
  bool HandlersRun() const;

  // worker_poll.cc
  void RunPoll();
  bool PollOnce();
  int WantedJobs() const;  // needs the mutex
  void GiveBackUnseen();
  void Accept(v1::LeaseJobsResponse* response, bool hand_back);
  void WaitBeforePoll(const absl::Status& status);
  // Tells of the first failure and the end of an outage.
  void NoteReachable(const absl::Status& status);

  // worker_heartbeat.cc
  void RunHeartbeat();
  // The next three need the mutex.
  absl::Duration BeatInterval(const HeldLease& held) const;
  absl::Duration NextBeat() const;
  absl::Duration NextUnconfirmed() const;
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
  // Queues a settle of `held` and moves it to kSettling. Needs the mutex.
  void QueueSettle(const HeldPtr& held, const Result& result, v1::ReleaseReason reason);
  void RunSettle();
  std::vector<PendingSettle> TakeBatch();  // needs the mutex
  void SendBatch(std::vector<PendingSettle> batch);
  void SettleAgain(std::vector<PendingSettle> settles);
  void WaitBeforeSettle(const absl::Status& status);
  void Refused(PendingSettle settle, const absl::Status& status);
  void Accepted(const PendingSettle& settle, const v1::SettleResult& result);
  void DropLease(const HeldPtr& held);  // needs the mutex

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

  mutable std::mutex mutex_;
  std::condition_variable poll_changed_;
  std::condition_variable pool_changed_;
  std::condition_variable beat_changed_;
  std::condition_variable settle_changed_;
  std::condition_variable ended_changed_;
  Mode mode_ = Mode::kNew;
  bool paused_ = false;
  bool leave_ = false;             // an operator wants this worker to end
  bool poll_interrupted_ = false;  // Pause or Stop ended the call under way
  bool poll_done_ = false;         // the poll thread has ended
  absl::Status poll_status_;
  bool stop_done_ = false;
  absl::Duration grace_end_;  // of Stop
  bool unreachable_ = false;
  int places_used_ = 0;  // leases in kWaiting and handlers that have not returned
  std::map<Key, HeldPtr> leases_;
  std::deque<HeldPtr> waiting_;
  std::deque<PendingSettle> settles_;
  size_t settle_bytes_ = 0;
  size_t settling_ = 0;                                      // settles in the call under way
  absl::Duration retry_beat_at_ = absl::InfiniteDuration();  // after a heartbeat that failed
  absl::Duration server_interval_ = absl::InfiniteDuration();
  absl::Duration planned_beat_ = absl::InfiniteDuration();
  WorkerStats stats_;
  StopReport report_;
  std::vector<std::thread> threads_;
};

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_WORKER_IMPL_H_
