#include "server/engine/policy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <set>

#include "server/engine/limits.h"

namespace stint::engine {
namespace {

record::QueueSettings Retry(int64_t initial_ms, double multiplier, int64_t max_ms, double jitter) {
  record::QueueSettings settings;
  settings.mutable_retry()->set_initial_delay_ms(initial_ms);
  settings.mutable_retry()->set_multiplier(multiplier);
  settings.mutable_retry()->set_max_delay_ms(max_ms);
  settings.mutable_retry()->set_jitter(jitter);
  return settings;
}

TEST(PolicyTest, TheJobsOwnWordThenTheQueuesThenTheDefault) {
  record::JobRecord job;
  record::JobState state;
  record::QueueSettings queue;
  EXPECT_EQ(MaxAttempts(job, state, queue), 20);
  EXPECT_EQ(MaxLosses(job, state, queue), 3);
  EXPECT_EQ(RunLimitMs(job, queue), 0);
  EXPECT_EQ(CancelGraceMs(queue), 10'000);
  queue.set_max_attempts(5);
  queue.set_max_losses(6);
  queue.set_run_limit_ms(7'000);
  queue.set_cancel_grace_ms(0);
  EXPECT_EQ(MaxAttempts(job, state, queue), 5);
  EXPECT_EQ(MaxLosses(job, state, queue), 6);
  EXPECT_EQ(RunLimitMs(job, queue), 7'000);
  EXPECT_EQ(CancelGraceMs(queue), 0);
  job.set_max_attempts(8);
  job.set_max_losses(9);
  job.set_run_limit_ms(10'000);
  EXPECT_EQ(MaxAttempts(job, state, queue), 8);
  EXPECT_EQ(MaxLosses(job, state, queue), 9);
  EXPECT_EQ(RunLimitMs(job, queue), 10'000);
  state.set_max_attempts(11);
  state.set_max_losses(12);
  EXPECT_EQ(MaxAttempts(job, state, queue), 11);
  EXPECT_EQ(MaxLosses(job, state, queue), 12);
}

TEST(PolicyTest, EachPartOfTheRetryPolicyIsChosenByItself) {
  record::JobRecord job;
  record::QueueSettings queue = Retry(1'000, 2.0, 60'000, 0.0);
  job.mutable_retry()->set_initial_delay_ms(5'000);
  EXPECT_EQ(RetryDelayMs(job, queue, 1, 0), 5'000);
  EXPECT_EQ(RetryDelayMs(job, queue, 2, 0), 10'000);
  EXPECT_EQ(RetryDelayMs(job, queue, 9, 0), 60'000);
}

TEST(PolicyTest, S32_BackoffAtHighAttemptNumbers) {
  const record::QueueSettings queue = Retry(1'000, 2.0, 3'600'000, 0.0);
  for (int failures = 1; failures <= 100; ++failures) {
    const int64_t expected = failures <= 12 ? int64_t{1'000} << (failures - 1) : int64_t{3'600'000};
    EXPECT_EQ(RetryDelayMs({}, queue, failures, 1), expected) << failures;
  }
  // With jitter too no wait is negative, zero or above the cap, however far it goes.
  const record::QueueSettings wild = Retry(1, 100.0, kLargestMaxRetryMs, 0.5);
  for (const int failures : {1, 31, 32, 33, 63, 64, 65, 1'000, 10'000, INT32_MAX}) {
    for (uint64_t entropy = 0; entropy < 100; ++entropy) {
      const int64_t wait = RetryDelayMs({}, wild, failures, entropy);
      EXPECT_GE(wait, 1) << failures;
      EXPECT_LE(wait, kLargestMaxRetryMs) << failures;
    }
  }
}

TEST(PolicyTest, S34_BackoffFollowsTheDocumentedFormula) {
  const record::QueueSettings exact = Retry(10'000, 2.0, kDayMs, 0.0);
  const int64_t expected[] = {10'000, 20'000, 40'000, 80'000};
  for (int failures = 1; failures <= 4; ++failures) {
    EXPECT_EQ(RetryDelayMs({}, exact, failures, 99), expected[failures - 1]);
  }
  const record::QueueSettings jittered = Retry(10'000, 2.0, kDayMs, 0.2);
  for (int failures = 1; failures <= 4; ++failures) {
    const auto middle = static_cast<double>(expected[failures - 1]);
    double sum = 0;
    std::set<int64_t> different;
    for (uint64_t job = 0; job < 1'000; ++job) {
      const int64_t wait = RetryDelayMs({}, jittered, failures, Mix(7, job));
      EXPECT_GE(static_cast<double>(wait), 0.8 * middle);
      EXPECT_LE(static_cast<double>(wait), 1.2 * middle);
      sum += static_cast<double>(wait);
      different.insert(wait);
    }
    EXPECT_NEAR(sum / 1'000, middle, 0.02 * middle);
    EXPECT_GT(different.size(), 500u);
  }
}

TEST(PolicyTest, TwentyAttemptsByDefaultOutliveAWeekend) {
  int64_t total_ms = 0;
  const record::QueueSettings defaults =
      Retry(kDefaultInitialRetryMs, kDefaultRetryMultiplier, kDefaultMaxRetryMs, 0.0);
  for (int failures = 1; failures < kDefaultMaxAttempts; ++failures) {
    EXPECT_NEAR(static_cast<double>(RetryDelayMs({}, {}, failures, 5)),
                static_cast<double>(RetryDelayMs({}, defaults, failures, 5)),
                0.1 * static_cast<double>(RetryDelayMs({}, defaults, failures, 5)) + 1);
    total_ms += RetryDelayMs({}, defaults, failures, 5);
  }
  EXPECT_GT(total_ms, 3 * kDayMs);
}

TEST(PolicyTest, AWaitOfZeroMeansAtOnce) {
  EXPECT_EQ(RetryDelayMs({}, Retry(0, 2.0, kDayMs, 0.5), 5, 1), 0);
  EXPECT_EQ(RetryDelayMs({}, Retry(1'000, 2.0, 0, 0.5), 5, 1), 0);
}

TEST(PolicyTest, TheFirstLossWaitsNotAtAllAndTheNextUniformly) {
  record::QueueSettings queue;
  queue.set_loss_backoff_ms(60'000);
  EXPECT_EQ(LossDelayMs({}, queue, 1, 3), 0);
  for (const auto& [losses, longest] : {std::pair{2, 60'000.0},
                                        {3, 120'000.0},
                                        {4, 240'000.0},
                                        {5, 480'000.0},
                                        {6, 600'000.0},
                                        {64, 600'000.0},
                                        {10'000, 600'000.0}}) {
    double sum = 0;
    for (uint64_t job = 0; job < 2'000; ++job) {
      const int64_t wait = LossDelayMs({}, queue, losses, Mix(9, job));
      EXPECT_GE(wait, 0);
      EXPECT_LE(static_cast<double>(wait), longest);
      sum += static_cast<double>(wait);
    }
    EXPECT_NEAR(sum / 2'000, longest / 2, 0.03 * longest) << losses;
  }
}

TEST(PolicyTest, TheLossBackoffCanBeSwitchedOff) {
  record::JobRecord job;
  job.set_loss_backoff_ms(0);
  for (int losses = 1; losses < 10; ++losses) EXPECT_EQ(LossDelayMs(job, {}, losses, 4), 0);
}

TEST(PolicyTest, ReleasesOfAnUnknownKindWaitTwoSecondsDoublingToAMinute) {
  const int64_t expected[] = {2'000, 4'000, 8'000, 16'000, 32'000, 60'000, 60'000};
  for (int32_t releases = 1; releases <= 7; ++releases) {
    EXPECT_EQ(KindReleaseDelayMs(releases), expected[releases - 1]);
  }
  EXPECT_EQ(KindReleaseDelayMs(INT32_MAX), 60'000);
}

TEST(PolicyTest, RetentionHasDefaultsForBothHistories) {
  const EndedLimits finished = RetentionOf({}, storage::EndedClass::kFinished);
  EXPECT_EQ(finished.age_ms, kDayMs);
  EXPECT_EQ(finished.count, 1'000'000);
  EXPECT_EQ(finished.bytes, int64_t{1} << 30);
  EXPECT_EQ(RetentionOf({}, storage::EndedClass::kDead).age_ms, 14 * kDayMs);
  record::QueueSettings queue;
  queue.mutable_retention()->set_finished_count(0);
  EXPECT_TRUE(RetentionOf(queue, storage::EndedClass::kFinished).none());
  EXPECT_FALSE(RetentionOf(queue, storage::EndedClass::kDead).none());
}

TEST(PolicyTest, ChanceIsAFunctionOfItsArguments) {
  EXPECT_EQ(Mix(1, 2), Mix(1, 2));
  std::set<uint64_t> different;
  for (uint64_t i = 0; i < 1'000; ++i) {
    different.insert(Mix(1, i));
    different.insert(Mix(i, 1));
  }
  EXPECT_GE(different.size(), 1'998u);
}

}  // namespace
}  // namespace stint::engine
