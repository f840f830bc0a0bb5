#include "server/runtime/matcher.h"

#include <variant>

namespace stint::runtime {
namespace {

bool MayBeRepeated(const engine::LeaseCommand& lease) {
  return !lease.worker.empty() && !lease.request_id.empty();
}

// A name of a queue takes this much beside its bytes: a text of its own, and a place in a line.
constexpr size_t kPerQueueBytes = 32;

}  // namespace

size_t Matcher::BytesOf(const Call& call) {
  const auto* lease = std::get_if<engine::LeaseCommand>(&call.command);
  return call.bytes + (lease == nullptr ? 0 : kPerQueueBytes * lease->queues.size());
}

void Matcher::Park(ParkedCall parked) {
  const uint64_t id = parked.id;
  by_deadline_.insert({parked.deadline_ms, id});
  if (parked.job.has_value()) {
    by_job_[*parked.job].insert(id);
  } else {
    const auto& lease = std::get<engine::LeaseCommand>(parked.call.command);
    for (const std::string& queue : lease.queues) by_queue_[queue].insert(id);
    if (MayBeRepeated(lease)) by_request_[{lease.worker, lease.request_id}] = id;
  }
  bytes_ += BytesOf(parked.call);
  parked_.insert_or_assign(id, std::move(parked));
}

ParkedCall Matcher::Take(uint64_t id) {
  const auto it = parked_.find(id);
  ParkedCall parked = std::move(it->second);
  parked_.erase(it);
  bytes_ -= BytesOf(parked.call);
  by_deadline_.erase({parked.deadline_ms, id});
  if (parked.job.has_value()) {
    const auto waiters = by_job_.find(*parked.job);
    waiters->second.erase(id);
    if (waiters->second.empty()) by_job_.erase(waiters);
    return parked;
  }
  const auto& lease = std::get<engine::LeaseCommand>(parked.call.command);
  if (MayBeRepeated(lease)) by_request_.erase({lease.worker, lease.request_id});
  for (const std::string& queue : lease.queues) {
    const auto waiters = by_queue_.find(queue);
    if (waiters == by_queue_.end()) continue;  // the queue was named twice
    waiters->second.erase(id);
    if (waiters->second.empty()) by_queue_.erase(waiters);
  }
  return parked;
}

std::optional<ParkedCall> Matcher::TakeFirst(const std::string& queue) {
  const auto waiters = by_queue_.find(queue);
  if (waiters == by_queue_.end()) return std::nullopt;
  return Take(*waiters->second.begin());
}

std::optional<ParkedCall> Matcher::TakeEarlierSending(const engine::LeaseCommand& lease) {
  const auto sending = by_request_.find(std::make_pair(lease.worker, lease.request_id));
  if (sending == by_request_.end()) return std::nullopt;
  return Take(sending->second);
}

std::vector<ParkedCall> Matcher::TakeWaitersOf(const storage::JobKey& job) {
  std::vector<ParkedCall> taken;
  for (auto it = by_job_.find(job); it != by_job_.end(); it = by_job_.find(job)) {
    taken.push_back(Take(*it->second.begin()));
  }
  return taken;
}

std::vector<ParkedCall> Matcher::TakeExpired(int64_t now_ms) {
  std::vector<ParkedCall> taken;
  while (!by_deadline_.empty() && by_deadline_.begin()->first <= now_ms) {
    taken.push_back(Take(by_deadline_.begin()->second));
  }
  return taken;
}

std::vector<ParkedCall> Matcher::TakeAbandoned() {
  std::vector<uint64_t> ids;
  for (const auto& [id, parked] : parked_) {
    if (parked.call.abandoned && parked.call.abandoned()) ids.push_back(id);
  }
  std::vector<ParkedCall> taken;
  for (const uint64_t id : ids) taken.push_back(Take(id));
  return taken;
}

std::vector<ParkedCall> Matcher::TakeAll() {
  std::vector<ParkedCall> taken;
  while (!parked_.empty()) taken.push_back(Take(parked_.begin()->first));
  return taken;
}

int64_t Matcher::NextMs() const {
  return by_deadline_.empty() ? INT64_MAX : by_deadline_.begin()->first;
}

std::vector<std::string> Matcher::Queues() const {
  std::vector<std::string> queues;
  for (const auto& [queue, ids] : by_queue_) queues.push_back(queue);
  return queues;
}

}  // namespace stint::runtime
