// Every metric of the broker: one table of names, types, labels and help, and the text that
// Prometheus reads.
//
// How it is used: Gather begins a reading. Most figures are there at once (what the loop
// counted, runtime/loop_metrics.h; calls, ops/rpc_counts.h; the process and the store); the age
// of the oldest ready job of each labelled queue, and what only the engine knows, are asked of
// the loop like any read. Text writes what is known by then: while the loop stands still the
// asked figures are missing, and all others are there.
//
// The series of queues follow the rule of runtime/loop_metrics.h; the queues without series of
// their own are together `queue="(other)"`, which no queue can be called.
//
// Thread-safe.
#ifndef STINT_SERVER_OPS_METRICS_H_
#define STINT_SERVER_OPS_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "server/ops/rpc_counts.h"
#include "server/runtime/broker_loop.h"
#include "server/runtime/workers.h"
#include "sync/mutex.h"

namespace stint::ops {

// What does not change while the process runs.
struct BuildFacts {
  std::string version;
  std::string store;
};

// Figures of the loop; broker.cc gives those of the real one.
struct LoopSource {
  runtime::Gateway* gateway = nullptr;
  std::function<runtime::LoopFigures()> figures;
  std::function<std::array<runtime::Inbox::LaneFill, 3>()> inbox;
  std::function<storage::StoreFigures()> store;
  // How many streams of workers are open.
  std::function<size_t()> sessions;
  std::function<runtime::WorkerCount()> workers;
};

class Metrics {
 public:
  // `counts` outlives it.
  Metrics(BuildFacts facts, const RpcCounts* counts);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // The loop runs: from now on its figures are there. It must outlive every reading; Close ends
  // that.
  void Open(LoopSource source);
  // Waits for a Text under way; after it the loop is not touched any more.
  void Close();

  // Begins a reading. `ready` is called once, when nothing more is awaited, by any thread or
  // before this returns. The function given back writes the text; call it once.
  std::function<std::string()> Gather(std::function<void()> ready);

  // The table, for the golden file and for documents: one line a metric.
  static std::string Describe();

 private:
  struct Reading;
  std::string Text(Reading* reading);

  const BuildFacts facts_;
  const RpcCounts* const counts_;
  Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  LoopSource source_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stint::ops

#endif  // STINT_SERVER_OPS_METRICS_H_
