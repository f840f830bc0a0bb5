#include "server/engine/removed_settles.h"

#include <string>
#include <vector>

#include "storage/job_id.h"

namespace stint::engine {
namespace {

constexpr int64_t kBucketMs = kRemovedSettleWindowMs / 2;

}  // namespace

const record::SettleAnswer* RemovedSettles::Find(uint32_t queue, absl::string_view job_id,
                                                 int64_t token) const {
  const auto it = answers_.find(token);
  if (it == answers_.end() || it->second.job.queue != queue) return nullptr;
  const Kept& kept = it->second;
  const std::string id = kept.own_id.empty() ? storage::MakeJobId(kept.job.sequence) : kept.own_id;
  return id == job_id ? &kept.answer : nullptr;
}

void RemovedSettles::Add(const storage::JobKey& job, absl::string_view own_id,
                         const record::SettleAnswer& answer, int64_t now_ms) {
  auto* entry = unwritten_.add_entries();
  entry->set_queue(job.queue);
  entry->set_sequence(job.sequence);
  entry->set_job_id(std::string(own_id));
  *entry->mutable_answer() = answer;
  Keep(*entry, now_ms);
  Trim(now_ms);
}

void RemovedSettles::Keep(const record::RemovedSettles::Entry& entry, int64_t now_ms) {
  answers_[entry.answer().token()] = {
      {entry.queue(), entry.sequence()}, entry.job_id(), entry.answer()};
  order_.emplace_back(now_ms, entry.answer().token());
}

void RemovedSettles::Trim(int64_t now_ms) {
  while (!order_.empty() && (order_.size() > max_settles_ ||
                             order_.front().first + kRemovedSettleWindowMs <= now_ms)) {
    answers_.erase(order_.front().second);
    order_.pop_front();
  }
}

void RemovedSettles::FinishGroup(storage::Tables* tables, uint64_t group, int64_t now_ms) {
  if (!HasUnwritten()) return;
  if (buckets_.empty() || now_ms >= int64_t{buckets_.back()} * kSecondMs + kBucketMs) {
    buckets_.push_back(static_cast<uint32_t>(now_ms / kSecondMs));
  }
  unwritten_.set_written_ms(now_ms);
  tables->PutRemovedSettles(buckets_.back(), group, unwritten_);
  unwritten_.Clear();
}

int64_t RemovedSettles::NextMs() const {
  if (buckets_.empty()) return INT64_MAX;
  return int64_t{buckets_.front()} * kSecondMs + kSecondMs + kBucketMs + kRemovedSettleWindowMs;
}

void RemovedSettles::DropOld(storage::Tables* tables, int64_t now_ms) {
  Trim(now_ms);
  while (NextMs() <= now_ms) {
    tables->DropBucket(storage::Family::kRemovedSettles, buckets_.front());
    buckets_.pop_front();
  }
}

absl::Status RemovedSettles::Load(const storage::Store& store, int64_t now_ms) {
  constexpr size_t kPage = 256;
  answers_.clear();
  order_.clear();
  buckets_.clear();
  unwritten_.Clear();
  std::string next = storage::FamilyBegin(storage::Family::kRemovedSettles);
  const std::string end = storage::FamilyEnd(storage::Family::kRemovedSettles);
  while (true) {
    auto rows = store.Scan(next, end, kPage, storage::Direction::kForward);
    if (!rows.ok()) return rows.status();
    for (const storage::Row& row : *rows) {
      const auto bucket = storage::ParseBucket(storage::Family::kRemovedSettles, row.key);
      record::RemovedSettles removed;
      if (!bucket.has_value() || !removed.ParseFromString(row.value)) {
        return absl::DataLossError("CORRUPT_RECORD: a row of removed settles cannot be read");
      }
      if (buckets_.empty() || buckets_.back() != *bucket) buckets_.push_back(*bucket);
      for (const auto& entry : removed.entries()) Keep(entry, removed.written_ms());
    }
    if (rows->size() < kPage) break;
    next = rows->back().key + '\0';
  }
  Trim(now_ms);
  return absl::OkStatus();
}

}  // namespace stint::engine
