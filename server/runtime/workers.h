// Workers that use single calls, as far as calls tell of them, and workers that were asked to
// leave. Workers with streams are known by their sessions (sessions.h).
//
// What it does not do: leases. In memory only: a restart forgets both.
//
// Thread rule: any thread.
#ifndef STINT_SERVER_RUNTIME_WORKERS_H_
#define STINT_SERVER_RUNTIME_WORKERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/runtime/clock.h"
#include "server/runtime/sessions.h"
#include "sync/mutex.h"

namespace stint::runtime {

struct KnownWorker {
  std::string worker;
  // Of its last LeaseJobs, the first kMaxShownQueues; never null.
  std::shared_ptr<const std::vector<std::string>> queues;
  int64_t start_wall_ms = 0;
  // Boot time.
  int64_t last_heard_ms = 0;
};

struct WorkerCount {
  // With a session at least.
  size_t by_stream = 0;
  // By single calls only.
  size_t by_calls = 0;
};

class Workers {
 public:
  explicit Workers(const Clock* clock) : clock_(clock) {}

  // It asked for jobs, or renewed a lease. At most kMaxShownQueues of `queues` are kept.
  void AskedForJobs(const std::string& worker, const std::vector<std::string>& queues);
  void Heard(const std::string& worker);
  // Those heard of within kWorkerKnownMs.
  std::vector<KnownWorker> List();
  WorkerCount Count(const Sessions& sessions);

  // It shall leave; remembered for kDrainedWorkerMs.
  void Drain(const std::string& worker);
  bool IsDrained(const std::string& worker);

 private:
  void ForgetOld() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock* const clock_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, KnownWorker> known_ ABSL_GUARDED_BY(mutex_);
  // Boot time up to which all places are taken; forgetting is a walk over all.
  int64_t full_until_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  // Boot time of the asking.
  absl::flat_hash_map<std::string, int64_t> drained_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_WORKERS_H_
