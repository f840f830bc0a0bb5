// The engine decides. It applies commands, one after the other, to rows and to the memory
// that is derived from them, and says what the answers are.
//
// How it is used (runtime/loop): Load once; then for each group of commands BeginPass and
// Apply until every command is done, fetching rows between passes; then FinishGroup, after
// which the rows are committed. Answers are released when that commit is durable.
//
// A handler reads everything it needs before its first write; if a row it needs has not been
// fetched it changes nothing and answers kNeedsRows. A refusal changes nothing either.
//
// What it does not do: no threads, no I/O, no clock, no randomness; time and jitter are
// arguments. After a failed commit its memory is worthless: Load it again.
// Used by one thread.
#ifndef STINT_SERVER_ENGINE_ENGINE_H_
#define STINT_SERVER_ENGINE_ENGINE_H_

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/command.h"
#include "server/engine/effects.h"
#include "server/engine/lease_table.h"
#include "server/engine/limits.h"
#include "server/engine/outcome.h"
#include "server/engine/ready_window.h"
#include "server/engine/removed_settles.h"
#include "server/engine/request_memory.h"
#include "server/engine/types.h"
#include "storage/store.h"
#include "storage/tables.h"

namespace stint::engine {

struct EngineOptions {
  int64_t request_window_ms = kDefaultRequestWindowMs;
  // After a restart or a long stall each lease has at least this long to be renewed.
  int64_t restart_grace_ms = kDefaultRestartGraceMs;
};

enum class Verdict {
  kDone,       // `outcome` is the answer
  kNeedsRows,  // nothing was changed; fetch and apply again
  kAgain,      // something was changed; apply again in the next group
  kParked      // nothing to answer yet: wait for an effect (TakeWoken, TakeEnded)
};

struct Result {
  Verdict verdict = Verdict::kDone;
  Outcome outcome;
  // kParked by WaitJobCommand: the job that is waited for.
  storage::JobKey parked_job;

  static Result Done(ReplyBody body) { return {Verdict::kDone, {{}, std::move(body)}, {}}; }
  static Result Refused(absl::Status status) {
    return {Verdict::kDone, {std::move(status), {}}, {}};
  }
  static Result NeedsRows() { return {Verdict::kNeedsRows, {}, {}}; }
  static Result Again() { return {Verdict::kAgain, {}, {}}; }
  static Result Parked(storage::JobKey job = {}) { return {Verdict::kParked, {}, job}; }
};

// What FinishGroup writes about the group itself.
struct GroupStamp {
  storage::GroupMark mark;
  Now now;
  int64_t boot_ms = 0;
  std::string boot_id;
};

// A job that somebody waits for has ended, or is gone.
struct EndedJob {
  storage::JobKey key;
  // nullopt: removed before it ended.
  std::optional<JobReply> reply;
};

class Engine {
 public:
  Engine(const EngineOptions& options, storage::RowView* rows);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Builds memory from a store. Each lease gets max(its duration, restart grace)
  // from `now`.
  absl::Status Load(const storage::Store& store, const Now& now);
  // The last group in the store that was loaded; empty in a fresh one.
  const record::GroupRecord& loaded_group() const { return loaded_group_; }

  // Before each walk over the commands that are still to be applied.
  void BeginPass();
  Result Apply(const Command& command, const Now& now);

  // Time. Up to `limit` commands that have become due; lapses only if `may_lapse`. Every one
  // of them has to be applied.
  std::vector<Command> DueCommands(const Now& now, size_t limit, bool may_lapse);
  // Broker time at which DueCommands may next give something; INT64_MAX: never.
  int64_t NextDueMs(const Now& now) const;
  // Anything that waits for time or for a worker: leases, delayed jobs.
  bool HasPending() const {
    return leases_.size() > 0 || due_[0].next_ms != INT64_MAX || due_[1].next_ms != INT64_MAX;
  }

  // The broker itself stood still for `gap_ms`: every lease gets it back, and at least
  // max(its duration, restart grace) after a long one.
  void ForgiveStall(int64_t gap_ms, const Now& now);

  // Whether the group at hand has anything to commit.
  bool HasChanges() const {
    return tables_.HasWrites() || !changed_queues_.empty() || removed_.HasUnwritten();
  }
  // Writes what the group changed in counters and the like. Nothing to do for a group
  // without writes.
  void FinishGroup(const GroupStamp& stamp);

  // What was done since the last call, for counting; after a Load, what is there.
  GroupEffects TakeEffects() { return std::exchange(effects_, {}); }

  // Queues in which jobs became ready since the last call.
  std::vector<std::string> TakeWoken();
  // How many jobs of a queue a worker could take now; 0 if it is paused or unknown.
  int64_t ReadyIn(absl::string_view queue) const;
  // The same without those that calls of this pass look at and have not taken yet.
  int64_t UnclaimedIn(absl::string_view queue) const;
  // Somebody waits for the end of a job, or no more.
  void Watch(const storage::JobKey& job) { ++watched_[job]; }
  void Unwatch(const storage::JobKey& job);
  // Watched jobs that ended since the last call.
  std::vector<EndedJob> TakeEnded();

  // What sessions have to be told since the last call.
  std::vector<SessionVerdict> TakeVerdicts();

  // No more grants.
  void set_draining(bool draining) { draining_ = draining; }
  // Gives up a part of the oldest completed and cancelled history of every queue, to make
  // room; takes effect with the next DueCommands.
  void GiveUpHistory(const Now& now);
  // Refuses what adds jobs.
  void set_low_space(bool low) { low_space_ = low; }
  bool low_space() const { return low_space_; }

  size_t queue_count() const { return queues_.size(); }
  size_t lease_count() const { return leases_.size(); }

  // Compares memory with every row of the store, which must be at rest (nothing unsynced).
  // The first difference, or OK. For tests and the simulator; reads the whole store.
  absl::Status CheckInvariants(const storage::Store& store) const;

 private:
  struct QueueState {
    uint32_t id = 0;
    record::QueueRecord record;
    record::QueueCounters counters;
    std::array<ReadyWindow, kMaxPriority + 1> windows;
    // Entries that waiting commands of this pass have looked at and not yet taken.
    size_t claims = 0;
    // When retention looks at the two histories again; INT64_MAX: not at all.
    std::array<int64_t, 2> retention_ms = {INT64_MAX, INT64_MAX};
    // Nothing older is left in the two histories: where retention starts to look.
    std::array<int64_t, 2> oldest_ended_ms = {0, 0};
    // Ended jobs to give up although retention would keep them.
    int64_t give_up = 0;
    int64_t forget_ms = INT64_MAX;
    bool record_changed = false;
    bool counters_changed = false;
    // Its name went out with the effects of a group.
    bool told = false;
  };
  struct JobRow {
    storage::JobKey key;
    record::JobRecord record;
    record::JobState state;
  };
  // A ready job that a grant would take.
  struct Candidate {
    uint8_t priority = 0;
    ReadyWindow::Place place;
  };
  struct Timer {
    enum class Kind { kRetention, kForget };
    int64_t ms;
    Kind kind;
    uint32_t queue;
    storage::EndedClass ended;
    friend auto operator<=>(const Timer&, const Timer&) = default;
  };
  // Head of a time index: nothing in it is due before this.
  struct TimeIndex {
    int64_t next_ms = INT64_MAX;
    void Lower(int64_t ms) { next_ms = std::min(next_ms, ms); }
  };
  // The same with its rows, as far as they can be read.
  struct Found {
    QueueState* queue;
    Candidate at;
    JobRow row;
    bool readable;
  };
  // What a handler knows after its reads.
  struct Reads {
    bool unknown = false;
    bool corrupt = false;
    storage::Read Add(storage::Read read) {
      unknown |= read == storage::Read::kUnknown;
      corrupt |= read == storage::Read::kCorrupt;
      return read;
    }
  };

  // Handlers, one a command. enqueue.cc dispatch.cc settle.cc heartbeat.cc job_admin.cc
  // job_batch.cc queue_admin.cc session.cc due.cc
  Result Handle(const EnqueueCommand& command, const Now& now);
  Result Handle(const LeaseCommand& command, const Now& now);
  Result Handle(const HeartbeatCommand& command, const Now& now);
  Result Handle(const SettleCommand& command, const Now& now);
  Result Handle(const EndSessionCommand& command, const Now& now);
  Result Handle(const CancelCommand& command, const Now& now);
  Result Handle(const RedriveCommand& command, const Now& now);
  Result Handle(const DeleteJobCommand& command, const Now& now);
  Result Handle(const UpdateJobCommand& command, const Now& now);
  Result Handle(const WaitJobCommand& command, const Now& now);
  Result Handle(const BatchCommand& command, const Now& now);
  Result Handle(const ProgressCommand& command, const Now& now);
  Result Handle(const CreateQueueCommand& command, const Now& now);
  Result Handle(const UpdateQueueCommand& command, const Now& now);
  Result Handle(const DeleteQueueCommand& command, const Now& now);
  Result Handle(const PauseQueueCommand& command, const Now& now);
  Result Handle(const PurgeQueueCommand& command, const Now& now);
  Result Handle(const QueueStatsCommand& command, const Now& now);
  Result Handle(const ServerInfoCommand& command, const Now& now);
  Result Handle(const WorkerLeasesCommand& command, const Now& now);
  Result Handle(const LapseCommand& command, const Now& now);
  Result Handle(const RevokeCommand& command, const Now& now);
  Result Handle(const PromoteCommand& command, const Now& now);
  Result Handle(const ExpireCommand& command, const Now& now);
  Result Handle(const RetentionCommand& command, const Now& now);
  Result Handle(const PurgeStepCommand& command, const Now& now);
  Result Handle(const DropBucketsCommand& command, const Now& now);
  Result Handle(const ForgetQueueCommand& command, const Now& now);

  // Reads (engine.cc). A job that is purged reads as absent.
  QueueState* FindQueue(absl::string_view name);
  const QueueState* FindQueue(absl::string_view name) const;
  QueueState* FindQueue(uint32_t id);
  storage::Read ReadJob(const QueueState& queue, const storage::JobKey& key, JobRow* row);
  storage::Read ResolveJob(const JobRef& ref, QueueState** queue, storage::JobKey* key);
  storage::Read FindJob(const JobRef& ref, QueueState** queue, JobRow* row);
  // Own ids of a batch: free, or held by jobs that a purge has removed, which are added to
  // `purged`. nullopt: nothing stands against them.
  std::optional<Result> CheckOwnIds(const EnqueueCommand& command, QueueState* queue,
                                    std::vector<JobRow>* purged);
  // QUEUE_FULL if the queue's settings do not allow so many more.
  absl::Status CheckRoom(const QueueState& queue, int64_t jobs, int64_t bytes) const;
  // The answer to a call that was made before, a refusal, or a need; nullopt: a new call.
  std::optional<Result> Repeated(const RequestKey& request);

  // Changes (transition.cc). Each keeps rows, counters, windows, leases and effects together.
  QueueState* AddQueue(absl::string_view name, bool ephemeral, const Now& now);
  void RemoveQueue(QueueState* queue);
  void Insert(QueueState* queue, JobRow row, std::string payload);
  // Moves a job to `after`, whose `entered` and update time it sets.
  void Move(QueueState* queue, JobRow* row, record::JobState after, const Now& now);
  // Ends a job: keeps it in its history, or removes it at once if none is kept.
  void End(QueueState* queue, JobRow* row, record::JobState after, EndReason reason,
           absl::string_view result, const Now& now);
  // Removes a job; its last settle stays repeatable, and whoever waits for it is told.
  void Remove(QueueState* queue, const JobRow& row, const Now& now);
  // The part of Remove that concerns rows and counts.
  void Erase(QueueState* queue, const JobRow& row, const Now& now);
  void RecordChanged(QueueState* queue);
  void Count(QueueState* queue, const record::JobState& state, int64_t bytes, int sign);
  void NoteTimes(const JobRow& row);
  // No job in any state, ended ones included.
  static bool IsEmpty(const record::QueueCounters& counters);
  void NoteEmpty(QueueState* queue, const Now& now);
  void ScheduleRetention(QueueState* queue, storage::EndedClass ended, int64_t ms);
  uint64_t NextSequence() { return next_sequence_++; }
  void Note(const QueueState& queue, JobEvent event, int64_t jobs = 1) {
    effects_.counts.push_back({queue.id, event, jobs});
  }
  void NoteTime(const QueueState& queue, JobTime time, int64_t ms) {
    effects_.times.push_back({queue.id, time, ms});
  }
  void NoteDepths(QueueState* queue);

  // Pieces of the job's life shared by handlers (transition.cc).
  static void ClearOwner(record::JobState* state);
  static void AddAttempt(const record::JobState& before, AttemptOutcome outcome,
                         absl::string_view error, const Now& now, record::JobState* after);
  // A lapsed job whose old holder speaks up: as if the lease had not lapsed.
  static record::JobState TakeBackLapse(const record::JobState& state);
  // Charges a failure: retry or DEAD. Returns the wait; −1: it ended with `*reason`.
  int64_t ChargeFailure(const QueueState& queue, const JobRow& row,
                        std::optional<int64_t> retry_after_ms, const Now& now,
                        record::JobState* after, EndReason* reason);
  JobSnapshot Snapshot(const QueueState& queue, const JobRow& row) const;

  // job_admin.cc, for jobs whose state allows it.
  // Ends the job, or has its worker told, once.
  void Cancel(QueueState* queue, JobRow* row, const Now& now);
  void Redrive(QueueState* queue, JobRow* row, const Now& now);
  void Delete(QueueState* queue, const JobRow& row, const Now& now);
  // job_batch.cc
  void Change(BatchCommand::Operation operation, QueueState* queue, JobRow* row, const Now& now);

  // settle.cc
  SettleResult SettleOne(const SettleItem& item, const Now& now);
  SettleResult Accept(QueueState* queue, JobRow* row, const SettleItem& item, const Now& now);
  // The answer that a job gave before it was removed.
  std::optional<SettleResult> RepeatRemoved(const QueueState* queue, const SettleItem& item) const;
  void NoteSettle(const QueueState& queue, const record::JobState& before, const Now& now);
  SettleResult RefuseSettle(const QueueState& queue, const JobRow& row, const SettleItem& item);

  // session.cc
  // Tells the session that a leased job belongs to, if any.
  void Tell(const QueueState& queue, const JobRow& row, LeaseStatus status);

  // dispatch.cc
  // Up to `wanted` ready jobs in the order of grants, after the first `skip`. False: rows
  // have to be fetched first.
  bool PeekReady(QueueState* queue, size_t skip, size_t wanted, const Now& now,
                 std::vector<Candidate>* candidates);
  bool ExtendWindow(QueueState* queue, uint8_t priority);
  // Reads on until the first ready job of each priority is in memory. False: rows have to be
  // fetched first.
  bool KnowHeads(QueueState* queue);
  // The jobs that a call would take now, not more than fit into its answer; asks for the rows
  // of all of them at once. `*claimed`: calls before it claim jobs they have not taken yet.
  std::vector<Found> LookForJobs(const LeaseCommand& command, const Now& now, Reads* reads,
                                 bool* claimed);
  GrantedLease Grant(QueueState* queue, JobRow* row, const LeaseCommand& command,
                     uint64_t request_hash, const Now& now);
  std::optional<Result> RepeatLease(const LeaseCommand& command, uint64_t hash, const Now& now);

  // invariants.cc
  absl::Status CheckMemoryOf(const storage::JobKey& job, const record::JobRecord& record,
                             const record::JobState& state, size_t* covered_ready) const;

  // load.cc
  absl::Status LoadQueues(const storage::Store& store, const Now& now);
  absl::Status LoadLeases(const storage::Store& store, const Now& now);
  absl::Status LoadTimes(const storage::Store& store);

  EngineOptions options_;
  storage::Tables tables_;
  record::GroupRecord loaded_group_;

  // Derived from rows; see Load.
  absl::flat_hash_map<std::string, std::unique_ptr<QueueState>> queues_;
  absl::btree_map<uint32_t, QueueState*> queue_ids_;
  LeaseTable leases_;
  std::array<TimeIndex, 2> due_;     // broker time, wall time
  std::array<TimeIndex, 2> expiry_;  // broker time, wall time
  // At most three a queue: those that its QueueState names.
  absl::btree_set<Timer> timers_;
  absl::btree_set<uint32_t> purging_;
  RequestMemory requests_;
  RemovedSettles removed_;
  uint64_t next_sequence_ = 1;
  uint32_t next_queue_ = 1;
  int64_t last_token_ = 0;

  // Of the group at hand.
  absl::btree_set<uint32_t> changed_queues_;
  std::vector<QueueState*> claimed_;
  absl::btree_set<std::string> woken_;
  std::vector<EndedJob> ended_;
  GroupEffects effects_;
  std::vector<SessionVerdict> verdicts_;

  absl::btree_map<storage::JobKey, int> watched_;
  bool draining_ = false;
  bool low_space_ = false;
};

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_ENGINE_H_
