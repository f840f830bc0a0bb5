// Every limit and default of the broker, in one place; PROTOCOL.md's table shows those that callers
// meet. Durations are in milliseconds, sizes in bytes.
#ifndef STINT_SERVER_ENGINE_LIMITS_H_
#define STINT_SERVER_ENGINE_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace stint::engine {

inline constexpr int64_t kSecondMs = 1000;
inline constexpr int64_t kMinuteMs = 60 * kSecondMs;
inline constexpr int64_t kHourMs = 60 * kMinuteMs;
inline constexpr int64_t kDayMs = 24 * kHourMs;

// Names and texts.
inline constexpr size_t kMaxNameBytes = 128;
inline constexpr size_t kMaxKindBytes = 128;
inline constexpr size_t kMaxContentTypeBytes = 128;
inline constexpr size_t kMaxRequestIdBytes = 256;
inline constexpr size_t kMaxHeaders = 32;
inline constexpr size_t kMaxHeaderBytes = 4096;
inline constexpr size_t kMaxLabels = 8;
inline constexpr size_t kMaxLabelBytes = 63;
inline constexpr size_t kMaxErrorBytes = 8192;
inline constexpr size_t kMaxAttemptErrorBytes = 256;
inline constexpr size_t kKeptAttempts = 10;

// Payload and call size; both can be set.
inline constexpr size_t kDefaultMaxPayloadBytes = 1 << 20;
inline constexpr size_t kLargestMaxPayloadBytes = 64 << 20;
inline constexpr size_t kDefaultMaxCallBytes = 3'670'016;  // 3.5 MiB
inline constexpr size_t kLargestMaxCallBytes = 128 << 20;

// Calls.
inline constexpr size_t kMaxBatchItems = 1000;
// Jobs that one call of a batch change changes; it looks at kMaxRowsExaminedPerPage.
inline constexpr int kMaxBatchChanges = 1000;
inline constexpr int kMaxPageSize = 1000;
inline constexpr int kDefaultPageSize = 100;
inline constexpr int kMaxRowsExaminedPerPage = 10'000;
inline constexpr size_t kMaxHeartbeatItems = 10'000;
inline constexpr size_t kMaxProgressBytes = 4096;
// Of all leases together: beyond it progress is not kept.
inline constexpr size_t kMaxKeptProgressBytes = 64 << 20;
inline constexpr size_t kMaxLeaseQueues = 10'000;
inline constexpr int kMaxLeaseJobs = 1000;
inline constexpr int64_t kDefaultReplyBytes = 3'670'016;  // 3.5 MiB
inline constexpr int64_t kMinReplyBytes = 4096;
inline constexpr int64_t kLargestReplyBytes = 64 << 20;
inline constexpr int64_t kDefaultWaitMs = 20 * kSecondMs;
inline constexpr int64_t kMaxWaitMs = 60 * kSecondMs;
// A waiting call ends this long before its deadline.
inline constexpr int64_t kWaitDeadlineMarginMs = 200;
inline constexpr size_t kMaxViolations = 20;

// Leases.
inline constexpr int64_t kDefaultLeaseMs = 15 * kSecondMs;
inline constexpr int64_t kMinLeaseMs = kSecondMs;
inline constexpr int64_t kMaxLeaseMs = kDayMs;
// Without leases to renew, a worker asks this often.
inline constexpr int64_t kIdleHeartbeatMs = 5 * kSecondMs;
// After a restart or a long stall each lease has at least this long to be renewed; can be set.
inline constexpr int64_t kDefaultRestartGraceMs = 30 * kSecondMs;
inline constexpr int64_t kMaxRestartGraceMs = 10 * kMinuteMs;
// A loop pass that took longer than this is a stall: leases get the gap added.
inline constexpr int64_t kStallMs = kSecondMs;
// From this gap on leases get the restart grace.
inline constexpr int64_t kLongStallMs = 5 * kSecondMs;

// Sessions (streams of workers).
inline constexpr size_t kMaxSessions = 20'000;
inline constexpr size_t kMaxStreamOperations = 1000;  // in one message
// Operations of a session under way, and bytes of them and of what it has not read; above
// either its next message is not read.
inline constexpr size_t kMaxSessionOperations = 10'000;
inline constexpr size_t kMaxSessionBytes = 8 << 20;
inline constexpr int64_t kMaxCreditJobs = 10'000;
inline constexpr int64_t kDefaultCreditBytes = 8 << 20;
inline constexpr int64_t kMaxCreditBytes = 64 << 20;
inline constexpr size_t kMaxWorkerKinds = 100;
// Leases that the end of a session releases in one step; the rest follows in the next groups.
inline constexpr size_t kMaxSessionReleases = 64;
// Of the hellos of all open sessions together, weighed as they lie in memory.
inline constexpr size_t kMaxHelloBytes = 64 << 20;
inline constexpr size_t kMaxWorkerVersionBytes = 128;
// A stream that breaks this soon after its last message is taken for a dead process.
inline constexpr int64_t kStreamAliveMs = 8 * kSecondMs;
inline constexpr int64_t kDefaultStreamLossGraceMs = 5 * kSecondMs;
inline constexpr int64_t kMaxStreamLossGraceMs = kHourMs;
// The hello of a stream has to come within this time.
inline constexpr int64_t kHelloMs = 10 * kSecondMs;
// Workers that use single calls: how long one is listed after its last call, how many are, and how
// long one that was asked to leave gets no jobs.
inline constexpr int64_t kWorkerKnownMs = 90 * kSecondMs;
inline constexpr size_t kMaxKnownWorkers = 20'000;
inline constexpr int64_t kDrainedWorkerMs = kHourMs;
// ListWorkers names so many queues of a worker.
inline constexpr size_t kMaxShownQueues = 100;
// A session that says nothing for longer is served after all others.
inline constexpr int64_t kSilentSessionMs = 25 * kSecondMs;

// Job life.
inline constexpr int32_t kDefaultPriority = 5;
inline constexpr int32_t kMaxPriority = 9;
inline constexpr int32_t kDefaultMaxAttempts = 20;
inline constexpr int32_t kDefaultMaxLosses = 3;
inline constexpr int32_t kLargestBudget = 10'000;
inline constexpr int64_t kDefaultInitialRetryMs = kSecondMs;
inline constexpr int64_t kLargestInitialRetryMs = kDayMs;
inline constexpr double kDefaultRetryMultiplier = 2.0;
inline constexpr double kLargestRetryMultiplier = 100.0;
inline constexpr int64_t kDefaultMaxRetryMs = kDayMs;
inline constexpr int64_t kLargestMaxRetryMs = 30 * kDayMs;
inline constexpr double kDefaultRetryJitter = 0.1;
inline constexpr int64_t kDefaultLossBackoffMs = kMinuteMs;
inline constexpr int64_t kMaxLossBackoffMs = 10 * kMinuteMs;
inline constexpr int64_t kMinRunLimitMs = kSecondMs;
inline constexpr int64_t kMaxRunLimitMs = 30 * kDayMs;
inline constexpr int64_t kDefaultCancelGraceMs = 10 * kSecondMs;
inline constexpr int64_t kMaxCancelGraceMs = kHourMs;
inline constexpr int64_t kMaxDelayMs = 3650 * kDayMs;
inline constexpr int64_t kMinKindReleaseMs = 2 * kSecondMs;
inline constexpr int64_t kMaxKindReleaseMs = kMinuteMs;
// When a lower priority's oldest ready job has waited longer than this, every
// kStarvationGrants-th grant of its queue goes to the oldest such job.
inline constexpr int64_t kStarvationMs = kMinuteMs;
inline constexpr uint64_t kStarvationGrants = 16;

// Retention.
inline constexpr int64_t kDefaultFinishedAgeMs = kDayMs;
inline constexpr int64_t kDefaultFinishedCount = 1'000'000;
inline constexpr int64_t kDefaultFinishedBytes = int64_t{1} << 30;
inline constexpr int64_t kDefaultDeadAgeMs = 14 * kDayMs;
inline constexpr int64_t kDefaultDeadCount = 1'000'000;
inline constexpr int64_t kDefaultDeadBytes = int64_t{1} << 30;
inline constexpr int64_t kMaxAgeMs = 3650 * kDayMs;
inline constexpr int64_t kLargestCount = 1'000'000'000'000;
inline constexpr int64_t kLargestBytes = 1'000'000'000'000'000;

// Queues.
inline constexpr size_t kMaxQueues = 1'000'000;
// A queue that appeared by use, was never configured and is empty is forgotten after this.
inline constexpr int64_t kForgetQueueMs = kDayMs;

// What is remembered to answer repeated calls.
inline constexpr int64_t kDefaultRequestWindowMs = kHourMs;
inline constexpr int64_t kMaxRequestWindowMs = kDayMs;
inline constexpr int64_t kMaxRememberedRequests = 10'000'000;
inline constexpr int64_t kRemovedSettleWindowMs = 10 * kMinuteMs;
inline constexpr size_t kMaxRemovedSettles = 1'000'000;

// Groups and lanes.
inline constexpr size_t kMaxGroupOperations = 1024;
inline constexpr size_t kMaxGroupBytes = 256 << 10;
inline constexpr size_t kMaxLaneOperations = 20'000;
inline constexpr size_t kMaxLaneBytes = 64 << 20;
inline constexpr size_t kMaxParkedCalls = 50'000;
// Of the requests of waiting calls: each may name many queues.
inline constexpr size_t kMaxParkedBytes = 64 << 20;
// One step of purge, promotion or expiry; a group has at most one of each.
inline constexpr size_t kMaxStepRows = 256;
// Retention in one group: more than a group can end, shared by the histories that are due.
inline constexpr size_t kMaxRetentionRows = 1024;
inline constexpr size_t kMaxRetentionSteps = 8;

// Memory of the ready order, per queue and priority.
inline constexpr size_t kWindowRefill = 512;
inline constexpr size_t kWindowMax = 4096;

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_LIMITS_H_
