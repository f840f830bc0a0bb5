// A store that lets reads past the loop go on safely while the store is opened again: store.h
// wants no other call during Recover, and only the loop knows when it calls that.
//
// Everything is passed on to the store inside. Thread rule: as store.h, and reads from any
// thread wait while Recover runs; Figures are empty then.
#ifndef STINT_SERVER_GUARDED_STORE_H_
#define STINT_SERVER_GUARDED_STORE_H_

#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "storage/store.h"

namespace stint {

class GuardedStore final : public storage::Store {
 public:
  explicit GuardedStore(std::unique_ptr<storage::Store> store) : store_(std::move(store)) {}

  absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
      const std::vector<std::string>& keys) const override {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    return store_->MultiGet(keys);
  }
  absl::StatusOr<std::vector<storage::Row>> Scan(absl::string_view from, absl::string_view to,
                                                 size_t limit,
                                                 storage::Direction direction) const override {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    return store_->Scan(from, to, limit, direction);
  }
  absl::Status Recover() override {
    const std::unique_lock<std::shared_mutex> lock(mutex_);
    return store_->Recover();
  }

  absl::StatusOr<storage::Ticket> Commit(const storage::Batch& batch,
                                         storage::Epoch fence) override {
    return store_->Commit(batch, fence);
  }
  absl::Status Sync(storage::Ticket ticket) override { return store_->Sync(ticket); }
  storage::Epoch epoch() const override { return store_->epoch(); }
  storage::Space CheckSpace() override { return store_->CheckSpace(); }
  storage::StoreFigures Figures() const override {
    const std::shared_lock<std::shared_mutex> lock(mutex_, std::try_to_lock);
    return lock.owns_lock() ? store_->Figures() : storage::StoreFigures();
  }
  absl::string_view kind() const override { return store_->kind(); }

 private:
  const std::unique_ptr<storage::Store> store_;
  mutable std::shared_mutex mutex_;
};

}  // namespace stint

#endif  // STINT_SERVER_GUARDED_STORE_H_
