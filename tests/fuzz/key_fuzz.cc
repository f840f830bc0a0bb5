// Keys of the store: a key that is taken apart is the one that its parts make.
#include <string>

#include "storage/group_mark.h"
#include "storage/keys.h"
#include "tests/fuzz/fuzz_input.h"

namespace stint::storage {
namespace {

using test::Require;

// The key made of the parts of `key`; "" when it cannot be taken apart.
std::string Remade(Family family, absl::string_view key) {
  switch (family) {
    case Family::kJob:
    case Family::kPayload:
    case Family::kState:
    case Family::kLease:
    case Family::kResult: {
      const auto job = ParseJobRowKey(family, key);
      return job ? JobRowKey(family, *job) : "";
    }
    case Family::kQueue:
    case Family::kCounters: {
      const auto queue = ParseQueueKey(family, key);
      if (!queue) return "";
      return family == Family::kQueue ? QueueKey(*queue) : CountersKey(*queue);
    }
    case Family::kReady: {
      const auto ready = ParseReadyRowKey(key);
      return ready ? ReadyRowKey(*ready) : "";
    }
    case Family::kDue:
    case Family::kDueWall: {
      const auto due = ParseDueRowKey(family, key);
      return due ? DueRowKey(family, *due) : "";
    }
    case Family::kExpiry:
    case Family::kExpiryWall: {
      const auto expiry = ParseExpiryRowKey(family, key);
      return expiry ? ExpiryRowKey(family, expiry->expiry_ms, expiry->sequence) : "";
    }
    case Family::kEnded: {
      const auto ended = ParseEndedRowKey(key);
      return ended ? EndedRowKey(ended->queue, ended->ended, ended->end_ms, ended->sequence) : "";
    }
    case Family::kRequest:
    case Family::kRemovedSettles: {
      const auto bucket = ParseBucket(family, key);
      if (!bucket) return "";
      const std::string begin = BucketRangeBegin(family, *bucket);
      Require(key.substr(0, begin.size()) == begin, "a bucket holds its keys");
      return std::string(key);
    }
    case Family::kMeta:
    case Family::kQueueName:
    case Family::kJobId:
      return "";  // end in free text and are never taken apart
  }
  return "";
}

}  // namespace
}  // namespace stint::storage

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace storage = stint::storage;
  const absl::string_view key = stint::test::Input(data, size).Rest();
  if (const auto family = storage::FamilyOf(key)) {
    stint::test::Require(storage::FamilyBegin(*family) <= key && key < storage::FamilyEnd(*family),
                         "a family holds its keys");
    const std::string remade = storage::Remade(*family, key);
    stint::test::Require(remade.empty() || remade == key, "a key has one form");
  }
  if (const auto mark = storage::DecodeGroupMark(key)) {
    stint::test::Require(storage::EncodeGroupMark(*mark) == key, "a group mark has one form");
  }
  return 0;
}
