// Every key in the store, built and taken apart in one place. FORMAT.md draws them.
//
// A key is a shard byte (0 today), a family byte, then big-endian numbers and, last, at most
// one byte string, so that byte order is the order people expect and no separator is needed.
#ifndef STINT_STORAGE_KEYS_H_
#define STINT_STORAGE_KEYS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace stint::storage {

inline constexpr uint8_t kShard = 0;

// The second byte of each key.
enum class Family : uint8_t {
  kMeta = 'm',           // named single rows
  kQueue = 'q',          // queue id -> QueueRecord
  kQueueName = 'n',      // queue name -> queue id
  kCounters = 'c',       // queue id -> QueueCounters
  kJob = 'j',            // queue id, sequence -> JobRecord
  kPayload = 'p',        // queue id, sequence -> payload over kInlinePayloadBytes
  kState = 's',          // queue id, sequence -> JobState of a job not leased
  kLease = 'l',          // queue id, sequence -> JobState of a leased job
  kResult = 'u',         // queue id, sequence -> result bytes
  kJobId = 'i',          // queue id, the caller's own job id -> sequence
  kReady = 'r',          // queue id, 9 - priority, ready time, sequence -> entered
  kDue = 'd',            // due (broker time), 9 - priority, sequence -> queue id, entered
  kDueWall = 'w',        // due (wall time), 9 - priority, sequence -> queue id, entered
  kExpiry = 'e',         // expiry (broker time), sequence -> queue id
  kExpiryWall = 'f',     // expiry (wall time), sequence -> queue id
  kEnded = 't',          // queue id, class, end (broker time), sequence -> empty
  kRequest = 'o',        // time bucket, hash of identity and request id -> RequestRecord
  kRemovedSettles = 'v'  // time bucket, group -> RemovedSettles
};

// Payloads up to this size live in the job's record, larger ones in a row of their own.
inline constexpr size_t kInlinePayloadBytes = 4096;

// Which of a queue's two histories an ended job is in.
enum class EndedClass : uint8_t { kFinished = 0, kDead = 1 };

// Identifies a job everywhere inside the broker.
struct JobKey {
  uint32_t queue = 0;
  uint64_t sequence = 0;

  friend bool operator==(const JobKey&, const JobKey&) = default;
  friend auto operator<=>(const JobKey&, const JobKey&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const JobKey& k) {
    return H::combine(std::move(h), k.queue, k.sequence);
  }
};

// Place of a job in the ready order of one queue.
struct ReadyKey {
  uint32_t queue = 0;
  uint8_t priority = 0;  // 0 to 9, higher first
  int64_t ready_ms = 0;  // broker time
  uint64_t sequence = 0;
};

// Place of a job in one of the due indexes.
struct DueKey {
  int64_t due_ms = 0;
  uint8_t priority = 0;
  uint64_t sequence = 0;
};

std::string MetaKey(absl::string_view name);
std::string QueueKey(uint32_t queue);
std::string QueueNameKey(absl::string_view name);
std::string CountersKey(uint32_t queue);
// For kJob, kPayload, kState, kLease and kResult.
std::string JobRowKey(Family family, const JobKey& job);
std::string JobIdKey(uint32_t queue, absl::string_view job_id);
std::string ReadyRowKey(const ReadyKey& key);
// For kDue and kDueWall.
std::string DueRowKey(Family family, const DueKey& key);
// For kExpiry and kExpiryWall.
std::string ExpiryRowKey(Family family, int64_t expiry_ms, uint64_t sequence);
std::string EndedRowKey(uint32_t queue, EndedClass ended, int64_t end_ms, uint64_t sequence);
std::string RequestRowKey(uint32_t bucket, absl::string_view hash);
std::string RemovedSettlesKey(uint32_t bucket, uint64_t group);

// First key of a family, and the first key after it.
std::string FamilyBegin(Family family);
std::string FamilyEnd(Family family);
// First key of a family that belongs to one queue, and the first key after them. For every
// family whose key starts with a queue id.
std::string QueueRangeBegin(Family family, uint32_t queue);
std::string QueueRangeEnd(Family family, uint32_t queue);
// The same for families whose key starts with a time bucket.
std::string BucketRangeBegin(Family family, uint32_t bucket);

// The family of a key; nullopt when it is not one of ours.
std::optional<Family> FamilyOf(absl::string_view key);

// Each takes a key apart; nullopt when it has not the family or form it should.
std::optional<JobKey> ParseJobRowKey(Family family, absl::string_view key);
std::optional<uint32_t> ParseQueueKey(Family family, absl::string_view key);
std::optional<ReadyKey> ParseReadyRowKey(absl::string_view key);
std::optional<DueKey> ParseDueRowKey(Family family, absl::string_view key);
struct ExpiryKey {
  int64_t expiry_ms = 0;
  uint64_t sequence = 0;
};
std::optional<ExpiryKey> ParseExpiryRowKey(Family family, absl::string_view key);
struct EndedKey {
  uint32_t queue = 0;
  EndedClass ended = EndedClass::kFinished;
  int64_t end_ms = 0;
  uint64_t sequence = 0;
};
std::optional<EndedKey> ParseEndedRowKey(absl::string_view key);
// Bucket of a kRequest or kRemovedSettles key.
std::optional<uint32_t> ParseBucket(Family family, absl::string_view key);

}  // namespace stint::storage

#endif  // STINT_STORAGE_KEYS_H_
