// What the loop counts: of each group when it is durable, and of itself. Read whole, by a copy
// that is the state after one published group.
//
// A few queues have a label of their own, all others share one. The rule:
//
// * What is counted goes at once, and for good, to the label its queue has at that moment. So
//   no label's counts ever fall, and each increase is seen in exactly one of them.
// * The labels go to the queues with the most unfinished jobs at start, then to queues in the
//   order in which they appear. Once a minute, a queue without label that was at least twice as
//   busy in that minute as the least busy one with a label takes its place; and a queue that is
//   empty or deleted and had no traffic for a day gives its label back.
// * A queue that lost its label has no series any more. Its last counts are kept for a while
//   (the newest 4 for each label), so that they go on where they were when it gets one again.
//
// What it does not do: names and help of metrics (ops/metrics.h). Thread-safe: one short lock a
// group and one a scrape. It can be read while the loop stands still, which is when it is
// needed most.
#ifndef STINT_SERVER_RUNTIME_LOOP_METRICS_H_
#define STINT_SERVER_RUNTIME_LOOP_METRICS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/engine/effects.h"
#include "server/runtime/histogram.h"
#include "storage/store.h"
#include "sync/mutex.h"

namespace stint::runtime {

inline constexpr size_t kDefaultLabelledQueues = 64;

// Counted under one label.
struct QueueCounts {
  std::array<int64_t, engine::kJobEvents> events = {};
  std::array<Histogram, engine::kJobTimesPerQueue> times = {
      Histogram(kJobTimeBoundsMs), Histogram(kJobTimeBoundsMs), Histogram(kJobTimeBoundsMs)};
};

struct LoopFigures {
  struct Queue {
    // Empty: all queues without a label of their own.
    std::string name;
    engine::Depths depths = {};
    QueueCounts counts;
  };
  std::vector<Queue> queues;
  int64_t queue_count = 0;
  // By engine::LeaseStatus.
  std::array<int64_t, 5> heartbeats = {};
  Histogram promotion_lag_ms{kJobTimeBoundsMs};
  Histogram group_operations{kGroupOperationBounds};
  Histogram group_bytes{kGroupByteBounds};
  Histogram commit_us{kCallBoundsUs};
  int64_t stalls = 0;
  int64_t stalled_ms = 0;
  storage::Space space;
};

// Of a group that was written.
struct GroupFigures {
  size_t operations = 0;
  size_t bytes = 0;
  // From the end of the write to the end of the sync.
  int64_t commit_us = 0;
};

class LoopMetrics {
 public:
  // At most so many queues have a label of their own.
  explicit LoopMetrics(size_t labelled_queues) : max_labels_(labelled_queues) {}

  // What is there after the engine has loaded.
  void Load(const engine::GroupEffects& loaded);
  // A group that is durable. `figures` is null for one that wrote nothing.
  void CountGroup(const engine::GroupEffects& effects, const GroupFigures* figures);
  void CountStall(int64_t gap_ms);
  // Once a second; `boot_ms` for the choice of labels.
  void Tick(int64_t boot_ms, const storage::Space& space);

  LoopFigures Copy() const;

 private:
  struct Label {
    std::string name;
    // 0: there is no such queue now.
    uint32_t queue = 0;
    QueueCounts counts;
    int64_t traffic = 0;  // since the last choice
    int64_t busy_boot_ms = 0;
  };
  struct Known {
    std::string name;
    engine::Depths depths = {};
    // Of labels_; −1: none.
    int label = -1;
  };

  // Where a queue is counted; valid until the next call of PlaceOf.
  struct Place {
    QueueCounts* counts;
    int64_t* traffic;
  };

  void Learn(const engine::GroupEffects::Queue& queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetDepths(Known* known, const engine::Depths& depths) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void GiveLabel(uint32_t id, Known* known) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeLabel(size_t label) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Place PlaceOf(uint32_t queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ChooseLabels(int64_t boot_ms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t max_labels_;
  mutable Mutex mutex_;
  // Of each entry of labels_ the name may be empty: it is free.
  std::vector<Label> labels_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::pair<std::string, QueueCounts>> former_ ABSL_GUARDED_BY(mutex_);
  QueueCounts others_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint32_t, Known> queues_ ABSL_GUARDED_BY(mutex_);
  // Traffic of queues without a label since the last choice; bounded.
  absl::flat_hash_map<uint32_t, int64_t> other_traffic_ ABSL_GUARDED_BY(mutex_);
  engine::Depths all_depths_ ABSL_GUARDED_BY(mutex_) = {};
  LoopFigures figures_ ABSL_GUARDED_BY(mutex_);  // `queues` stays empty
  int64_t unwatched_traffic_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t boot_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t next_choice_boot_ms_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_LOOP_METRICS_H_
