// The stream of a worker (StreamJobs): one session, kept up by a thread of its own.
//
// A heartbeat that is not answered in time breaks the stream, and the next one has a connection
// of its own, so that leases outlive a network that drops everything in silence.
//
// When the stream breaks it is opened again at once (within 100 ms), and then every 0.5 to 2 s; the
// hello lists the leases that are held, so that they go on. What waits for an answer when it
// breaks gets UNAVAILABLE, as a unary call would, and is repeated by the worker. A broker that
// does not know streams is talked to by unary calls.
//
// Jobs come as far as the worker has places: Lease gives the room, and takes it back when it is
// interrupted. Messages are packed: what gathers while one is sent goes with the next.
//
// Thread rule: as WorkerLink. Hooks are called on gRPC's threads and on the keeping thread,
// without a lock held.
#ifndef STINT_CLIENT_CPP_STREAM_LINK_H_
#define STINT_CLIENT_CPP_STREAM_LINK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/cpp/backoff.h"
#include "client/cpp/clock.h"
#include "client/cpp/worker_link.h"
#include "sync/mutex.h"

namespace stint::client {

struct StreamLinkHooks {
  // The leases the worker holds now.
  std::function<std::vector<v1::HeartbeatItem>()> held;
  // What became of one of them, in a welcome or unasked; `sent_at`: when it was asked for, or
  // nothing if it was not.
  std::function<void(const v1::HeartbeatResult&, std::optional<absl::Duration> sent_at)> on_verdict;
  // The broker answered (OK), or a try to reach it failed. May be empty.
  std::function<void(const absl::Status&)> on_reach;
  // An operator wants this worker to leave.
  std::function<void()> on_leave;
};

class StreamLink final : public WorkerLink {
 public:
  // `hello` says who the worker is; held leases and session are filled in. `clock` may not be null.
  StreamLink(std::shared_ptr<Connection> connection, v1::Hello hello, Clock* clock,
             StreamLinkHooks hooks);
  ~StreamLink() override;

  absl::Status Lease(const v1::LeaseJobsRequest& request, v1::LeaseJobsResponse* response,
                     absl::Duration deadline, CallCanceller* canceller) override;
  absl::Status Heartbeat(const v1::HeartbeatRequest& request, v1::HeartbeatResponse* response,
                         absl::Duration deadline, CallCanceller* canceller) override;
  absl::Status Settle(const v1::SettleJobsRequest& request, v1::SettleJobsResponse* response,
                      absl::Duration deadline, CallCanceller* canceller) override;
  bool JobsMayCome() override;
  void Leave() override;

 private:
  class Attempt;
  enum class State { kDown, kHello, kUp };
  // Waits for answers to operations with ids from `first` on.
  struct Waiter {
    int64_t first = 0;
    std::vector<v1::StreamAnswer> answers;
    size_t missing = 0;
    absl::Status failed;
  };

  void Keep();
  // Gives the mutex up meanwhile.
  void Connect() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sends one operation each through `add(id, message)` and waits for all answers. `vital`: breaks
  // the stream when they do not come in time.
  absl::Status Ask(size_t count, absl::Duration deadline, CallCanceller* canceller, bool vital,
                   const std::function<void(size_t, int64_t, v1::StreamJobsRequest*)>& add,
                   std::vector<v1::StreamAnswer>* answers);
  // Has `canceller`, if there is one, end waits by `*cancelled` (under mutex_) until its End.
  // False: it was cancelled before.
  bool Begin(CallCanceller* canceller, bool* cancelled);
  // Waits until the stream is up; false: until `until`, an attempt failed, or `cancelled`.
  bool AwaitUp(absl::Duration until, const bool& cancelled) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetCredit(int64_t wanted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The message that takes one more operation of so many bytes.
  v1::StreamJobsRequest* Outgoing(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MaySend() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeJobs(int64_t most, v1::LeaseJobsResponse* response)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The broker does not answer: gives up the stream and its connection.
  void BreakSilent() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void FailWaiters(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // From an attempt.
  void OnMessage(Attempt* attempt);
  void OnSent(Attempt* attempt);
  void OnEnd(Attempt* attempt, const absl::Status& status);

  const std::shared_ptr<Connection> connection_;
  const v1::Hello hello_;
  Clock* const clock_;
  const StreamLinkHooks hooks_;
  UnaryLink unary_;

  Mutex mutex_;
  Condition changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  bool streams_unknown_ ABSL_GUARDED_BY(mutex_) = false;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kDown;
  std::shared_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  absl::Duration next_try_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  absl::Duration hello_until_ ABSL_GUARDED_BY(mutex_);
  absl::Duration hello_sent_at_ ABSL_GUARDED_BY(mutex_);
  // Of attempts that failed, or streams that broke.
  int64_t breaks_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status last_break_ ABSL_GUARDED_BY(mutex_);
  int64_t session_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<int64_t, Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);  // by id of each operation
  std::deque<v1::StreamJobsRequest> outgoing_ ABSL_GUARDED_BY(mutex_);
  size_t outgoing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;       // of the last message in it
  size_t outgoing_operations_ ABSL_GUARDED_BY(mutex_) = 0;  // in it
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration last_sent_ ABSL_GUARDED_BY(mutex_) = absl::ZeroDuration();
  // Jobs that the broker may still push, and what has arrived and was not taken.
  int64_t credit_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<v1::Lease> arrived_ ABSL_GUARDED_BY(mutex_);
  // What the last Lease brought: its caller may not have counted it among the held yet.
  std::vector<v1::HeartbeatItem> taken_ ABSL_GUARDED_BY(mutex_);
  // Bytes to give back with the next credit.
  int64_t bytes_back_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread keeper_;
};

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_STREAM_LINK_H_
