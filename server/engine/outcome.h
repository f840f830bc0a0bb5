// Answers: what a command came to, as plain values. Released only when everything the answer
// speaks of is durable (runtime/loop).
#ifndef STINT_SERVER_ENGINE_OUTCOME_H_
#define STINT_SERVER_ENGINE_OUTCOME_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/engine/types.h"
#include "storage/record.pb.h"

namespace stint::engine {

// A job with everything the API shows of it. In a lease `record.payload` is filled in also when
// the payload has a row of its own; a JobReply may do without it.
struct JobSnapshot {
  std::string queue;
  std::string job_id;
  record::JobRecord record;
  record::JobState state;
  std::string result;
};

struct EnqueuedJob {
  std::string job_id;
  JobState state = JobState::kReady;
};
struct EnqueueReply {
  std::string queue;
  std::vector<EnqueuedJob> jobs;
};

struct GrantedLease {
  JobSnapshot job;
  int64_t token = 0;
  int64_t lease_ms = 0;
  // What is left of the run limit; 0: none.
  int64_t run_limit_ms = 0;
  // In force for this job.
  int32_t max_attempts = 0;
};
struct LeaseReply {
  std::vector<GrantedLease> leases;
};

struct HeartbeatReply {
  // One for each item, in order.
  std::vector<LeaseStatus> statuses;
  bool draining = false;
  int64_t next_interval_ms = 0;
};

struct SettleResult {
  // Refusals of one item do not touch the others.
  absl::Status status;
  SettleKind kind = SettleKind::kComplete;
  JobState state = JobState::kCompleted;
  EndReason end_reason = EndReason::kNone;
  int64_t retry_delay_ms = 0;
  int32_t next_attempt = 0;
};
struct SettleReply {
  std::vector<SettleResult> results;
};

// Of cancel and redrive.
struct StateReply {
  JobState state = JobState::kReady;
};

// Of update and wait.
struct JobReply {
  JobSnapshot job;
  // Of the job's queue, to show the budgets in force.
  record::QueueSettings settings;
  // Of wait, while the job is leased: what its worker said of how far it is.
  std::optional<std::string> progress = std::nullopt;
};

// See BatchCommand.
struct BatchReply {
  int64_t changed = 0;
  // Passed over: entered their state after the run began, or gone.
  int64_t moved = 0;
  // Passed over: their workers are being told already.
  int64_t cancelling = 0;
  uint32_t queue_id = 0;
  uint64_t bound = 0;
  // 0: the run has come to its end.
  uint64_t next_sequence = 0;
};

struct ProgressReply {
  // nullopt: nothing was said, or the lease is no more.
  std::optional<std::string> progress;
};

struct QueueReply {
  record::QueueRecord queue;
};

struct PurgeReply {
  int64_t purged = 0;
};

struct QueueStatsReply {
  record::QueueCounters counters;
  // −1: nothing is ready.
  int64_t oldest_ready_age_ms = -1;
};

struct ServerInfoReply {
  int64_t broker_ms = 0;
  int64_t wall_ms = 0;
  bool draining = false;
  bool low_space = false;
  int64_t request_window_ms = 0;
  int64_t queues = 0;
  int64_t leases = 0;
  int64_t parked_calls = 0;
  uint64_t synced_group = 0;
};

struct WorkerLeasesReply {
  absl::flat_hash_map<std::string, int64_t> leases;
};

struct EmptyReply {};

// What a session is told of a lease without having asked.
struct SessionVerdict {
  uint64_t session = 0;
  std::string queue;
  std::string job_id;
  int64_t token = 0;
  LeaseStatus status = LeaseStatus::kRenewed;
};

using ReplyBody = std::variant<EmptyReply, EnqueueReply, LeaseReply, HeartbeatReply, SettleReply,
                               StateReply, JobReply, QueueReply, PurgeReply, QueueStatsReply,
                               ServerInfoReply, WorkerLeasesReply, BatchReply, ProgressReply>;

struct Outcome {
  absl::Status status;
  ReplyBody body;
};

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_OUTCOME_H_
