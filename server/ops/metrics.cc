#include "server/ops/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/engine/types.h"
#include "server/ops/metrics_table.h"
#include "server/ops/process_figures.h"
#include "sync/mutex.h"

namespace stint::ops {

using runtime::Histogram;
using runtime::LoopFigures;

namespace {

constexpr char kOtherQueues[] = "(other)";
// What a question to the loop counts for against its lane.
constexpr size_t kQuestionBytes = 256;

constexpr double kMillisPerSecond = 1'000;
constexpr double kMicrosPerSecond = 1'000'000;

// The text of a reading in the making: families of the table, filled one series at a time.
class Writer {
 public:
  Writer() {
    for (const Metric& metric : MetricsTable()) {
      prometheus::MetricFamily family;
      family.name = std::string(metric.name);
      family.help = std::string(metric.help);
      family.type = metric.type == Metric::Type::kCounter ? prometheus::MetricType::Counter
                    : metric.type == Metric::Type::kGauge ? prometheus::MetricType::Gauge
                                                          : prometheus::MetricType::Histogram;
      families_.push_back(std::move(family));
    }
  }

  void Add(MetricId id, const std::vector<std::string>& labels, double value) {
    prometheus::ClientMetric* series = AddSeries(id, labels);
    if (MetricsTable()[static_cast<size_t>(id)].type == Metric::Type::kCounter) {
      series->counter.value = value;
    } else {
      series->gauge.value = value;
    }
  }
  void Add(MetricId id, const std::vector<std::string>& labels, int64_t value) {
    Add(id, labels, static_cast<double>(value));
  }
  void Add(MetricId id, const std::vector<std::string>& labels, uint64_t value) {
    Add(id, labels, static_cast<double>(value));
  }

  // `divisor` makes the base unit of the histogram's.
  void Add(MetricId id, const std::vector<std::string>& labels, const Histogram& histogram,
           double divisor) {
    prometheus::ClientMetric::Histogram& shown = AddSeries(id, labels)->histogram;
    uint64_t count = 0;
    for (size_t i = 0; i <= histogram.bounds.size(); ++i) {
      count += histogram.counts[i];
      if (i == histogram.bounds.size()) break;
      shown.bucket.push_back({count, static_cast<double>(histogram.bounds[i]) / divisor});
    }
    shown.sample_count = count;
    shown.sample_sum = static_cast<double>(histogram.sum) / divisor;
  }

  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  prometheus::ClientMetric* AddSeries(MetricId id, const std::vector<std::string>& values) {
    const absl::string_view labels = MetricsTable()[static_cast<size_t>(id)].labels;
    const std::vector<std::string> names = absl::StrSplit(labels, ',', absl::SkipEmpty());
    prometheus::ClientMetric& series = families_[static_cast<size_t>(id)].metric.emplace_back();
    for (size_t i = 0; i < names.size(); ++i) series.label.push_back({names[i], values[i]});
    return &series;
  }

  std::vector<prometheus::MetricFamily> families_;
};

void WriteQueue(const LoopFigures::Queue& queue, std::optional<int64_t> oldest_ready_ms,
                Writer* out) {
  const std::string name = queue.name.empty() ? kOtherQueues : queue.name;
  for (size_t i = 0; i < queue.depths.size(); ++i) {
    const auto state = static_cast<engine::JobState>(i + 1);
    out->Add(MetricId::kJobs, {name, absl::AsciiStrToLower(engine::JobStateName(state))},
             queue.depths[i]);
  }
  if (oldest_ready_ms.has_value()) {
    out->Add(MetricId::kOldestReadyAge, {name},
             static_cast<double>(*oldest_ready_ms) / kMillisPerSecond);
  }
  for (const EventSeries& series : EventTable()) {
    out->Add(series.metric, {name, std::string(series.value)},
             queue.counts.events[static_cast<size_t>(series.event)]);
  }
  constexpr MetricId kTimes[] = {MetricId::kJobWait, MetricId::kJobRun, MetricId::kJobLifetime};
  for (size_t i = 0; i < queue.counts.times.size(); ++i) {
    out->Add(kTimes[i], {name}, queue.counts.times[i], kMillisPerSecond);
  }
}

void WriteLoop(const LoopFigures& figures, Writer* out) {
  int64_t leases = 0;
  for (const LoopFigures::Queue& queue : figures.queues) {
    leases += queue.depths[static_cast<size_t>(engine::JobState::kLeased) - 1];
  }
  out->Add(MetricId::kQueues, {}, figures.queue_count);
  out->Add(MetricId::kLeases, {}, leases);
  constexpr std::pair<engine::LeaseStatus, const char*> kStatuses[] = {
      {engine::LeaseStatus::kRenewed, "renewed"},
      {engine::LeaseStatus::kCancelRequested, "cancel_requested"},
      {engine::LeaseStatus::kLost, "lost"},
      {engine::LeaseStatus::kRunLimit, "run_limit"}};
  for (const auto& [status, name] : kStatuses) {
    out->Add(MetricId::kHeartbeats, {name}, figures.heartbeats[static_cast<size_t>(status)]);
  }
  out->Add(MetricId::kLowSpace, {}, figures.space.low ? 1.0 : 0.0);
  out->Add(MetricId::kFreeBytes, {}, figures.space.free_bytes);
  out->Add(MetricId::kPromotionLag, {}, figures.promotion_lag_ms, kMillisPerSecond);
  out->Add(MetricId::kStalls, {}, figures.stalls);
  out->Add(MetricId::kStalled, {}, static_cast<double>(figures.stalled_ms) / kMillisPerSecond);
  out->Add(MetricId::kGroupOperations, {}, figures.group_operations, 1);
  out->Add(MetricId::kGroupBytes, {}, figures.group_bytes, 1);
  out->Add(MetricId::kCommit, {}, figures.commit_us, kMicrosPerSecond);
}

void WriteStore(const storage::StoreFigures& store, Writer* out) {
  out->Add(MetricId::kStoreLiveBytes, {}, store.live_bytes);
  out->Add(MetricId::kStoreFileBytes, {}, store.file_bytes);
  out->Add(MetricId::kStoreMemtableBytes, {}, store.memtable_bytes);
  out->Add(MetricId::kStoreCacheBytes, {}, store.block_cache_bytes);
  out->Add(MetricId::kStorePendingBytes, {}, store.pending_compaction_bytes);
  out->Add(MetricId::kStoreCompactions, {}, store.running_compactions);
  out->Add(MetricId::kStoreFlushes, {}, store.running_flushes);
  out->Add(MetricId::kStoreStopped, {}, store.write_stopped);
  out->Add(MetricId::kStoreErrors, {}, store.background_errors);
}

void WriteCalls(const RpcCounts& counts, Writer* out) {
  for (const RpcCounts::Method& method : counts.Methods()) {
    for (size_t code = 0; code < method.codes.size(); ++code) {
      if (method.codes[code] == 0) continue;
      const std::string name = absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
      out->Add(MetricId::kRpcRequests, {method.name, name}, method.codes[code]);
    }
    out->Add(MetricId::kRpcTime, {method.name}, method.took_us, kMicrosPerSecond);
  }
  const auto refusals = counts.Refusals();
  for (size_t reason = 1; reason < refusals.size(); ++reason) {
    const absl::string_view name = engine::ReasonName(static_cast<engine::Reason>(reason));
    out->Add(MetricId::kRefusals, {std::string(name)}, refusals[reason]);
  }
}

void WriteProcess(Writer* out) {
  const ProcessFigures process = ReadProcessFigures();
  out->Add(MetricId::kCpu, {}, process.cpu_seconds);
  out->Add(MetricId::kResident, {}, process.resident_bytes);
  out->Add(MetricId::kAllocated, {}, process.allocated_bytes);
  out->Add(MetricId::kThreads, {}, process.threads);
  out->Add(MetricId::kOpenFiles, {}, process.open_files);
  out->Add(MetricId::kMaxFiles, {}, process.max_files);
  out->Add(MetricId::kStartTime, {}, process.start_seconds);
}

absl::string_view TypeName(Metric::Type type) {
  switch (type) {
    case Metric::Type::kCounter:
      return "counter";
    case Metric::Type::kGauge:
      return "gauge";
    case Metric::Type::kHistogram:
      break;
  }
  return "histogram";
}

}  // namespace

// What a reading asked the loop, and what came back.
struct Metrics::Reading {
  Mutex mutex;
  // Questions without answer, and one for the asking itself.
  size_t open = 1;
  std::function<void()> ready;
  absl::flat_hash_map<std::string, int64_t> oldest_ready_ms;
  std::optional<engine::ServerInfoReply> info;

  void Close() {
    std::function<void()> call;
    {
      const MutexLock lock(mutex);
      if (--open == 0) call = std::exchange(ready, nullptr);
    }
    if (call) call();
  }
};

Metrics::Metrics(BuildFacts facts, const RpcCounts* counts)
    : facts_(std::move(facts)), counts_(counts) {}

Metrics::~Metrics() = default;

void Metrics::Open(LoopSource source) {
  const MutexLock lock(mutex_);
  source_ = std::move(source);
  open_ = true;
}

void Metrics::Close() {
  const MutexLock lock(mutex_);
  open_ = false;
}

std::function<std::string()> Metrics::Gather(std::function<void()> ready) {
  auto reading = std::make_shared<Reading>();
  reading->ready = std::move(ready);
  // A reading that nobody waits for any more is dropped unanswered.
  const std::weak_ptr<Reading> weak = reading;
  const auto ask = [&](engine::Command command, auto take) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    runtime::Call call;
    call.command = std::move(command);
    call.bytes = kQuestionBytes;
    call.abandoned = [weak] { return weak.expired(); };
    call.done = [weak, take](const engine::Outcome& outcome) {
      const auto asked = weak.lock();
      if (asked == nullptr) return;
      if (outcome.status.ok()) {
        const MutexLock lock(asked->mutex);
        take(outcome.body, asked.get());
      }
      asked->Close();
    };
    {
      const MutexLock lock(reading->mutex);
      ++reading->open;
    }
    if (!source_.gateway->Submit(std::move(call)).ok()) reading->Close();
  };
  {
    const MutexLock lock(mutex_);
    if (open_) {
      ask(engine::ServerInfoCommand{}, [](const engine::ReplyBody& body, Reading* to) {
        to->info = std::get<engine::ServerInfoReply>(body);
      });
      for (const LoopFigures::Queue& queue : source_.figures().queues) {
        if (queue.name.empty()) continue;
        if (queue.depths[static_cast<size_t>(engine::JobState::kReady) - 1] == 0) continue;
        ask(engine::QueueStatsCommand{queue.name}, [name = queue.name](
                                                       const engine::ReplyBody& body, Reading* to) {
          to->oldest_ready_ms[name] = std::get<engine::QueueStatsReply>(body).oldest_ready_age_ms;
        });
      }
    }
  }
  reading->Close();
  return [this, reading] { return Text(reading.get()); };
}

std::string Metrics::Text(Reading* reading) {
  Writer out;
  {
    const MutexLock lock(mutex_);
    if (open_) {
      const MutexLock answers(reading->mutex);
      const LoopFigures figures = source_.figures();
      for (const LoopFigures::Queue& queue : figures.queues) {
        std::optional<int64_t> oldest_ms;
        const auto asked = reading->oldest_ready_ms.find(queue.name);
        if (asked != reading->oldest_ready_ms.end()) {
          oldest_ms = std::max<int64_t>(asked->second, 0);
        } else if (!queue.name.empty() &&
                   queue.depths[static_cast<size_t>(engine::JobState::kReady) - 1] == 0) {
          oldest_ms = 0;
        }
        WriteQueue(queue, oldest_ms, &out);
      }
      WriteLoop(figures, &out);
      WriteStore(source_.store(), &out);
      const runtime::WorkerCount workers = source_.workers();
      out.Add(MetricId::kWorkers, {"stream"}, uint64_t{workers.by_stream});
      out.Add(MetricId::kWorkers, {"calls"}, uint64_t{workers.by_calls});
      out.Add(MetricId::kSessions, {}, uint64_t{source_.sessions()});
      constexpr const char* kLanes[] = {"settle", "dispatch", "other"};
      const auto inbox = source_.inbox();
      for (size_t lane = 0; lane < inbox.size(); ++lane) {
        out.Add(MetricId::kInboxOperations, {kLanes[lane]}, uint64_t{inbox[lane].places});
        out.Add(MetricId::kInboxBytes, {kLanes[lane]}, uint64_t{inbox[lane].bytes});
      }
      if (reading->info.has_value()) {
        out.Add(MetricId::kParkedCalls, {}, reading->info->parked_calls);
        out.Add(MetricId::kDraining, {}, reading->info->draining ? 1.0 : 0.0);
        out.Add(MetricId::kRequestWindow, {},
                static_cast<double>(reading->info->request_window_ms) / kMillisPerSecond);
      }
    }
  }
  WriteCalls(*counts_, &out);
  WriteProcess(&out);
  out.Add(MetricId::kBuild, {facts_.version, facts_.store}, 1.0);
  return out.Text();
}

std::string Metrics::Describe() {
  std::string text;
  for (const Metric& metric : MetricsTable()) {
    absl::StrAppend(&text, metric.name, " ", TypeName(metric.type), " {", metric.labels, "}\n    ",
                    metric.help, "\n");
  }
  return text;
}

}  // namespace stint::ops
