#include "server/runtime/workers.h"

#include <algorithm>
#include <cstddef>

#include "absl/container/flat_hash_set.h"
#include "server/engine/limits.h"

namespace stint::runtime {

void Workers::AskedForJobs(const std::string& worker, const std::vector<std::string>& queues) {
  const auto kept =
      queues.begin() + static_cast<ptrdiff_t>(std::min(queues.size(), engine::kMaxShownQueues));
  const MutexLock lock(mutex_);
  const int64_t now_ms = clock_->BootMs();
  const auto it = known_.find(worker);
  if (it == known_.end()) {
    // They come faster than they are forgotten: the list has a limit, the calls have not.
    if (now_ms < full_until_ms_) return;
    if (known_.size() >= engine::kMaxKnownWorkers) ForgetOld();
    if (known_.size() >= engine::kMaxKnownWorkers) {
      full_until_ms_ = now_ms + engine::kSecondMs;
      return;
    }
    known_.emplace(
        worker,
        KnownWorker{worker, std::make_shared<const std::vector<std::string>>(queues.begin(), kept),
                    clock_->WallMs(), now_ms});
    return;
  }
  it->second.last_heard_ms = now_ms;
  if (!std::equal(it->second.queues->begin(), it->second.queues->end(), queues.begin(), kept)) {
    it->second.queues = std::make_shared<const std::vector<std::string>>(queues.begin(), kept);
  }
}

void Workers::Heard(const std::string& worker) {
  const MutexLock lock(mutex_);
  const auto it = known_.find(worker);
  if (it != known_.end()) it->second.last_heard_ms = clock_->BootMs();
}

std::vector<KnownWorker> Workers::List() {
  std::vector<KnownWorker> list;
  const MutexLock lock(mutex_);
  ForgetOld();
  list.reserve(known_.size());
  for (const auto& [name, worker] : known_) list.push_back(worker);
  return list;
}

WorkerCount Workers::Count(const Sessions& sessions) {
  absl::flat_hash_set<std::string> by_stream;
  for (const Sessions::Listed& session : sessions.List()) by_stream.insert(session.info->worker);
  WorkerCount count;
  count.by_stream = by_stream.size();
  const MutexLock lock(mutex_);
  ForgetOld();
  for (const auto& [name, worker] : known_) {
    if (!by_stream.contains(name)) ++count.by_calls;
  }
  return count;
}

void Workers::Drain(const std::string& worker) {
  const MutexLock lock(mutex_);
  ForgetOld();
  if (drained_.size() < engine::kMaxKnownWorkers) drained_[worker] = clock_->BootMs();
}

bool Workers::IsDrained(const std::string& worker) {
  const MutexLock lock(mutex_);
  const auto it = drained_.find(worker);
  return it != drained_.end() && clock_->BootMs() - it->second <= engine::kDrainedWorkerMs;
}

void Workers::ForgetOld() {
  const int64_t now_ms = clock_->BootMs();
  absl::erase_if(known_, [now_ms](const auto& known) {
    return now_ms - known.second.last_heard_ms > engine::kWorkerKnownMs;
  });
  absl::erase_if(drained_, [now_ms](const auto& drained) {
    return now_ms - drained.second > engine::kDrainedWorkerMs;
  });
}

}  // namespace stint::runtime
