// Figures for operators against the model: every gauge equals a recount, no counter falls except
// at a restart, and what was enqueued is still there or was counted as removed. A queue
// that loses its label takes its counts with it, so the last holds only where all have one. Used
// by one thread.
#ifndef STINT_TESTS_MODEL_METRICS_CHECK_H_
#define STINT_TESTS_MODEL_METRICS_CHECK_H_

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>

#include "server/engine/effects.h"
#include "server/runtime/loop_metrics.h"
#include "tests/model/naive_broker.h"

namespace stint::model {

class MetricsCheck {
 public:
  explicit MetricsCheck(bool all_have_labels) : all_have_labels_(all_have_labels) {}

  // The broker has started again: counters begin at 0, with these jobs there already.
  void Restarted(const runtime::LoopFigures& figures) {
    before_.clear();
    present_at_start_ = Present(figures);
  }

  template <typename Queues>
  void Compare(const runtime::LoopFigures& figures, const Queues& queues) {
    std::map<std::string, engine::Depths> expected;
    for (const auto& figure : figures.queues) expected[figure.name] = {};
    for (const auto& [name, queue] : queues) {
      engine::Depths& depths = expected[expected.contains(name) ? name : ""];
      for (size_t i = 0; i < depths.size(); ++i) {
        depths[i] += queue.Count(static_cast<engine::JobState>(i + 1));
      }
    }
    int64_t enqueued = 0;
    int64_t removed = 0;
    for (const auto& figure : figures.queues) {
      EXPECT_EQ(figure.depths, expected[figure.name]) << "queue " << figure.name;
      for (const int64_t jobs : figure.depths) EXPECT_GE(jobs, 0) << "queue " << figure.name;
      const auto& events = figure.counts.events;
      if (const auto before = before_.find(figure.name); before != before_.end()) {
        for (size_t i = 0; i < events.size(); ++i) {
          EXPECT_GE(events[i], before->second[i]) << "queue " << figure.name << ", event " << i;
        }
      }
      before_[figure.name] = events;
      enqueued += events[static_cast<size_t>(engine::JobEvent::kEnqueued)];
      for (auto i = static_cast<size_t>(engine::JobEvent::kRemovedAge);
           i <= static_cast<size_t>(engine::JobEvent::kRemovedWithQueue); ++i) {
        removed += events[i];
      }
    }
    if (all_have_labels_) {
      EXPECT_EQ(present_at_start_ + enqueued, Present(figures) + removed);
    }
    EXPECT_EQ(figures.queue_count, static_cast<int64_t>(queues.size()));
  }

 private:
  static int64_t Present(const runtime::LoopFigures& figures) {
    int64_t jobs = 0;
    for (const auto& queue : figures.queues) {
      jobs += std::accumulate(queue.depths.begin(), queue.depths.end(), int64_t{0});
    }
    return jobs;
  }

  std::map<std::string, std::array<int64_t, engine::kJobEvents>> before_;
  int64_t present_at_start_ = 0;
  const bool all_have_labels_;
};

}  // namespace stint::model

#endif  // STINT_TESTS_MODEL_METRICS_CHECK_H_
