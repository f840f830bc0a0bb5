#include "server/engine/lease_table.h"

#include <algorithm>
#include <utility>

#include "server/engine/limits.h"

namespace stint::engine {
namespace {

// From this many entries on those that are of no use are cleared away.
constexpr size_t kWatchedPerLease = 4;
constexpr size_t kWatchedFree = 1024;

}  // namespace

int64_t Lease::NextMs() const {
  int64_t next = deadline_ms;
  if (state.run_limit_at_ms() != 0) next = std::min(next, state.run_limit_at_ms());
  if (state.cancel_requested()) next = std::min(next, state.cancel_at_ms());
  return next;
}

void LeaseTable::Put(const storage::JobKey& job, Lease lease) {
  Remove(job);
  if (lease.request_hash != 0) by_request_[lease.request_hash].push_back(job);
  if (lease.session != 0) by_session_[lease.session].insert(job);
  ++by_worker_[lease.state.worker()];
  const int64_t next = lease.NextMs();
  leases_.insert_or_assign(job, std::move(lease));
  Push({next, job});
}

Lease* LeaseTable::Find(const storage::JobKey& job) {
  const auto it = leases_.find(job);
  return it == leases_.end() ? nullptr : &it->second;
}

const Lease* LeaseTable::Find(const storage::JobKey& job) const {
  const auto it = leases_.find(job);
  return it == leases_.end() ? nullptr : &it->second;
}

void LeaseTable::Remove(const storage::JobKey& job) {
  const auto it = leases_.find(job);
  if (it == leases_.end()) return;
  Forget(job, it->second);
  leases_.erase(it);
}

void LeaseTable::SetProgress(Lease* lease, absl::string_view progress) {
  if (lease->progress.has_value()) progress_bytes_ -= lease->progress->size();
  lease->progress.reset();
  if (progress.empty() || progress_bytes_ + progress.size() > kMaxKeptProgressBytes) return;
  lease->progress = std::string(progress);
  progress_bytes_ += progress.size();
}

void LeaseTable::Forget(const storage::JobKey& job, const Lease& lease) {
  if (lease.progress.has_value()) progress_bytes_ -= lease.progress->size();
  ForgetSession(job, lease.session);
  ForgetWorker(lease.state.worker());
  const auto granted = by_request_.find(lease.request_hash);
  if (granted == by_request_.end()) return;
  granted->second.erase(std::remove(granted->second.begin(), granted->second.end(), job),
                        granted->second.end());
  if (granted->second.empty()) by_request_.erase(granted);
}

std::vector<storage::JobKey> LeaseTable::GrantedBy(uint64_t request_hash) const {
  const auto granted = by_request_.find(request_hash);
  return granted == by_request_.end() ? std::vector<storage::JobKey>() : granted->second;
}

void LeaseTable::ForgetSession(const storage::JobKey& job, uint64_t session) {
  const auto of_session = by_session_.find(session);
  if (of_session == by_session_.end()) return;
  of_session->second.erase(job);
  if (of_session->second.empty()) by_session_.erase(of_session);
}

void LeaseTable::ForgetWorker(const std::string& worker) {
  const auto held = by_worker_.find(worker);
  if (held != by_worker_.end() && --held->second == 0) by_worker_.erase(held);
}

std::vector<storage::JobKey> LeaseTable::OfSession(uint64_t session) const {
  const auto of_session = by_session_.find(session);
  if (of_session == by_session_.end()) return {};
  std::vector<storage::JobKey> jobs(of_session->second.begin(), of_session->second.end());
  std::sort(jobs.begin(), jobs.end());  // the same for every run
  return jobs;
}

void LeaseTable::SetSession(const storage::JobKey& job, uint64_t session) {
  Lease* lease = Find(job);
  if (lease->session == session) return;
  ForgetSession(job, lease->session);
  lease->session = session;
  if (session != 0) by_session_[session].insert(job);
}

void LeaseTable::RemoveQueue(uint32_t queue) {
  absl::erase_if(leases_, [this, queue](const auto& lease) {
    if (lease.first.queue != queue) return false;
    Forget(lease.first, lease.second);
    return true;
  });
}

void LeaseTable::Clear() {
  leases_.clear();
  by_request_.clear();
  progress_bytes_ = 0;
  by_session_.clear();
  by_worker_.clear();
  due_ = {};
}

void LeaseTable::Watch(const storage::JobKey& job, int64_t ms) { Push({ms, job}); }

void LeaseTable::Push(const Entry& entry) {
  due_.push(entry);
  if (due_.size() <= kWatchedPerLease * leases_.size() + kWatchedFree) return;
  std::vector<Entry> live;
  live.reserve(leases_.size() + 1);
  for (const auto& [job, lease] : leases_) live.push_back({lease.NextMs(), job});
  live.push_back(entry);  // may be earlier than the lease's own time
  due_ = decltype(due_)(std::greater<>(), std::move(live));
}

std::vector<storage::JobKey> LeaseTable::TakeDue(int64_t now_ms, size_t limit) {
  std::vector<storage::JobKey> due;
  while (!due_.empty() && due_.top().ms <= now_ms && due.size() < limit) {
    const storage::JobKey job = due_.top().job;
    due_.pop();
    const Lease* lease = Find(job);
    if (lease == nullptr) continue;
    const int64_t next = lease->NextMs();
    if (next > now_ms) {
      due_.push({next, job});
    } else if (std::find(due.begin(), due.end(), job) == due.end()) {
      due.push_back(job);
    }
  }
  return due;
}

int64_t LeaseTable::NextMs() const { return due_.empty() ? INT64_MAX : due_.top().ms; }

void LeaseTable::ForEach(const std::function<void(const storage::JobKey&, Lease&)>& visit) {
  for (auto& [job, lease] : leases_) visit(job, lease);
}

}  // namespace stint::engine
