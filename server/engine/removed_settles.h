// Answers of settles whose jobs are no longer kept, so that a worker that repeats one gets
// the same answer: for 10 min or the newest 1,000,000, whichever is less. In memory, and in
// one row a group, in time buckets that are dropped whole. Used by one thread.
#ifndef STINT_SERVER_ENGINE_REMOVED_SETTLES_H_
#define STINT_SERVER_ENGINE_REMOVED_SETTLES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/limits.h"
#include "storage/keys.h"
#include "storage/record.pb.h"
#include "storage/store.h"
#include "storage/tables.h"

namespace stint::engine {

class RemovedSettles {
 public:
  explicit RemovedSettles(size_t max_settles = kMaxRemovedSettles) : max_settles_(max_settles) {}

  // The answer that `token` got for the job known as `job_id`, if it is still remembered.
  const record::SettleAnswer* Find(uint32_t queue, absl::string_view job_id, int64_t token) const;
  // A job that was settled is being removed in the group at hand. `own_id` is the caller's own
  // id of the job, if it has one.
  void Add(const storage::JobKey& job, absl::string_view own_id, const record::SettleAnswer& answer,
           int64_t now_ms);

  // Writes the row of the group at hand, if it removed anything.
  void FinishGroup(storage::Tables* tables, uint64_t group, int64_t now_ms);
  bool HasUnwritten() const { return unwritten_.entries_size() > 0; }

  // When DropOld has something to do; INT64_MAX: never.
  int64_t NextMs() const;
  void DropOld(storage::Tables* tables, int64_t now_ms);

  // Reads the rows back.
  absl::Status Load(const storage::Store& store, int64_t now_ms);

 private:
  void Keep(const record::RemovedSettles::Entry& entry, int64_t now_ms);
  void Trim(int64_t now_ms);

  struct Kept {
    storage::JobKey job;
    std::string own_id;
    record::SettleAnswer answer;
  };

  size_t max_settles_;
  // By token: each is given to one grant, and a grant is settled once.
  absl::flat_hash_map<int64_t, Kept> answers_;
  std::deque<std::pair<int64_t, int64_t>> order_;  // removal and token, oldest first
  std::deque<uint32_t> buckets_;                   // start in seconds, oldest first
  record::RemovedSettles unwritten_;
};

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_REMOVED_SETTLES_H_
