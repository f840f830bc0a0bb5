#include "storage/keys.h"

#include <cstddef>

namespace stint::storage {
namespace {

constexpr size_t kPrefixBytes = 2;  // shard, family

void AppendU8(std::string* out, uint8_t v) { out->push_back(static_cast<char>(v)); }

void AppendU32(std::string* out, uint32_t v) {
  for (int shift = 24; shift >= 0; shift -= 8) AppendU8(out, static_cast<uint8_t>(v >> shift));
}

void AppendU64(std::string* out, uint64_t v) {
  for (int shift = 56; shift >= 0; shift -= 8) AppendU8(out, static_cast<uint8_t>(v >> shift));
}

// Times are never negative (limits.h clamps them), so their unsigned form keeps the order.
void AppendTime(std::string* out, int64_t ms) {
  AppendU64(out, ms < 0 ? 0 : static_cast<uint64_t>(ms));
}

std::string Prefix(uint8_t family, size_t reserve) {
  std::string key;
  key.reserve(kPrefixBytes + reserve);
  AppendU8(&key, kShard);
  AppendU8(&key, family);
  return key;
}

std::string Prefix(Family family, size_t reserve) {
  return Prefix(static_cast<uint8_t>(family), reserve);
}

// Reads numbers off the front of a key; ok() turns false at the first one that is missing.
class Reader {
 public:
  Reader(Family family, absl::string_view key) : rest_(key) {
    ok_ = U8() == kShard && U8() == static_cast<uint8_t>(family) && ok_;
  }
  uint8_t U8() { return static_cast<uint8_t>(Number(1)); }
  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }
  int64_t Time() {
    const uint64_t ms = Number(8);
    ok_ = ok_ && ms <= INT64_MAX;
    return static_cast<int64_t>(ms);
  }
  // True when everything was there and nothing is left.
  bool Done() const { return ok_ && rest_.empty(); }
  bool ok() const { return ok_; }

 private:
  uint64_t Number(size_t bytes) {
    if (rest_.size() < bytes) {
      ok_ = false;
      return 0;
    }
    uint64_t v = 0;
    for (size_t i = 0; i < bytes; ++i) v = v << 8 | static_cast<uint8_t>(rest_[i]);
    rest_.remove_prefix(bytes);
    return v;
  }

  absl::string_view rest_;
  bool ok_ = true;
};

constexpr uint8_t PriorityByte(uint8_t priority) { return static_cast<uint8_t>(9 - priority); }

}  // namespace

std::string MetaKey(absl::string_view name) {
  std::string key = Prefix(Family::kMeta, name.size());
  key.append(name.data(), name.size());
  return key;
}

std::string QueueKey(uint32_t queue) { return QueueRangeBegin(Family::kQueue, queue); }

std::string QueueNameKey(absl::string_view name) {
  std::string key = Prefix(Family::kQueueName, name.size());
  key.append(name.data(), name.size());
  return key;
}

std::string CountersKey(uint32_t queue) { return QueueRangeBegin(Family::kCounters, queue); }

std::string JobRowKey(Family family, const JobKey& job) {
  std::string key = Prefix(family, 12);
  AppendU32(&key, job.queue);
  AppendU64(&key, job.sequence);
  return key;
}

std::string JobIdKey(uint32_t queue, absl::string_view job_id) {
  std::string key = Prefix(Family::kJobId, 4 + job_id.size());
  AppendU32(&key, queue);
  key.append(job_id.data(), job_id.size());
  return key;
}

std::string ReadyRowKey(const ReadyKey& ready) {
  std::string key = Prefix(Family::kReady, 21);
  AppendU32(&key, ready.queue);
  AppendU8(&key, PriorityByte(ready.priority));
  AppendTime(&key, ready.ready_ms);
  AppendU64(&key, ready.sequence);
  return key;
}

std::string DueRowKey(Family family, const DueKey& due) {
  std::string key = Prefix(family, 17);
  AppendTime(&key, due.due_ms);
  AppendU8(&key, PriorityByte(due.priority));
  AppendU64(&key, due.sequence);
  return key;
}

std::string ExpiryRowKey(Family family, int64_t expiry_ms, uint64_t sequence) {
  std::string key = Prefix(family, 16);
  AppendTime(&key, expiry_ms);
  AppendU64(&key, sequence);
  return key;
}

std::string EndedRowKey(uint32_t queue, EndedClass ended, int64_t end_ms, uint64_t sequence) {
  std::string key = Prefix(Family::kEnded, 21);
  AppendU32(&key, queue);
  AppendU8(&key, static_cast<uint8_t>(ended));
  AppendTime(&key, end_ms);
  AppendU64(&key, sequence);
  return key;
}

std::string RequestRowKey(uint32_t bucket, absl::string_view hash) {
  std::string key = Prefix(Family::kRequest, 4 + hash.size());
  AppendU32(&key, bucket);
  key.append(hash.data(), hash.size());
  return key;
}

std::string RemovedSettlesKey(uint32_t bucket, uint64_t group) {
  std::string key = Prefix(Family::kRemovedSettles, 12);
  AppendU32(&key, bucket);
  AppendU64(&key, group);
  return key;
}

std::string FamilyBegin(Family family) { return Prefix(family, 0); }

std::string FamilyEnd(Family family) {
  return Prefix(static_cast<uint8_t>(static_cast<uint8_t>(family) + 1), 0);
}

std::string QueueRangeBegin(Family family, uint32_t queue) {
  std::string key = Prefix(family, 4);
  AppendU32(&key, queue);
  return key;
}

std::string QueueRangeEnd(Family family, uint32_t queue) {
  return queue == UINT32_MAX ? FamilyEnd(family) : QueueRangeBegin(family, queue + 1);
}

std::string BucketRangeBegin(Family family, uint32_t bucket) {
  return QueueRangeBegin(family, bucket);
}

std::optional<Family> FamilyOf(absl::string_view key) {
  if (key.size() < kPrefixBytes || static_cast<uint8_t>(key[0]) != kShard) return std::nullopt;
  switch (static_cast<Family>(key[1])) {
    case Family::kMeta:
    case Family::kQueue:
    case Family::kQueueName:
    case Family::kCounters:
    case Family::kJob:
    case Family::kPayload:
    case Family::kState:
    case Family::kLease:
    case Family::kResult:
    case Family::kJobId:
    case Family::kReady:
    case Family::kDue:
    case Family::kDueWall:
    case Family::kExpiry:
    case Family::kExpiryWall:
    case Family::kEnded:
    case Family::kRequest:
    case Family::kRemovedSettles:
      return static_cast<Family>(key[1]);
  }
  return std::nullopt;
}

std::optional<JobKey> ParseJobRowKey(Family family, absl::string_view key) {
  Reader reader(family, key);
  JobKey job;
  job.queue = reader.U32();
  job.sequence = reader.U64();
  if (!reader.Done()) return std::nullopt;
  return job;
}

std::optional<uint32_t> ParseQueueKey(Family family, absl::string_view key) {
  Reader reader(family, key);
  const uint32_t queue = reader.U32();
  if (!reader.Done()) return std::nullopt;
  return queue;
}

std::optional<ReadyKey> ParseReadyRowKey(absl::string_view key) {
  Reader reader(Family::kReady, key);
  ReadyKey ready;
  ready.queue = reader.U32();
  const uint8_t priority_byte = reader.U8();
  ready.ready_ms = reader.Time();
  ready.sequence = reader.U64();
  if (!reader.Done() || priority_byte > 9) return std::nullopt;
  ready.priority = PriorityByte(priority_byte);
  return ready;
}

std::optional<DueKey> ParseDueRowKey(Family family, absl::string_view key) {
  Reader reader(family, key);
  DueKey due;
  due.due_ms = reader.Time();
  const uint8_t priority_byte = reader.U8();
  due.sequence = reader.U64();
  if (!reader.Done() || priority_byte > 9) return std::nullopt;
  due.priority = PriorityByte(priority_byte);
  return due;
}

std::optional<ExpiryKey> ParseExpiryRowKey(Family family, absl::string_view key) {
  Reader reader(family, key);
  ExpiryKey expiry;
  expiry.expiry_ms = reader.Time();
  expiry.sequence = reader.U64();
  if (!reader.Done()) return std::nullopt;
  return expiry;
}

std::optional<EndedKey> ParseEndedRowKey(absl::string_view key) {
  Reader reader(Family::kEnded, key);
  EndedKey ended;
  ended.queue = reader.U32();
  const uint8_t ended_class = reader.U8();
  ended.end_ms = reader.Time();
  ended.sequence = reader.U64();
  if (!reader.Done() || ended_class > 1) return std::nullopt;
  ended.ended = static_cast<EndedClass>(ended_class);
  return ended;
}

std::optional<uint32_t> ParseBucket(Family family, absl::string_view key) {
  Reader reader(family, key);
  const uint32_t bucket = reader.U32();
  if (!reader.ok()) return std::nullopt;
  return bucket;
}

}  // namespace stint::storage
