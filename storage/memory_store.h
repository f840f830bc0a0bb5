// A store that keeps everything in memory and nothing on disk, with the semantics of store.h to
// the letter: a commit is invisible until its Sync, and a crash loses what was not synced.
//
// How it is used: tests, the simulator and `stintd --memory`. MemoryFaults makes calls fail;
// CrashCopy gives the store that a restart would find after losing power now.
//
// What it does not do: outlive the process, limit its size, read a volume (CheckSpace answers
// what set_space was given).
//
// Threads: as store.h says. set_space may be called from any thread, CrashCopy from any thread
// while no Recover is under way.
#ifndef STINT_STORAGE_MEMORY_STORE_H_
#define STINT_STORAGE_MEMORY_STORE_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "storage/store.h"
#include "sync/mutex.h"

namespace stint::storage {

// What goes wrong, and when. An unset function means that nothing does.
struct MemoryFaults {
  // Asked before a commit; a failure is returned and nothing is taken.
  std::function<absl::Status(const Batch&)> before_commit;
  // Asked before a sync; a failure is returned and nothing becomes durable.
  std::function<absl::Status(Ticket)> before_sync;
  // How many of the unsynced commits, oldest first, a Recover finds again; none when unset.
  std::function<size_t(size_t unsynced)> kept_at_recover;
};

class MemoryStore : public Store {
 public:
  explicit MemoryStore(MemoryFaults faults = {});

  absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
      const std::vector<std::string>& keys) const override;
  absl::StatusOr<std::vector<Row>> Scan(absl::string_view from, absl::string_view to, size_t limit,
                                        Direction direction) const override;
  absl::StatusOr<Ticket> Commit(const Batch& batch, Epoch fence) override;
  absl::Status Sync(Ticket ticket) override;
  Epoch epoch() const override;
  absl::Status Recover() override;
  Space CheckSpace() override;
  absl::string_view kind() const override { return "memory"; }

  // What CheckSpace answers from now on.
  void set_space(Space space);

  // Commits that no Sync has covered.
  size_t unsynced() const;

  // A new store without faults as a restart would find it: the synced state and, of the unsynced
  // commits, the oldest `unsynced_kept` (all of them when there are fewer).
  std::unique_ptr<MemoryStore> CrashCopy(size_t unsynced_kept) const;

 private:
  struct Pending {
    Ticket ticket;
    std::vector<Batch::Op> ops;
  };
  using Rows = absl::btree_map<std::string, std::string>;

  static void Apply(const std::vector<Batch::Op>& ops, Rows* rows);

  const MemoryFaults faults_;
  mutable Mutex mutex_;
  // The state after the last synced commit, and the commits after it, oldest first.
  Rows rows_ ABSL_GUARDED_BY(mutex_);
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  Ticket last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
  Epoch epoch_ ABSL_GUARDED_BY(mutex_);
  Space space_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stint::storage

#endif  // STINT_STORAGE_MEMORY_STORE_H_
