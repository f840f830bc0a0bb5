#include "server/engine/request_memory.h"

#include <openssl/sha.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/engine/answer.h"
#include "server/engine/limits.h"

namespace stint::engine {
namespace {

constexpr size_t kHashBytes = 16;

// 128 bits of SHA-256 over who asks, length-prefixed, and the request id.
std::string Hash(absl::string_view who, absl::string_view request_id) {
  const std::string text = absl::StrCat(who.size(), ":", who, request_id);
  std::string hash(SHA256_DIGEST_LENGTH, '\0');
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
         reinterpret_cast<unsigned char*>(hash.data()));
  hash.resize(kHashBytes);
  return hash;
}

std::string HashOf(const RequestKey& request) { return Hash(request.identity, request.request_id); }

}  // namespace

uint64_t HashOfRequest(absl::string_view who, absl::string_view request_id) {
  const std::string hash = Hash(who, request_id);
  uint64_t number = 0;
  for (size_t i = 0; i < sizeof number; ++i) number = number << 8 | static_cast<uint8_t>(hash[i]);
  return number;
}

RequestMemory::Seen RequestMemory::Find(storage::Tables* tables, const RequestKey& request,
                                        ReplyBody* answer) const {
  if (request.request_id.empty()) return Seen::kNew;
  const std::string hash = HashOf(request);
  bool unknown = false;
  record::RequestRecord stored;
  for (auto bucket = buckets_.rbegin(); bucket != buckets_.rend(); ++bucket) {
    switch (tables->Request(bucket->start_s, hash, &stored)) {
      case storage::Read::kUnknown:
        unknown = true;
        break;
      case storage::Read::kAbsent:
        break;
      case storage::Read::kCorrupt:
        return Seen::kCorrupt;
      case storage::Read::kFound:
        if (stored.fingerprint() != request.fingerprint) return Seen::kReused;
        *answer = LoadAnswer(stored.answer());
        return Seen::kRepeated;
    }
  }
  return unknown ? Seen::kUnknown : Seen::kNew;
}

void RequestMemory::Remember(storage::Tables* tables, const RequestKey& request,
                             const ReplyBody& answer, int64_t now_ms) {
  if (request.request_id.empty()) return;
  const auto start_s = static_cast<uint32_t>(now_ms / kSecondMs);
  if (buckets_.empty() || now_ms >= buckets_.back().end_ms ||
      buckets_.back().count >= max_requests_ / 4) {
    // A bucket is named by its second, so there is at most one for each.
    if (buckets_.empty() || buckets_.back().start_s != start_s) {
      if (!buckets_.empty()) buckets_.back().end_ms = std::min(buckets_.back().end_ms, now_ms);
      buckets_.push_back({start_s, 0, 0});
    }
    buckets_.back().end_ms = now_ms + BucketMs();
  }
  record::RequestRecord stored;
  stored.set_fingerprint(request.fingerprint);
  *stored.mutable_answer() = StoreAnswer(answer);
  tables->PutRequest(buckets_.back().start_s, HashOf(request), stored);
  ++buckets_.back().count;
}

int64_t RequestMemory::total() const {
  int64_t total = 0;
  for (const Bucket& bucket : buckets_) total += bucket.count;
  return total;
}

int64_t RequestMemory::NextMs() const {
  if (buckets_.empty()) return INT64_MAX;
  if (buckets_.size() > 1 && total() > max_requests_) return 0;
  return buckets_.front().end_ms + window_ms_;
}

void RequestMemory::DropOld(storage::Tables* tables, int64_t now_ms) {
  while (!buckets_.empty() && NextMs() <= now_ms) {
    const Bucket& oldest = buckets_.front();
    if (oldest.end_ms + window_ms_ > now_ms) dropped_through_ms_ = oldest.end_ms;
    tables->DropBucket(storage::Family::kRequest, oldest.start_s);
    buckets_.pop_front();
  }
}

int64_t RequestMemory::WindowInForceMs(int64_t now_ms) const {
  return std::min(window_ms_, now_ms - dropped_through_ms_);
}

void RequestMemory::Load(const record::GroupRecord& group, int64_t now_ms) {
  buckets_.clear();
  for (const auto& bucket : group.request_buckets()) {
    buckets_.push_back({bucket.start_s(), now_ms, bucket.count()});
  }
  for (size_t i = 0; i + 1 < buckets_.size(); ++i) {
    buckets_[i].end_ms = int64_t{buckets_[i + 1].start_s} * kSecondMs + kSecondMs;
  }
}

void RequestMemory::Store(record::GroupRecord* group) const {
  for (const Bucket& bucket : buckets_) {
    auto* stored = group->add_request_buckets();
    stored->set_start_s(bucket.start_s);
    stored->set_count(bucket.count);
  }
}

}  // namespace stint::engine
