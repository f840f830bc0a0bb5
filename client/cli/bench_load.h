// The load of `stint bench`: threads that put jobs into one queue, take jobs out and complete them,
// each call measured.
//
// Each thread has a session of its own (or, unary, calls of its own) and takes one step after the
// other: enqueue a batch, lease up to a batch, complete it. Calls are tried once; a refusal or a
// failure is counted and the thread goes on after a moment.
//
// Thread rule: Start, Stop and Result from one thread; `lifecycles` from any.
#ifndef STINT_CLIENT_CLI_BENCH_LOAD_H_
#define STINT_CLIENT_CLI_BENCH_LOAD_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli/latencies.h"
#include "client/cpp/connection.h"
#include "sync/mutex.h"

namespace stint::cli {

struct BenchPlan {
  std::string queue;
  int payload_bytes = 100;
  int batch = 1;
  int concurrency = 16;
  bool unary = false;
};

// Calls of one kind.
struct CallFigures {
  Latencies latencies;  // of those that succeeded
  int64_t errors = 0;
  absl::Status first_error;

  void Note(const absl::Status& status, absl::Duration latency);
  void Add(const CallFigures& other);
};

struct BenchFigures {
  CallFigures enqueue;
  CallFigures lease;  // those that brought jobs; the wait for them is in it
  CallFigures complete;

  void Add(const BenchFigures& other);
};

class BenchLoad {
 public:
  BenchLoad(std::shared_ptr<client::Connection> connection, BenchPlan plan);
  ~BenchLoad();
  BenchLoad(const BenchLoad&) = delete;
  BenchLoad& operator=(const BenchLoad&) = delete;

  void Start();
  // Each thread ends the step it is in.
  void Stop();

  // Jobs completed so far.
  int64_t lifecycles() const { return lifecycles_.load(); }
  // After Stop.
  BenchFigures Result() const;

 private:
  void Work(size_t number);
  // A moment, or until Stop.
  void Pause();

  const std::shared_ptr<client::Connection> connection_;
  const BenchPlan plan_;
  Mutex mutex_;
  Condition changed_;
  std::atomic<bool> stopping_{false};
  std::atomic<int64_t> lifecycles_{0};
  std::vector<BenchFigures> figures_;  // one for each thread
  std::vector<std::thread> threads_;
};

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_BENCH_LOAD_H_
