#include "server/runtime/loop_metrics.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/engine/limits.h"

namespace stint::runtime {

using engine::Depths;
using engine::GroupEffects;
using engine::JobState;
using engine::JobTime;

namespace {

constexpr int64_t kChoiceMs = engine::kMinuteMs;
constexpr int64_t kIdleMs = engine::kDayMs;
// A queue takes the label of another only if it is so many times as busy.
constexpr int64_t kBusier = 2;
constexpr size_t kMaxWatched = 4096;
constexpr size_t kFormerPerLabel = 4;

int64_t Unfinished(const Depths& depths) {
  int64_t jobs = 0;
  for (const JobState state :
       {JobState::kDelayed, JobState::kHeld, JobState::kReady, JobState::kLeased}) {
    jobs += depths[static_cast<size_t>(state) - 1];
  }
  return jobs;
}

bool IsEmpty(const Depths& depths) {
  return std::all_of(depths.begin(), depths.end(), [](int64_t jobs) { return jobs == 0; });
}

}  // namespace

void LoopMetrics::Load(const GroupEffects& loaded) {
  const MutexLock lock(mutex_);
  // Labels and their counts stay: the broker goes on, also after a full disk.
  queues_.clear();
  other_traffic_.clear();
  all_depths_ = {};
  for (Label& label : labels_) label.queue = 0;
  std::vector<const GroupEffects::Queue*> queues;
  for (const GroupEffects::Queue& queue : loaded.queues) queues.push_back(&queue);
  std::stable_sort(queues.begin(), queues.end(), [](const auto* a, const auto* b) {
    return Unfinished(a->depths) > Unfinished(b->depths);
  });
  for (const GroupEffects::Queue* queue : queues) {
    Learn(*queue);
    SetDepths(&queues_[queue->queue], queue->depths);
  }
}

void LoopMetrics::CountGroup(const GroupEffects& effects, const GroupFigures* figures) {
  const MutexLock lock(mutex_);
  for (const GroupEffects::Queue& queue : effects.queues) Learn(queue);
  Place place{};
  uint32_t last = 0;  // no queue has this id
  for (const GroupEffects::Count& count : effects.counts) {
    if (count.queue != last) place = PlaceOf(count.queue);
    last = count.queue;
    place.counts->events[static_cast<size_t>(count.event)] += count.jobs;
    *place.traffic += count.jobs;
  }
  for (const GroupEffects::Time& time : effects.times) {
    if (time.time == JobTime::kPromotionLag) {
      figures_.promotion_lag_ms.Add(time.ms);
      continue;
    }
    if (time.queue != last) place = PlaceOf(time.queue);
    last = time.queue;
    place.counts->times[static_cast<size_t>(time.time)].Add(time.ms);
  }
  for (const GroupEffects::Queue& queue : effects.queues) {
    const auto known = queues_.find(queue.queue);
    if (known == queues_.end()) continue;
    SetDepths(&known->second, queue.depths);
    if (!queue.removed) continue;
    if (known->second.label >= 0) labels_[static_cast<size_t>(known->second.label)].queue = 0;
    queues_.erase(known);
  }
  for (size_t i = 0; i < effects.heartbeats.size(); ++i) {
    figures_.heartbeats[i] += effects.heartbeats[i];
  }
  if (figures == nullptr) return;
  figures_.group_operations.Add(static_cast<int64_t>(figures->operations));
  figures_.group_bytes.Add(static_cast<int64_t>(figures->bytes));
  figures_.commit_us.Add(figures->commit_us);
}

void LoopMetrics::CountStall(int64_t gap_ms) {
  const MutexLock lock(mutex_);
  ++figures_.stalls;
  figures_.stalled_ms += gap_ms;
}

void LoopMetrics::Tick(int64_t boot_ms, const storage::Space& space) {
  const MutexLock lock(mutex_);
  boot_ms_ = boot_ms;
  figures_.space = space;
  if (boot_ms < next_choice_boot_ms_) return;
  next_choice_boot_ms_ = boot_ms + kChoiceMs;
  ChooseLabels(boot_ms);
}

void LoopMetrics::Learn(const GroupEffects::Queue& queue) {
  if (queue.name.empty()) return;
  Known* known = &queues_[queue.queue];
  known->name = queue.name;
  GiveLabel(queue.queue, known);
}

void LoopMetrics::SetDepths(Known* known, const Depths& depths) {
  for (size_t i = 0; i < depths.size(); ++i) all_depths_[i] += depths[i] - known->depths[i];
  known->depths = depths;
}

// A label that is free, or was its own when it was deleted; none if there is neither.
void LoopMetrics::GiveLabel(uint32_t id, Known* known) {
  auto at = std::find_if(labels_.begin(), labels_.end(),
                         [known](const Label& label) { return label.name == known->name; });
  if (at == labels_.end()) {
    at = std::find_if(labels_.begin(), labels_.end(),
                      [](const Label& label) { return label.name.empty(); });
    if (at == labels_.end()) {
      if (labels_.size() >= max_labels_) return;
      at = labels_.emplace(labels_.end());
    }
    at->name = known->name;
    const auto former = std::find_if(former_.begin(), former_.end(), [known](const auto& entry) {
      return entry.first == known->name;
    });
    if (former != former_.end()) {
      at->counts = former->second;
      former_.erase(former);
    }
  }
  at->queue = id;
  at->busy_boot_ms = boot_ms_;
  known->label = static_cast<int>(at - labels_.begin());
  other_traffic_.erase(id);
}

void LoopMetrics::TakeLabel(size_t label) {
  Label& taken = labels_[label];
  if (const auto known = queues_.find(taken.queue); known != queues_.end()) {
    known->second.label = -1;
  }
  former_.emplace_back(std::move(taken.name), taken.counts);
  if (former_.size() > kFormerPerLabel * max_labels_) former_.pop_front();
  taken = {};
}

LoopMetrics::Place LoopMetrics::PlaceOf(uint32_t queue) {
  const auto known = queues_.find(queue);
  if (known == queues_.end()) return {&others_, &unwatched_traffic_};
  if (known->second.label >= 0) {
    Label& label = labels_[static_cast<size_t>(known->second.label)];
    label.busy_boot_ms = boot_ms_;
    return {&label.counts, &label.traffic};
  }
  if (other_traffic_.size() >= kMaxWatched && !other_traffic_.contains(queue)) {
    return {&others_, &unwatched_traffic_};
  }
  return {&others_, &other_traffic_[queue]};
}

void LoopMetrics::ChooseLabels(int64_t boot_ms) {
  for (size_t i = 0; i < labels_.size(); ++i) {
    const Label& label = labels_[i];
    if (label.name.empty() || boot_ms - label.busy_boot_ms < kIdleMs) continue;
    const auto known = queues_.find(label.queue);
    if (known == queues_.end() || IsEmpty(known->second.depths)) TakeLabel(i);
  }
  std::vector<std::pair<int64_t, uint32_t>> busy;
  for (const auto& [queue, traffic] : other_traffic_) {
    if (queues_.contains(queue)) busy.emplace_back(traffic, queue);
  }
  std::sort(busy.rbegin(), busy.rend());
  std::vector<size_t> quiet(labels_.size());
  std::iota(quiet.begin(), quiet.end(), 0);
  std::stable_sort(quiet.begin(), quiet.end(),
                   [this](size_t a, size_t b) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                     return labels_[a].traffic < labels_[b].traffic;
                   });
  for (size_t i = 0; i < std::min(busy.size(), quiet.size()); ++i) {
    if (busy[i].first < std::max<int64_t>(kBusier * labels_[quiet[i]].traffic, 1)) break;
    if (!labels_[quiet[i]].name.empty()) TakeLabel(quiet[i]);
    GiveLabel(busy[i].second, &queues_[busy[i].second]);
  }
  other_traffic_.clear();
  for (Label& label : labels_) label.traffic = 0;
}

LoopFigures LoopMetrics::Copy() const {
  const MutexLock lock(mutex_);
  LoopFigures figures = figures_;
  figures.queue_count = static_cast<int64_t>(queues_.size());
  LoopFigures::Queue others{"", all_depths_, others_};
  for (const Label& label : labels_) {
    if (label.name.empty()) continue;
    LoopFigures::Queue queue{label.name, {}, label.counts};
    if (const auto known = queues_.find(label.queue); known != queues_.end()) {
      queue.depths = known->second.depths;
    }
    for (size_t i = 0; i < queue.depths.size(); ++i) others.depths[i] -= queue.depths[i];
    figures.queues.push_back(std::move(queue));
  }
  figures.queues.push_back(std::move(others));
  return figures;
}

}  // namespace stint::runtime
