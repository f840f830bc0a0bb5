#include "server/ops/metrics_table.h"

#include <iterator>

namespace stint::ops {
namespace {

using Id = MetricId;
using enum Metric::Type;
using engine::JobEvent;

constexpr Metric kTable[] = {
    {Id::kJobs, "stint_jobs", kGauge, "queue,state", "Jobs by state."},
    {Id::kOldestReadyAge, "stint_oldest_ready_age_seconds", kGauge, "queue",
     "How long the oldest ready job has waited; 0 when none is ready. Only of queues with series "
     "of their own."},
    {Id::kEnqueued, "stint_jobs_enqueued_total", kCounter, "queue", "Jobs enqueued."},
    {Id::kGranted, "stint_jobs_granted_total", kCounter, "queue", "Leases granted."},
    {Id::kCompleted, "stint_jobs_completed_total", kCounter, "queue", "Jobs completed."},
    {Id::kFailed, "stint_jobs_failed_total", kCounter, "queue",
     "Failures charged to jobs: reported by the worker, or the run limit was reached."},
    {Id::kReleased, "stint_jobs_released_total", kCounter, "queue,reason",
     "Jobs handed back by workers. kind_unknown: no handler there for the kind of job."},
    {Id::kCancelled, "stint_jobs_cancelled_total", kCounter, "queue,reason",
     "Jobs that ended as cancelled. expired: not started in time."},
    {Id::kDead, "stint_jobs_dead_total", kCounter, "queue,reason",
     "Jobs that ended as dead letters."},
    {Id::kRedriven, "stint_jobs_redriven_total", kCounter, "queue",
     "Dead and cancelled jobs brought back."},
    {Id::kRemoved, "stint_jobs_removed_total", kCounter, "queue,reason",
     "Jobs that are not kept any more, each counted once. count, bytes and space are evictions "
     "before their age: by number, by size, and for room on a nearly full disk."},
    {Id::kLapsed, "stint_leases_lapsed_total", kCounter, "queue,reason",
     "Leases that were not renewed in time, or not within the grace after their worker's "
     "stream was lost."},
    {Id::kLosses, "stint_losses_total", kCounter, "queue",
     "Lapses charged to jobs as losses; late settles and renewals take theirs back."},
    {Id::kRevoked, "stint_leases_revoked_total", kCounter, "queue,reason",
     "Leases that the broker took away."},
    {Id::kLateSettles, "stint_late_settles_total", kCounter, "queue",
     "Settles accepted after the lease had lapsed, because nobody had taken the job."},
    {Id::kLateRenewals, "stint_late_renewals_total", kCounter, "queue",
     "Heartbeats that brought a lapsed lease back, because nobody had taken the job."},
    {Id::kStaleTokens, "stint_stale_tokens_refused_total", kCounter, "queue",
     "Settles refused because their token does not own the job any more."},
    {Id::kJobWait, "stint_job_wait_seconds", kHistogram, "queue",
     "From the moment a job was ready to its grant."},
    {Id::kJobRun, "stint_job_run_seconds", kHistogram, "queue",
     "From the grant of a job to its settle, of whatever kind."},
    {Id::kJobLifetime, "stint_job_lifetime_seconds", kHistogram, "queue",
     "From the enqueue of a job to its completion."},

    {Id::kQueues, "stint_queues", kGauge, "", "Queues."},
    {Id::kLeases, "stint_leases", kGauge, "", "Leases in force."},
    {Id::kWorkers, "stint_workers", kGauge, "via",
     "Workers: those with a stream, and those that have asked for jobs or renewed a lease by "
     "single calls in the last 90 s."},
    {Id::kSessions, "stint_sessions", kGauge, "", "Streams of workers that are open."},
    {Id::kHeartbeats, "stint_heartbeats_total", kCounter, "status",
     "Leases in heartbeats, by what the worker was told."},
    {Id::kParkedCalls, "stint_parked_calls", kGauge, "",
     "Calls that wait for a job or for a job's end."},
    {Id::kDraining, "stint_draining", kGauge, "", "1 while the broker drains."},
    {Id::kLowSpace, "stint_low_space", kGauge, "",
     "1 while the disk is too full for new jobs; all other calls work."},
    {Id::kRequestWindow, "stint_request_window_seconds", kGauge, "",
     "How far back request ids are known: the setting, or less when there are too many."},
    {Id::kPromotionLag, "stint_promotion_lag_seconds", kHistogram, "",
     "From the due time of a job to the moment it was ready."},
    {Id::kStalls, "stint_broker_stalls_total", kCounter, "",
     "Times the broker stood still for over a second."},
    {Id::kStalled, "stint_broker_stalled_seconds_total", kCounter, "",
     "Time the broker stood still, of stalls over a second; leases got it back."},
    {Id::kGroupOperations, "stint_group_operations", kHistogram, "",
     "Operations committed together."},
    {Id::kGroupBytes, "stint_group_bytes", kHistogram, "",
     "Bytes of keys and values committed together."},
    {Id::kCommit, "stint_commit_seconds", kHistogram, "",
     "From the commit of a group until the disk has it."},
    {Id::kInboxOperations, "stint_inbox_operations", kGauge, "lane",
     "Operations that wait to be applied."},
    {Id::kInboxBytes, "stint_inbox_bytes", kGauge, "lane", "Bytes that wait to be applied."},

    {Id::kRpcRequests, "stint_rpc_requests_total", kCounter, "method,code",
     "Calls answered, by gRPC code."},
    {Id::kRpcTime, "stint_rpc_seconds", kHistogram, "method",
     "From the arrival of a call to its answer; LeaseJobs and WaitJob include their wait, "
     "StreamJobs counts when the stream ends."},
    {Id::kRefusals, "stint_refusals_total", kCounter, "reason",
     "Calls refused, by the reason in their error details."},

    {Id::kFreeBytes, "stint_store_free_bytes", kGauge, "", "Free space on the store's volume."},
    {Id::kStoreLiveBytes, "stint_store_live_bytes", kGauge, "",
     "What the store's rows take, about."},
    {Id::kStoreFileBytes, "stint_store_file_bytes", kGauge, "",
     "Tables on disk, with what they still hold of deleted rows."},
    {Id::kStoreMemtableBytes, "stint_store_memtable_bytes", kGauge, "",
     "Written and not in tables yet."},
    {Id::kStoreCacheBytes, "stint_store_block_cache_bytes", kGauge, "",
     "Blocks kept in memory after they were read."},
    {Id::kStorePendingBytes, "stint_store_pending_compaction_bytes", kGauge, "",
     "What the store has still to tidy up."},
    {Id::kStoreCompactions, "stint_store_running_compactions", kGauge, "", "Compactions running."},
    {Id::kStoreFlushes, "stint_store_running_flushes", kGauge, "", "Flushes running."},
    {Id::kStoreStopped, "stint_store_write_stopped", kGauge, "",
     "1 while writes wait for the store's upkeep."},
    {Id::kStoreErrors, "stint_store_background_errors", kGauge, "",
     "Errors of the store's upkeep since it was opened."},
    {Id::kCpu, "stint_process_cpu_seconds_total", kCounter, "",
     "CPU time of the process, user and system."},
    {Id::kResident, "stint_process_resident_memory_bytes", kGauge, "",
     "Memory of the process in RAM."},
    {Id::kAllocated, "stint_process_allocated_memory_bytes", kGauge, "",
     "Memory allocated and not freed. Beside the resident memory it tells a leak from pages that "
     "the allocator keeps."},
    {Id::kThreads, "stint_process_threads", kGauge, "", "Threads of the process."},
    {Id::kOpenFiles, "stint_process_open_fds", kGauge, "", "Open file descriptors."},
    {Id::kMaxFiles, "stint_process_max_fds", kGauge, "", "Most file descriptors allowed."},
    {Id::kStartTime, "stint_process_start_time_seconds", kGauge, "",
     "When the process was started, since 1970."},
    {Id::kBuild, "stint_build_info", kGauge, "version,store",
     "1; which release this is, on which kind of store."},
};

constexpr bool StandInOrder() {
  for (size_t i = 0; i < std::size(kTable); ++i) {
    if (static_cast<size_t>(kTable[i].id) != i) return false;
  }
  return std::size(kTable) == static_cast<size_t>(Id::kBuild) + 1;
}
static_assert(StandInOrder());

constexpr EventSeries kEvents[] = {
    {JobEvent::kEnqueued, Id::kEnqueued, ""},
    {JobEvent::kGranted, Id::kGranted, ""},
    {JobEvent::kCompleted, Id::kCompleted, ""},
    {JobEvent::kFailed, Id::kFailed, ""},
    {JobEvent::kReleased, Id::kReleased, "worker"},
    {JobEvent::kReleasedForShutdown, Id::kReleased, "shutdown"},
    {JobEvent::kReleasedKindUnknown, Id::kReleased, "kind_unknown"},
    {JobEvent::kLapsed, Id::kLapsed, "not_renewed"},
    {JobEvent::kLapsedStreamLost, Id::kLapsed, "stream_lost"},
    {JobEvent::kLoss, Id::kLosses, ""},
    {JobEvent::kLateSettle, Id::kLateSettles, ""},
    {JobEvent::kLateRenewal, Id::kLateRenewals, ""},
    {JobEvent::kRevokedRunLimit, Id::kRevoked, "run_limit"},
    {JobEvent::kRevokedCancel, Id::kRevoked, "cancel_grace"},
    {JobEvent::kRevokedRemoved, Id::kRevoked, "job_removed"},
    {JobEvent::kCancelledByClient, Id::kCancelled, "client"},
    {JobEvent::kExpired, Id::kCancelled, "expired"},
    {JobEvent::kDeadAttempts, Id::kDead, "attempts_exhausted"},
    {JobEvent::kDeadLosses, Id::kDead, "leases_lost"},
    {JobEvent::kDeadRejected, Id::kDead, "rejected_by_worker"},
    {JobEvent::kRedriven, Id::kRedriven, ""},
    {JobEvent::kRemovedAge, Id::kRemoved, "age"},
    {JobEvent::kRemovedCount, Id::kRemoved, "count"},
    {JobEvent::kRemovedBytes, Id::kRemoved, "bytes"},
    {JobEvent::kRemovedSpace, Id::kRemoved, "space"},
    {JobEvent::kRemovedNotKept, Id::kRemoved, "not_kept"},
    {JobEvent::kRemovedDeleted, Id::kRemoved, "deleted"},
    {JobEvent::kRemovedPurged, Id::kRemoved, "purged"},
    {JobEvent::kRemovedWithQueue, Id::kRemoved, "queue_deleted"},
    {JobEvent::kStaleToken, Id::kStaleTokens, ""},
};

constexpr bool EachEventIsShown() {
  for (size_t i = 0; i < std::size(kEvents); ++i) {
    if (static_cast<size_t>(kEvents[i].event) != i) return false;
  }
  return std::size(kEvents) == engine::kJobEvents;
}
static_assert(EachEventIsShown());

}  // namespace

absl::Span<const Metric> MetricsTable() { return kTable; }

absl::Span<const EventSeries> EventTable() { return kEvents; }

}  // namespace stint::ops
