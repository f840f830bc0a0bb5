// All live leases, in memory: the state of each leased job as its row has it, and the
// deadline and the progress, which are nowhere else. Renewals touch only this table.
#ifndef STINT_SERVER_ENGINE_LEASE_TABLE_H_
#define STINT_SERVER_ENGINE_LEASE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "storage/keys.h"
#include "storage/record.pb.h"

namespace stint::engine {

struct Lease {
  record::JobState state;
  // Broker time at which it lapses.
  int64_t deadline_ms = 0;
  // Hash of (worker, request id) of the call that got it; 0: none.
  uint64_t request_hash = 0;
  // The session that last renewed it; 0: none, as after a unary call or a restart.
  uint64_t session = 0;
  // The session was lost: the deadline is the end of the grace, until somebody renews it.
  bool stream_lost = false;
  // What its worker said last of how far it is; set by LeaseTable::SetProgress.
  std::optional<std::string> progress = std::nullopt;

  // The next time anything happens to it by itself.
  int64_t NextMs() const;
};

class LeaseTable {
 public:
  void Put(const storage::JobKey& job, Lease lease);
  Lease* Find(const storage::JobKey& job);
  const Lease* Find(const storage::JobKey& job) const;
  void Remove(const storage::JobKey& job);
  // Keeps what a worker says of how far it is, empty: nothing. What would go beyond
  // kMaxKeptProgressBytes for all leases together is not kept.
  void SetProgress(Lease* lease, absl::string_view progress);
  size_t progress_bytes() const { return progress_bytes_; }
  // Jobs whose live leases were granted by the call with this hash.
  std::vector<storage::JobKey> GrantedBy(uint64_t request_hash) const;
  // Jobs whose leases belong to a session.
  std::vector<storage::JobKey> OfSession(uint64_t session) const;
  // Gives a lease that is there to a session, or with 0 to none.
  void SetSession(const storage::JobKey& job, uint64_t session);
  // Removes all leases of a queue.
  void RemoveQueue(uint32_t queue);
  void Clear();
  size_t size() const { return leases_.size(); }
  // How many each worker holds; none that holds none.
  const absl::flat_hash_map<std::string, int64_t>& by_worker() const { return by_worker_; }

  // Looks at the lease again at `ms`, or earlier if it is due earlier.
  void Watch(const storage::JobKey& job, int64_t ms);
  // Up to `limit` leases for which NextMs() <= now. Each is given out once: whoever leaves it
  // in the table must Watch it again.
  std::vector<storage::JobKey> TakeDue(int64_t now_ms, size_t limit);
  // When TakeDue may next give something; INT64_MAX: never. May be early, never late.
  int64_t NextMs() const;
  // Entries kept for TakeDue: bounded by the number of leases, however many came and went.
  size_t watched() const { return due_.size(); }

  void ForEach(const std::function<void(const storage::JobKey&, Lease&)>& visit);

 private:
  struct Entry {
    int64_t ms;
    storage::JobKey job;
    bool operator>(const Entry& other) const { return ms > other.ms; }
  };
  // The part of Remove that concerns what is kept beside the lease.
  void Forget(const storage::JobKey& job, const Lease& lease);
  void ForgetSession(const storage::JobKey& job, uint64_t session);
  void ForgetWorker(const std::string& worker);
  void Push(const Entry& entry);

  absl::flat_hash_map<storage::JobKey, Lease> leases_;
  absl::flat_hash_map<uint64_t, std::vector<storage::JobKey>> by_request_;
  size_t progress_bytes_ = 0;
  absl::flat_hash_map<uint64_t, absl::flat_hash_set<storage::JobKey>> by_session_;
  absl::flat_hash_map<std::string, int64_t> by_worker_;
  // At least one entry for each lease, not later than its NextMs(). Entries of leases that are
  // gone or were renewed go when they come up, or when there are far more of them than leases.
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> due_;
};

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_LEASE_TABLE_H_
