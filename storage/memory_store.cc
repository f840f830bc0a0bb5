#include "storage/memory_store.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/epoch.h"

namespace stint::storage {

MemoryStore::MemoryStore(MemoryFaults faults) : faults_(std::move(faults)), epoch_(NextEpoch()) {
  space_.free_bytes = std::numeric_limits<uint64_t>::max();
}

absl::StatusOr<std::vector<std::optional<std::string>>> MemoryStore::MultiGet(
    const std::vector<std::string>& keys) const {
  std::vector<std::optional<std::string>> values;
  values.reserve(keys.size());
  const MutexLock lock(mutex_);
  for (const std::string& key : keys) {
    const auto it = rows_.find(key);
    if (it == rows_.end()) {
      values.emplace_back(std::nullopt);
    } else {
      values.emplace_back(it->second);
    }
  }
  return values;
}

absl::StatusOr<std::vector<Row>> MemoryStore::Scan(absl::string_view from, absl::string_view to,
                                                   size_t limit, Direction direction) const {
  std::vector<Row> rows;
  if (from >= to) return rows;
  const MutexLock lock(mutex_);
  auto first = rows_.lower_bound(from);
  auto last = rows_.lower_bound(to);
  while (first != last && rows.size() < limit) {
    if (direction == Direction::kForward) {
      rows.push_back({first->first, first->second});
      ++first;
    } else {
      --last;
      rows.push_back({last->first, last->second});
    }
  }
  return rows;
}

absl::StatusOr<Ticket> MemoryStore::Commit(const Batch& batch, Epoch fence) {
  {
    const MutexLock lock(mutex_);
    if (fence != epoch_) return WrongEpoch(fence, epoch_);
  }
  if (faults_.before_commit) {
    if (absl::Status status = faults_.before_commit(batch); !status.ok()) return status;
  }
  const MutexLock lock(mutex_);
  pending_.push_back({++last_ticket_, batch.ops()});
  return last_ticket_;
}

absl::Status MemoryStore::Sync(Ticket ticket) {
  if (faults_.before_sync) {
    if (absl::Status status = faults_.before_sync(ticket); !status.ok()) return status;
  }
  const MutexLock lock(mutex_);
  if (ticket > last_ticket_) {
    return absl::InternalError(
        absl::StrCat("sync of commit ", ticket, ", but the last one is ", last_ticket_));
  }
  while (!pending_.empty() && pending_.front().ticket <= ticket) {
    Apply(pending_.front().ops, &rows_);
    pending_.pop_front();
  }
  return absl::OkStatus();
}

Epoch MemoryStore::epoch() const {
  const MutexLock lock(mutex_);
  return epoch_;
}

absl::Status MemoryStore::Recover() {
  const MutexLock lock(mutex_);
  size_t kept = faults_.kept_at_recover ? faults_.kept_at_recover(pending_.size()) : 0;
  for (; kept > 0 && !pending_.empty(); --kept) {
    Apply(pending_.front().ops, &rows_);
    pending_.pop_front();
  }
  pending_.clear();
  last_ticket_ = 0;
  epoch_ = NextEpoch();
  return absl::OkStatus();
}

Space MemoryStore::CheckSpace() {
  const MutexLock lock(mutex_);
  return space_;
}

void MemoryStore::set_space(Space space) {
  const MutexLock lock(mutex_);
  space_ = space;
}

size_t MemoryStore::unsynced() const {
  const MutexLock lock(mutex_);
  return pending_.size();
}

std::unique_ptr<MemoryStore> MemoryStore::CrashCopy(size_t unsynced_kept) const {
  auto copy = std::make_unique<MemoryStore>();
  const MutexLock lock(mutex_);
  const MutexLock fresh(copy->mutex_);
  copy->rows_ = rows_;
  const size_t kept = std::min(unsynced_kept, pending_.size());
  for (size_t i = 0; i < kept; ++i) Apply(pending_[i].ops, &copy->rows_);
  return copy;
}

void MemoryStore::Apply(const std::vector<Batch::Op>& ops, Rows* rows) {
  for (const Batch::Op& op : ops) {
    switch (op.kind) {
      case Batch::Kind::kPut:
        rows->insert_or_assign(op.key, op.value);
        break;
      case Batch::Kind::kDelete:
        rows->erase(op.key);
        break;
      case Batch::Kind::kDeleteRange:
        if (op.key < op.value) rows->erase(rows->lower_bound(op.key), rows->lower_bound(op.value));
        break;
    }
  }
}

}  // namespace stint::storage
