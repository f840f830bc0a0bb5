// Answers to calls with a request_id, kept in the store for the request window or, if that is
// less, up to a number, in buckets that are dropped whole. A bucket ends when half a window has
// passed or a quarter of the number is in it. Which buckets exist is in memory and in the
// group row. Used by one thread.
#ifndef STINT_SERVER_ENGINE_REQUEST_MEMORY_H_
#define STINT_SERVER_ENGINE_REQUEST_MEMORY_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/engine/command.h"
#include "server/engine/limits.h"
#include "server/engine/outcome.h"
#include "storage/record.pb.h"
#include "storage/tables.h"

namespace stint::engine {

// 64 bits of a hash of who asks and with which request id; equal in every run and release.
uint64_t HashOfRequest(absl::string_view who, absl::string_view request_id);

class RequestMemory {
 public:
  explicit RequestMemory(int64_t window_ms, int64_t max_requests = kMaxRememberedRequests)
      : window_ms_(window_ms), max_requests_(max_requests) {}

  enum class Seen { kUnknown, kNew, kRepeated, kReused, kCorrupt };
  // Whether the call was answered before; kRepeated fills in the answer. kUnknown: rows have
  // to be fetched first.
  Seen Find(storage::Tables* tables, const RequestKey& request, ReplyBody* answer) const;
  // Keeps an answer. Calls without a request id are not kept.
  void Remember(storage::Tables* tables, const RequestKey& request, const ReplyBody& answer,
                int64_t now_ms);

  // When DropOld has something to do; INT64_MAX: never.
  int64_t NextMs() const;
  // Drops buckets that are out of the window, or over the number that is kept.
  void DropOld(storage::Tables* tables, int64_t now_ms);

  // How far back answers are known now: the window, or less after a drop by number.
  int64_t WindowInForceMs(int64_t now_ms) const;

  // Buckets as the last run left them; all of them are closed as of now.
  void Load(const record::GroupRecord& group, int64_t now_ms);
  void Store(record::GroupRecord* group) const;

 private:
  struct Bucket {
    uint32_t start_s = 0;
    // The last answer in it is not younger than this.
    int64_t end_ms = 0;
    int64_t count = 0;
  };
  int64_t BucketMs() const { return window_ms_ / 2; }
  int64_t total() const;

  int64_t window_ms_;
  int64_t max_requests_;
  std::deque<Bucket> buckets_;  // oldest first
  // Answers older than this were dropped by number; 0: none.
  int64_t dropped_through_ms_ = 0;
};

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_REQUEST_MEMORY_H_
