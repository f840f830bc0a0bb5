// The table of all metrics: the one place of their names, types, labels and help. The rows stand
// in the order of MetricId.
//
// Names start with stint_ and end in their unit; counters end in _total. A label's name stands
// in `labels`, with commas between them, in the order in which values are given. Constants.
#ifndef STINT_SERVER_OPS_METRICS_TABLE_H_
#define STINT_SERVER_OPS_METRICS_TABLE_H_

#include <cstddef>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/engine/effects.h"

namespace stint::ops {

enum class MetricId {
  // Jobs and leases, by queue.
  kJobs,
  kOldestReadyAge,
  kEnqueued,
  kGranted,
  kCompleted,
  kFailed,
  kReleased,
  kCancelled,
  kDead,
  kRedriven,
  kRemoved,
  kLapsed,
  kLosses,
  kRevoked,
  kLateSettles,
  kLateRenewals,
  kStaleTokens,
  kJobWait,
  kJobRun,
  kJobLifetime,
  // The broker.
  kQueues,
  kLeases,
  kWorkers,
  kSessions,
  kHeartbeats,
  kParkedCalls,
  kDraining,
  kLowSpace,
  kRequestWindow,
  kPromotionLag,
  kStalls,
  kStalled,
  kGroupOperations,
  kGroupBytes,
  kCommit,
  kInboxOperations,
  kInboxBytes,
  // Calls.
  kRpcRequests,
  kRpcTime,
  kRefusals,
  // Store, process, build.
  kFreeBytes,
  kStoreLiveBytes,
  kStoreFileBytes,
  kStoreMemtableBytes,
  kStoreCacheBytes,
  kStorePendingBytes,
  kStoreCompactions,
  kStoreFlushes,
  kStoreStopped,
  kStoreErrors,
  kCpu,
  kResident,
  kAllocated,
  kThreads,
  kOpenFiles,
  kMaxFiles,
  kStartTime,
  kBuild,
};

struct Metric {
  enum class Type { kCounter, kGauge, kHistogram };

  MetricId id;
  absl::string_view name;
  Type type;
  absl::string_view labels;
  absl::string_view help;
};

absl::Span<const Metric> MetricsTable();

// How each thing that happens to jobs is shown: in which counter, and under which value of the
// label that stands behind `queue` (empty: there is none).
struct EventSeries {
  engine::JobEvent event;
  MetricId metric;
  absl::string_view value;
};
absl::Span<const EventSeries> EventTable();

}  // namespace stint::ops

#endif  // STINT_SERVER_OPS_METRICS_TABLE_H_
