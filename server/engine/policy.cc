#include "server/engine/policy.h"

#include <algorithm>
#include <cmath>

#include "server/engine/limits.h"

namespace stint::engine {
namespace {

// Uniform in [0, 1).
double Unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1.0p-53; }

}  // namespace

uint64_t Mix(uint64_t entropy, uint64_t n) {
  // SplitMix64 (Steele, Lea, Flood 2014).
  uint64_t z = entropy + (n + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

int32_t MaxAttempts(const record::JobRecord& job, const record::JobState& state,
                    const record::QueueSettings& queue) {
  if (state.has_max_attempts()) return state.max_attempts();
  if (job.has_max_attempts()) return job.max_attempts();
  return queue.has_max_attempts() ? queue.max_attempts() : kDefaultMaxAttempts;
}

int32_t MaxLosses(const record::JobRecord& job, const record::JobState& state,
                  const record::QueueSettings& queue) {
  if (state.has_max_losses()) return state.max_losses();
  if (job.has_max_losses()) return job.max_losses();
  return queue.has_max_losses() ? queue.max_losses() : kDefaultMaxLosses;
}

int64_t RunLimitMs(const record::JobRecord& job, const record::QueueSettings& queue) {
  return job.has_run_limit_ms() ? job.run_limit_ms() : queue.run_limit_ms();
}

int64_t CancelGraceMs(const record::QueueSettings& queue) {
  return queue.has_cancel_grace_ms() ? queue.cancel_grace_ms() : kDefaultCancelGraceMs;
}

int64_t RetryDelayMs(const record::JobRecord& job, const record::QueueSettings& queue,
                     int32_t failures, uint64_t entropy) {
  const record::RetryPolicy& own = job.retry();
  const record::RetryPolicy& shared = queue.retry();
  const int64_t initial = own.has_initial_delay_ms()      ? own.initial_delay_ms()
                          : shared.has_initial_delay_ms() ? shared.initial_delay_ms()
                                                          : kDefaultInitialRetryMs;
  const double multiplier = own.has_multiplier()      ? own.multiplier()
                            : shared.has_multiplier() ? shared.multiplier()
                                                      : kDefaultRetryMultiplier;
  const int64_t max = own.has_max_delay_ms()      ? own.max_delay_ms()
                      : shared.has_max_delay_ms() ? shared.max_delay_ms()
                                                  : kDefaultMaxRetryMs;
  const double jitter = own.has_jitter()      ? own.jitter()
                        : shared.has_jitter() ? shared.jitter()
                                              : kDefaultRetryJitter;
  if (initial == 0 || max == 0) return 0;
  // In floating point a large power becomes infinity, never negative.
  const double exact =
      std::min(static_cast<double>(max),
               static_cast<double>(initial) * std::pow(multiplier, std::max(failures, 1) - 1));
  const double spread = exact * jitter * (2.0 * Unit(Mix(entropy, 0)) - 1.0);
  const double wait = std::clamp(exact + spread, 1.0, static_cast<double>(max));
  return std::llround(wait);
}

int64_t LossDelayMs(const record::JobRecord& job, const record::QueueSettings& queue,
                    int32_t losses, uint64_t entropy) {
  if (losses < 2) return 0;
  const int64_t base = job.has_loss_backoff_ms()     ? job.loss_backoff_ms()
                       : queue.has_loss_backoff_ms() ? queue.loss_backoff_ms()
                                                     : kDefaultLossBackoffMs;
  const double longest = std::min(static_cast<double>(kMaxLossBackoffMs),
                                  static_cast<double>(base) * std::pow(2.0, losses - 2));
  return std::llround(longest * Unit(Mix(entropy, 0)));
}

int64_t KindReleaseDelayMs(int32_t releases) {
  int64_t delay = kMinKindReleaseMs;
  for (int32_t i = 1; i < releases && delay < kMaxKindReleaseMs; ++i) delay *= 2;
  return std::min(delay, kMaxKindReleaseMs);
}

EndedLimits RetentionOf(const record::QueueSettings& queue, storage::EndedClass ended) {
  const record::Retention& given = queue.retention();
  if (ended == storage::EndedClass::kDead) {
    return {given.has_dead_age_ms() ? given.dead_age_ms() : kDefaultDeadAgeMs,
            given.has_dead_count() ? given.dead_count() : kDefaultDeadCount,
            given.has_dead_bytes() ? given.dead_bytes() : kDefaultDeadBytes};
  }
  return {given.has_finished_age_ms() ? given.finished_age_ms() : kDefaultFinishedAgeMs,
          given.has_finished_count() ? given.finished_count() : kDefaultFinishedCount,
          given.has_finished_bytes() ? given.finished_bytes() : kDefaultFinishedBytes};
}

}  // namespace stint::engine
