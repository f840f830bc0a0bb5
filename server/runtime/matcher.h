// Calls that wait: LeaseJobs for a ready job, WaitJob for a job's end. First come, first
// served per queue. In memory only; a restart ends them with the connection. Used by one
// thread.
#ifndef STINT_SERVER_RUNTIME_MATCHER_H_
#define STINT_SERVER_RUNTIME_MATCHER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "server/runtime/gateway.h"
#include "storage/keys.h"

namespace stint::runtime {

// A parked call, out of the matcher's hands.
struct ParkedCall {
  // Its place in the line; parked again under the same number it keeps it.
  uint64_t id = 0;
  Call call;
  // Broker time at which it is answered in any case.
  int64_t deadline_ms = 0;
  // WaitJob: the job.
  std::optional<storage::JobKey> job;
};

class Matcher {
 public:
  // The number for a call that waits for the first time. `last`: behind all others.
  uint64_t NextId(bool last = false) { return next_id_++ | (last ? uint64_t{1} << 63 : 0); }
  void Park(ParkedCall parked);

  // The call that has waited longest for a job of `queue`.
  std::optional<ParkedCall> TakeFirst(const std::string& queue);
  // The call that waits with the worker and the request id of `lease`: an earlier sending of it.
  std::optional<ParkedCall> TakeEarlierSending(const engine::LeaseCommand& lease);
  // All calls that wait for the end of `job`.
  std::vector<ParkedCall> TakeWaitersOf(const storage::JobKey& job);
  // All calls whose deadline has come, oldest first.
  std::vector<ParkedCall> TakeExpired(int64_t now_ms);
  // All calls whose callers are gone.
  std::vector<ParkedCall> TakeAbandoned();
  std::vector<ParkedCall> TakeAll();

  // The next deadline; INT64_MAX: none.
  int64_t NextMs() const;
  bool HasWaiters(const std::string& queue) const { return by_queue_.contains(queue); }
  // Queues somebody waits for.
  std::vector<std::string> Queues() const;
  size_t size() const { return parked_.size(); }
  // Of the calls' requests.
  size_t bytes() const { return bytes_; }
  // What a call adds to them: its bytes, and more for each queue that it names.
  static size_t BytesOf(const Call& call);

 private:
  ParkedCall Take(uint64_t id);

  uint64_t next_id_ = 1;
  size_t bytes_ = 0;
  absl::btree_map<uint64_t, ParkedCall> parked_;
  absl::btree_map<std::string, absl::btree_set<uint64_t>> by_queue_;
  absl::flat_hash_map<storage::JobKey, absl::btree_set<uint64_t>> by_job_;
  // LeaseJobs that can be repeated, by worker and request id.
  absl::flat_hash_map<std::pair<std::string, std::string>, uint64_t> by_request_;
  absl::btree_set<std::pair<int64_t, uint64_t>> by_deadline_;
};

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_MATCHER_H_
