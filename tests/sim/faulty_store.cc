#include "tests/sim/faulty_store.h"

#include <utility>

namespace stint::sim {

void FaultyStore::MayLosePower(int in_1000) const {
  if (in_1000 > 0 && random_->Chance(in_1000)) throw PowerLoss{};
}

absl::StatusOr<std::vector<std::optional<std::string>>> FaultyStore::MultiGet(
    const std::vector<std::string>& keys) const {
  MayLosePower(faults_->power_at_read);
  return inner_->MultiGet(keys);
}

absl::StatusOr<std::vector<storage::Row>> FaultyStore::Scan(absl::string_view from,
                                                            absl::string_view to, size_t limit,
                                                            storage::Direction direction) const {
  MayLosePower(faults_->power_at_read);
  return inner_->Scan(from, to, limit, direction);
}

absl::StatusOr<storage::Ticket> FaultyStore::Commit(const storage::Batch& batch,
                                                    storage::Epoch fence) {
  MayLosePower(faults_->power_before_commit);
  if (random_->Chance(faults_->full_at_commit)) {
    return absl::ResourceExhaustedError("no space left at commit");
  }
  if (random_->Chance(faults_->error_at_commit)) {
    // Some of what failed may be on the disk all the same.
    if (random_->Chance(500)) inner_->Commit(batch, fence).IgnoreError();
    return absl::InternalError("commit failed");
  }
  auto ticket = inner_->Commit(batch, fence);
  hooks_.committed();
  MayLosePower(faults_->power_after_commit);
  return ticket;
}

absl::Status FaultyStore::Sync(storage::Ticket ticket) {
  MayLosePower(faults_->power_before_sync);
  if (random_->Chance(faults_->full_at_sync)) {
    return absl::ResourceExhaustedError("no space left at sync");
  }
  if (random_->Chance(faults_->error_at_sync)) return absl::InternalError("sync failed");
  absl::Status synced = inner_->Sync(ticket);
  MayLosePower(faults_->power_after_sync);
  return synced;
}

absl::Status FaultyStore::Recover() {
  const storage::Space space = inner_->CheckSpace();
  inner_ = AfterPowerLoss();
  inner_->set_space(space);
  hooks_.recovered();
  return absl::OkStatus();
}

std::unique_ptr<storage::MemoryStore> FaultyStore::AfterPowerLoss() const {
  const auto unsynced = static_cast<int64_t>(inner_->unsynced());
  return inner_->CrashCopy(static_cast<size_t>(random_->Between(0, unsynced)));
}

}  // namespace stint::sim
