#include "server/runtime/workers.h"

#include "server/engine/limits.h"

namespace stint::runtime {
namespace {

size_t BytesOf(const std::vector<std::string>& queues) {
  size_t bytes = 0;
  for (const std::string& queue : queues) bytes += sizeof(queue) + queue.size();
  return bytes;
}

}  // namespace

void Workers::AskedForJobs(const std::string& worker, const std::vector<std::string>& queues) {
  const MutexLock lock(mutex_);
  const int64_t now_ms = clock_->BootMs();
  auto it = known_.find(worker);
  if (it == known_.end()) {
    // They come faster than they are forgotten: the list has a limit, the calls have not.
    if (now_ms < full_until_ms_) return;
    if (known_.size() >= engine::kMaxKnownWorkers) ForgetOld();
    if (known_.size() >= engine::kMaxKnownWorkers) {
      full_until_ms_ = now_ms + engine::kSecondMs;
      return;
    }
    it = known_.emplace(worker, KnownWorker{worker, {}, clock_->WallMs(), now_ms}).first;
  }
  it->second.last_heard_ms = now_ms;
  if (it->second.queues != queues) SetQueues(&it->second, queues);
}

void Workers::SetQueues(KnownWorker* known, const std::vector<std::string>& queues) {
  queue_bytes_ -= BytesOf(known->queues);
  known->queues.clear();
  const size_t bytes = BytesOf(queues);
  if (queue_bytes_ + bytes > engine::kMaxKnownQueueBytes) return;
  known->queues = queues;
  queue_bytes_ += bytes;
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
  absl::erase_if(known_, [&](const auto& known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool old = now_ms - known.second.last_heard_ms > engine::kWorkerKnownMs;
    if (old) queue_bytes_ -= BytesOf(known.second.queues);
    return old;
  });
  absl::erase_if(drained_, [now_ms](const auto& drained) {
    return now_ms - drained.second > engine::kDrainedWorkerMs;
  });
}

}  // namespace stint::runtime
