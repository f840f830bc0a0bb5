// What is in force for a job: its own word, else the queue's, else the default of limits.h.
// And the waits that follow from it.
#ifndef STINT_SERVER_ENGINE_POLICY_H_
#define STINT_SERVER_ENGINE_POLICY_H_

#include <cstdint>

#include "storage/keys.h"
#include "storage/record.pb.h"

namespace stint::engine {

int32_t MaxAttempts(const record::JobRecord& job, const record::JobState& state,
                    const record::QueueSettings& queue);
int32_t MaxLosses(const record::JobRecord& job, const record::JobState& state,
                  const record::QueueSettings& queue);
// 0: no limit.
int64_t RunLimitMs(const record::JobRecord& job, const record::QueueSettings& queue);
int64_t CancelGraceMs(const record::QueueSettings& queue);

// The wait after the `failures`-th failure:
// min(max, initial × multiplier^(failures−1)) ± jitter. At least 1 ms unless initial is 0.
int64_t RetryDelayMs(const record::JobRecord& job, const record::QueueSettings& queue,
                     int32_t failures, uint64_t entropy);
// The wait after the `losses`-th loss in a row: none after the first, then uniformly
// 0 to loss_backoff × 2^(losses−2), at most 10 min.
int64_t LossDelayMs(const record::JobRecord& job, const record::QueueSettings& queue,
                    int32_t losses, uint64_t entropy);
// The wait after the `releases`-th release in a row for an unknown kind: 2 s, doubling, at
// most 60 s.
int64_t KindReleaseDelayMs(int32_t releases);

// Limits on one of a queue's two histories.
struct EndedLimits {
  int64_t age_ms = 0;
  int64_t count = 0;
  int64_t bytes = 0;
  // Ended jobs are removed in the commit that ends them.
  bool none() const { return age_ms == 0 || count == 0 || bytes == 0; }
};
EndedLimits RetentionOf(const record::QueueSettings& queue, storage::EndedClass ended);

// A stream of numbers out of one: the n-th number for `entropy`. Equal input, equal output.
uint64_t Mix(uint64_t entropy, uint64_t n);

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_POLICY_H_
