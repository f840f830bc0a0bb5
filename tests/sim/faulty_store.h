// A memory store in a bad machine: calls fail, the disk is full, the power goes at any
// instant of a call, and what was not durable then may or may not be found again.
//
// How it is used: the simulator puts it under the loop. Loss of power is the exception
// PowerLoss, thrown out of whatever ran; the simulator goes on with AfterPowerLoss().
// Used by one thread.
#ifndef STINT_TESTS_SIM_FAULTY_STORE_H_
#define STINT_TESTS_SIM_FAULTY_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "storage/memory_store.h"
#include "tests/sim/random.h"

namespace stint::sim {

struct PowerLoss {};

// How often each thing goes wrong, in 1000 calls.
struct StoreFaults {
  int full_at_commit = 0;
  int full_at_sync = 0;
  int error_at_commit = 0;
  int error_at_sync = 0;
  int power_before_commit = 0;
  int power_after_commit = 0;
  int power_before_sync = 0;
  int power_after_sync = 0;
  int power_at_read = 0;
};

class FaultyStore final : public storage::Store {
 public:
  struct Hooks {
    // Recover has found again what there is.
    std::function<void()> recovered;
    // A commit was taken. May throw PowerLoss.
    std::function<void()> committed;
  };
  // `faults` and `random` outlive the store.
  FaultyStore(std::unique_ptr<storage::MemoryStore> inner, const StoreFaults* faults,
              Random* random, Hooks hooks)
      : inner_(std::move(inner)), faults_(faults), random_(random), hooks_(std::move(hooks)) {}

  absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
      const std::vector<std::string>& keys) const override;
  absl::StatusOr<std::vector<storage::Row>> Scan(absl::string_view from, absl::string_view to,
                                                 size_t limit,
                                                 storage::Direction direction) const override;
  absl::StatusOr<storage::Ticket> Commit(const storage::Batch& batch,
                                         storage::Epoch fence) override;
  absl::Status Sync(storage::Ticket ticket) override;
  storage::Epoch epoch() const override { return inner_->epoch(); }
  absl::Status Recover() override;
  storage::Space CheckSpace() override { return inner_->CheckSpace(); }
  absl::string_view kind() const override { return "memory"; }

  void set_low_space(bool low) { inner_->set_space({low ? uint64_t{0} : ~uint64_t{0}, low}); }
  // What is durable, without faults.
  const storage::Store& stable() const { return *inner_; }
  // What a restart finds: all that is durable, and perhaps what was on its way.
  std::unique_ptr<storage::MemoryStore> AfterPowerLoss() const;

 private:
  void MayLosePower(int in_1000) const;

  std::unique_ptr<storage::MemoryStore> inner_;
  const StoreFaults* faults_;
  Random* random_;
  Hooks hooks_;
};

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_FAULTY_STORE_H_
