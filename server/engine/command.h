// Commands: everything that can be asked of the engine, as plain values. A command holds
// validated input (server/api/validate); what only the state can tell is checked on apply.
//
// Who may change state: only a command, applied by one thread (engine.h). Timer commands are
// made by the engine itself when time has passed.
#ifndef STINT_SERVER_ENGINE_COMMAND_H_
#define STINT_SERVER_ENGINE_COMMAND_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/types.h"
#include "storage/keys.h"
#include "storage/record.pb.h"

namespace stint::engine {

// Makes a call safe to repeat. Without a `request_id` it is not.
struct RequestKey {
  // Who calls: the credential's name, "" on an open broker.
  std::string identity;
  std::string request_id;
  // Hash of the method and of the request's content without the request id, equal for equal
  // content (see server/api/convert).
  uint64_t fingerprint = 0;
};

// A job by the names a caller uses.
struct JobRef {
  std::string queue;
  std::string job_id;
};

// A job to add. `record` holds what the caller said; the engine fills in times and sizes.
struct NewJob {
  record::JobRecord record;
  // When it may start; at most one is set. Unset: at once.
  std::optional<int64_t> delay_ms;
  std::optional<int64_t> due_wall_ms;
  // Relative expiry; an absolute one is `record.expiry_wall_ms`.
  std::optional<int64_t> expire_after_ms;
};

struct EnqueueCommand {
  std::string queue;
  std::vector<NewJob> jobs;
  RequestKey request;
};

struct LeaseCommand {
  // Each at most once.
  std::vector<std::string> queues;
  int32_t max_jobs = 1;
  int64_t lease_ms = 0;
  // How long to wait for the first job; 0: not at all.
  int64_t wait_ms = 0;
  std::string worker;
  std::string request_id;
  int64_t max_reply_bytes = 0;
  // The session the leases will belong to; 0: none.
  uint64_t session = 0;
  // It waits behind all calls that are not.
  bool last_in_line = false;
};

struct HeartbeatItem {
  JobRef job;
  int64_t token = 0;
  // nullopt: as it was.
  std::optional<std::string> progress = std::nullopt;
};

struct HeartbeatCommand {
  std::string worker;
  std::vector<HeartbeatItem> items;
  // The session they belong to from now on; 0: none.
  uint64_t session = 0;
};

// A session is over. Touches only leases that still belong to it.
struct EndSessionCommand {
  uint64_t session = 0;
  // Leases of anybody else are left alone.
  std::string worker;
  // Unset: its leases are released, at no cost. Else they lapse this much later at the latest.
  std::optional<int64_t> grace_ms;
};

struct SettleItem {
  JobRef job;
  int64_t token = 0;
  SettleKind kind = SettleKind::kComplete;
  // kComplete.
  std::string result;
  // kFail; shortened by the edge.
  std::string error;
  // kFail: retry after this long; kRelease: not before this long.
  std::optional<int64_t> delay_ms;
  // kFail.
  bool no_retry = false;
  // kRelease.
  ReleaseReason release_reason = ReleaseReason::kNone;
};

struct SettleCommand {
  std::vector<SettleItem> items;
};

struct CancelCommand {
  JobRef job;
  RequestKey request;
};

struct RedriveCommand {
  JobRef job;
  RequestKey request;
};

struct DeleteJobCommand {
  JobRef job;
  bool force = false;
  RequestKey request;
};

// Set fields are changed.
struct UpdateJobCommand {
  JobRef job;
  std::optional<int32_t> priority;
  std::optional<int64_t> delay_ms;
  std::optional<int64_t> due_wall_ms;
  std::optional<int32_t> max_attempts;
  std::optional<int32_t> max_losses;
  RequestKey request;
};

// One step of a change to many jobs of one queue. A read of the stable view beside the thread
// of decisions (server/api/job_batch) proposes the jobs; each is looked at again on apply.
// What the read went by and what is not looked at again never changes: kind, labels, times.
struct BatchCommand {
  enum class Operation : int32_t { kCancel = 1, kRedrive = 2, kDelete = 3 };
  std::string queue;
  Operation operation = Operation::kCancel;
  // kDelete: also jobs that workers hold.
  bool force = false;
  bool dry_run = false;
  RequestKey request;
  // Why the read could not be made: the answer, unless the call is a repeated one.
  absl::Status refusal;
  // The id that `queue` had for the read.
  uint32_t queue_id = 0;
  // The last state change there was at the first step of the run. A job that entered its
  // state later is passed over; every other one is still as the read saw it.
  uint64_t bound = 0;
  std::vector<uint64_t> sequences;
  // Where the next step begins; 0: there is none.
  uint64_t next_sequence = 0;
};

// How far the holder of a lease says it is.
struct ProgressCommand {
  storage::JobKey job;
  int64_t token = 0;
};

// Answered when the job has ended, or as it is after wait_ms.
struct WaitJobCommand {
  JobRef job;
  int64_t wait_ms = 0;
};

struct CreateQueueCommand {
  std::string queue;
  record::QueueSettings settings;
  RequestKey request;
};

struct UpdateQueueCommand {
  std::string queue;
  // The fields of `settings` to take over, by their names in record::QueueSettings; a named
  // field that is unset goes back to its default. "*" means all of them.
  std::vector<std::string> fields;
  record::QueueSettings settings;
  std::optional<bool> draining;
  // 0: whatever it is.
  uint64_t expected_version = 0;
  RequestKey request;
};

struct DeleteQueueCommand {
  std::string queue;
  bool force = false;
  RequestKey request;
};

struct PauseQueueCommand {
  std::string queue;
  bool paused = true;
  RequestKey request;
};

struct PurgeQueueCommand {
  std::string queue;
  bool force = false;
  RequestKey request;
};

struct QueueStatsCommand {
  std::string queue;
};

struct ServerInfoCommand {};

// How many leases each worker holds.
struct WorkerLeasesCommand {};

// What time makes due. The engine hands these out (Engine::DueCommands); each checks again
// on apply that the world is still as it was.
struct LapseCommand {
  storage::JobKey job;
  int64_t token = 0;
};
// The run limit or the cancel grace of a lease has passed.
struct RevokeCommand {
  storage::JobKey job;
  int64_t token = 0;
};
// Due jobs become ready; one step.
struct PromoteCommand {
  bool wall = false;
};
// Jobs not started in time end; one step.
struct ExpireCommand {
  bool wall = false;
};
// Ended jobs that are kept no longer go; one step of at most `rows`.
struct RetentionCommand {
  uint32_t queue = 0;
  storage::EndedClass ended = storage::EndedClass::kFinished;
  size_t rows = 0;
};
// Bodies of purged jobs go; one step.
struct PurgeStepCommand {
  uint32_t queue = 0;
};
// Old request ids and removed settles go.
struct DropBucketsCommand {};
// Empty queues that appeared by use go.
struct ForgetQueueCommand {
  uint32_t queue = 0;
};

using Command =
    std::variant<EnqueueCommand, LeaseCommand, HeartbeatCommand, SettleCommand, EndSessionCommand,
                 CancelCommand, RedriveCommand, DeleteJobCommand, UpdateJobCommand, WaitJobCommand,
                 BatchCommand, ProgressCommand, CreateQueueCommand, UpdateQueueCommand,
                 DeleteQueueCommand, PauseQueueCommand, PurgeQueueCommand, QueueStatsCommand,
                 ServerInfoCommand, WorkerLeasesCommand, LapseCommand, RevokeCommand,
                 PromoteCommand, ExpireCommand, RetentionCommand, PurgeStepCommand,
                 DropBucketsCommand, ForgetQueueCommand>;

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_COMMAND_H_
