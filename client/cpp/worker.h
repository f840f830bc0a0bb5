// The worker runtime: takes jobs, runs handlers, keeps leases alive, settles.
//
//   Worker worker(connection, options, [](JobContext& job) {
//     return Result::Complete(Work(job.payload()));
//   });
//   absl::Status started = worker.Start();
//   ...                                   // wait for a signal
//   StopReport report = worker.Stop(absl::Seconds(30));
//
// What it promises:
// - It never holds more leases than it can start at once; a place that becomes free is filled
//   while others still work.
// - One call renews all leases, from a thread of its own, so that no handler can starve it.
// - However a handler ends (result, exception of any type, out of memory), its place is free
//   again and its attempt is settled.
// - Settles are repeated until the broker answers or the worker has stopped; what gathers
//   while one call is under way goes with the next.
// - Connections are made anew for ever. A worker ends by itself only when the broker refuses
//   its calls for a reason that repeating cannot mend, or when its options say so.
//
// What it does not do: it does not interrupt a handler (see cancel_token.h) and gives no
// handler a job whose kind it does not know; such a job goes back for another worker.
//
// Thread rule: all methods from any thread; handlers and `on_event` are called on the
// worker's threads, several at a time.
#ifndef STINT_CLIENT_CPP_WORKER_H_
#define STINT_CLIENT_CPP_WORKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/cancel_token.h"
#include "client/cpp/clock.h"
#include "client/cpp/connection.h"
#include "stint/v1/lease.pb.h"
#include "stint/v1/worker_service.pb.h"

namespace stint::client {

// What a handler makes of its job.
class Result {
 public:
  // Done. `result` is kept with the job, up to the broker's payload limit; over it the attempt
  // fails and says so.
  static Result Complete(std::string result = "");
  // This attempt failed; the queue's retry policy decides. `error` is for people; it is made
  // valid UTF-8 and shortened to 8 KiB.
  static Result Fail(std::string error);
  // Not done and no failure: another worker may have it, after `delay`.
  static Result Release(absl::Duration delay = absl::ZeroDuration());

  // Of a failure: retry after this long, if the budget allows.
  Result&& RetryAfter(absl::Duration delay) &&;
  // Of a failure: never retry; the job becomes a dead letter.
  Result&& NoRetry() &&;

  enum class Kind { kComplete, kFail, kRelease };
  Kind kind() const { return kind_; }
  const std::string& text() const { return text_; }
  const std::optional<absl::Duration>& delay() const { return delay_; }
  bool no_retry() const { return no_retry_; }

 private:
  Result(Kind kind, std::string text) : kind_(kind), text_(std::move(text)) {}

  Kind kind_;
  std::string text_;  // result of kComplete, error of kFail
  std::optional<absl::Duration> delay_;
  bool no_retry_ = false;
};

// What a handler sees of its job. Lives as long as the handler runs.
class JobContext {
 public:
  JobContext(const v1::Lease& lease, const CancelToken& cancel,
             std::function<void(std::string)> set_progress)
      : lease_(lease), cancel_(cancel), set_progress_(std::move(set_progress)) {}

  // Everything the broker said: payload, headers, labels, the attempt before this one …
  const v1::Lease& lease() const { return lease_; }
  // `queues/{queue}/jobs/{job}`.
  const std::string& job() const { return lease_.job(); }
  const std::string& payload() const { return lease_.payload(); }
  int32_t attempt() const { return lease_.attempt(); }
  // Grows with each grant of this job for ever. Say it to your own database ("only if the
  // stored token is not newer") to keep an older holder out.
  int64_t fencing_token() const { return lease_.token(); }
  const CancelToken& cancel() const { return cancel_; }
  // How far the work is, for people who look at the job; up to 4 KiB, the rest is cut off;
  // empty: nothing. It goes with the next heartbeat, of several only the last. Cheap: call it
  // as often as you like. The broker keeps it in memory while the lease lives.
  void SetProgress(std::string progress) { set_progress_(std::move(progress)); }

 private:
  const v1::Lease& lease_;
  const CancelToken& cancel_;
  const std::function<void(std::string)> set_progress_;
};

using Handler = std::function<Result(JobContext&)>;

// What a worker tells about itself, for logs.
struct WorkerEvent {
  enum class Kind {
    kStarted,            // `lease`: a handler begins.
    kSettled,            // `lease`: the broker accepted the settle; `state`, `detail`, `error`.
    kLeaseLost,          // `lease`: the broker says it is not ours any more; `detail`.
    kSettleRefused,      // `lease`: the settle was refused; `status`. The result is lost.
    kCancelling,         // `lease`: the handler was told to stop; `detail`.
    kUnconfirmed,        // `lease`: not renewed for a whole lease.
    kBrokerUnreachable,  // `status`: the first failure of an outage.
    kBrokerBack,         // The outage is over.
  };
  Kind kind;
  const v1::Lease* lease = nullptr;
  Result::Kind result = Result::Kind::kComplete;
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  absl::Duration run_time = {};
  absl::Status status = {};
  std::string detail = {};
  std::string error = {};  // what a failed attempt tells the broker
};

struct WorkerOptions {
  // Required. The first that has a ready job is served first.
  std::vector<std::string> queues;
  // How many handlers may run at a time: 1 to 1,000.
  int concurrency = 1;
  // How long a lease holds without renewal: 1 s to 24 h. Without a stream a killed
  // worker's jobs are given to others after this.
  absl::Duration lease_duration = absl::Seconds(15);
  // Id of this process; empty: HOST:PID:RANDOM. Two processes must not share one.
  std::string worker;
  // The release this process runs, for people who look at the broker's workers; ≤ 128 bytes.
  std::string version;
  // One stream to the broker: jobs are pushed, and a killed process is noticed in about 5 s. False:
  // unary calls, and a killed process is noticed when its leases lapse. A broker that knows no
  // streams is talked to by unary calls in any case, and so it is with exit_when_empty.
  bool stream = true;
  // Cancel a handler when its lease could not be renewed for a whole lease, instead of going on
  // and settling when the broker is back.
  bool cancel_when_unconfirmed = false;
  // End by itself after this many jobs; 0: never.
  int64_t max_jobs = 0;
  // End by itself when no job is ready and none is held.
  bool exit_when_empty = false;
  // See WorkerEvent. Must not block and must not call the worker.
  std::function<void(const WorkerEvent&)> on_event;
  // Null: the machine's.
  Clock* clock = nullptr;
};

struct WorkerStats {
  int64_t taken = 0;
  int64_t completed = 0;
  int64_t failed = 0;
  int64_t released = 0;
  int64_t lost = 0;     // leases that another holder or an end took away
  int64_t refused = 0;  // settles refused for another reason
  int held = 0;         // leases held now: running, or with a settle not answered yet
};

struct StopReport {
  // Results and hand-backs that the broker did not answer before the grace was over. Their
  // jobs run again when their leases lapse, if the broker did not receive them.
  int unsettled = 0;
  // Handlers that did not return in spite of their cancel. Their jobs were handed back.
  int still_running = 0;
};

class Worker {
 public:
  // One handler for every kind.
  Worker(std::shared_ptr<Connection> connection, WorkerOptions options, Handler handler);
  // Handlers by kind. The handler under "" gets jobs without a kind and nothing else.
  Worker(std::shared_ptr<Connection> connection, WorkerOptions options,
         std::map<std::string, Handler> handlers);
  // Stops without grace if it runs. Waits for handlers that do not return.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // INVALID_ARGUMENT when the options are not valid. A broker that is not there is no error.
  // At most once.
  absl::Status Start();

  // Takes no new job until Resume(); handlers and heartbeats go on. A job that a call under
  // way brings is given back at no cost. Both return at once and may be called in any state.
  void Pause();
  void Resume();

  // Waits until the worker has ended, by itself or by Stop. OK, or why the broker refused it.
  absl::Status Wait();

  // Takes no new job, and waits up to `grace` for handlers to end and settles to be answered;
  // heartbeats go on. Then handlers are cancelled and what they hold is given back, so that
  // others have it at once. Takes at most `grace` and about 3 s. A later call gets the report of
  // the first, and shortens its grace if its own ends sooner.
  StopReport Stop(absl::Duration grace);

  WorkerStats stats() const;
  const std::string& worker_id() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_WORKER_H_
