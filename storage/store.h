// The contract between Stint and the place where its bytes are kept: an ordered map from
// byte strings to byte strings with atomic, ordered, group-wise durable writes.
//
// How it is used: one thread commits batches; another makes them durable with Sync, in
// order; any thread reads. Reads see exactly the state as of the last commit whose Sync has
// returned, never a later one (the caller keeps its own unsynced writes; see tables.h).
// There are no iterators, snapshots or reads of own writes, so that a store on a remote
// database can stand behind the same contract.
//
// What it does not do: it knows no jobs and no clock, takes no decisions and starts no
// retries.
//
// Failures: kResourceExhausted means "no space" and can be mended with Recover(); kDataLoss
// means a stored record fails its check; every other failure of Commit or Sync is final
// and the process has to stop (design: commit, then speak).
#ifndef STINT_STORAGE_STORE_H_
#define STINT_STORAGE_STORE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stint::storage {

// Number of a commit, from 1, growing by one with each commit of an open store.
using Ticket = uint64_t;

// Names one opening of a store. A commit under another epoch than the store's own is
// refused, so that a store that changed hands cannot be written by its former owner.
using Epoch = uint64_t;

enum class Direction { kForward, kBackward };

struct Row {
  std::string key;
  std::string value;
};

// What recovery after a crash compares: the group's own number and the last group known to
// be durable when it was written. The store keeps it beside the batch in its log.
struct GroupMark {
  uint64_t group = 0;
  uint64_t synced_through = 0;
};

// Writes that become visible and durable together. Later operations win over earlier ones.
class Batch {
 public:
  enum class Kind : uint8_t { kPut, kDelete, kDeleteRange };
  struct Op {
    Kind kind;
    std::string key;    // kDeleteRange: first key of the range
    std::string value;  // kDeleteRange: end of the range, exclusive; kDelete: empty
  };

  void Put(absl::string_view key, absl::string_view value) { Add(Kind::kPut, key, value); }
  void Delete(absl::string_view key) { Add(Kind::kDelete, key, {}); }
  // Removes every key in [from, to).
  void DeleteRange(absl::string_view from, absl::string_view to) {
    Add(Kind::kDeleteRange, from, to);
  }

  void set_mark(GroupMark mark) { mark_ = mark; }
  const GroupMark& mark() const { return mark_; }
  const std::vector<Op>& ops() const { return ops_; }
  bool empty() const { return ops_.empty(); }
  // Bytes of all keys and values.
  size_t bytes() const { return bytes_; }

 private:
  void Add(Kind kind, absl::string_view key, absl::string_view value) {
    bytes_ += key.size() + value.size();
    ops_.push_back({kind, std::string(key), std::string(value)});
  }

  std::vector<Op> ops_;
  GroupMark mark_;
  size_t bytes_ = 0;
};

// Room on the volume, as CheckSpace found it.
struct Space {
  uint64_t free_bytes = 0;
  // True from the disk floor (or a full disk) on until space has returned and the reserve
  // stands again: what adds jobs must be refused.
  bool low = false;
  // True from twice the disk floor on: time to give up what can be spared.
  bool tight = false;
  // True when the space of what was deleted cannot come back because the store's upkeep has
  // stopped at a full disk: only Recover starts it again.
  bool stuck = false;
};

// How the store itself is doing, for operators. A store without such figures leaves them 0.
struct StoreFigures {
  uint64_t live_bytes = 0;      // what the rows take, about
  uint64_t file_bytes = 0;      // tables on disk, with what they still hold of deleted rows
  uint64_t memtable_bytes = 0;  // written, not in tables yet
  uint64_t block_cache_bytes = 0;
  uint64_t pending_compaction_bytes = 0;
  uint64_t running_compactions = 0;
  uint64_t running_flushes = 0;
  uint64_t write_stopped = 0;  // 1: writes wait for the upkeep
  uint64_t background_errors = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  // Values at `keys`, in the same order; nullopt where there is none.
  virtual absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
      const std::vector<std::string>& keys) const = 0;

  // Up to `limit` rows with from <= key < to, owned by the caller: the lowest first when
  // going forward, the highest first when going backward. `limit` 0 gives none.
  virtual absl::StatusOr<std::vector<Row>> Scan(absl::string_view from, absl::string_view to,
                                                size_t limit, Direction direction) const = 0;

  // Takes the batch, all or nothing, after every earlier one. Not durable and not visible
  // until Sync. kFailedPrecondition: `fence` is not this store's epoch. Called by one thread.
  virtual absl::StatusOr<Ticket> Commit(const Batch& batch, Epoch fence) = 0;

  // Blocks until all commits up to `ticket` survive a loss of power, then makes the state
  // after `ticket` the one that reads see. Called by one thread, in order of tickets.
  virtual absl::Status Sync(Ticket ticket) = 0;

  // The epoch of this opening, for Commit.
  virtual Epoch epoch() const = 0;

  // After Commit or Sync returned kResourceExhausted: closes and opens again under the same
  // ownership with a new epoch. What was synced is there; what was not may be. No other call
  // may be under way.
  virtual absl::Status Recover() = 0;

  // Looks at the volume; gives up the reserve at the disk floor and builds it again when
  // space has returned. Called about once a second by the thread that commits.
  virtual Space CheckSpace() = 0;

  // Any thread. Costs little and waits for nothing.
  virtual StoreFigures Figures() const { return {}; }

  // The name of the kind of store, such as "rocksdb".
  virtual absl::string_view kind() const = 0;

 protected:
  Store() = default;
  Store(const Store&) = default;
  Store& operator=(const Store&) = default;
};

}  // namespace stint::storage

#endif  // STINT_STORAGE_STORE_H_
