// Commands waiting to be applied, in three lanes, each bounded in operations and bytes, so
// that a flood in one never holds up another. Thread-safe.
//
//   settle    settles, heartbeats, ends of sessions  first, all that is not kept for the others
//   dispatch  LeaseJobs                              a quarter of each group is kept for it
//   other     everything else                        a quarter of each group is kept for it
//
// A lane whose first call did not fit goes first in the next group, so that a large call is not
// held up for ever by small ones, nor small ones by large ones.
#ifndef STINT_SERVER_RUNTIME_INBOX_H_
#define STINT_SERVER_RUNTIME_INBOX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/status.h"
#include "server/engine/limits.h"
#include "server/runtime/gateway.h"
#include "sync/mutex.h"

namespace stint::runtime {

enum class Lane { kSettle = 0, kDispatch = 1, kOther = 2 };

Lane LaneOf(const engine::Command& command);
// What a command counts for against a group's limit: what it may write. A heartbeat writes
// nothing.
size_t OperationsOf(const engine::Command& command);
// What a command counts for against its lane's limit: what it holds. A LeaseJobs and
// the end of a session hold one place, a heartbeat one and one more for every 16 leases.
size_t PlacesOf(const engine::Command& command);

struct InboxLimits {
  size_t lane_operations = engine::kMaxLaneOperations;
  size_t lane_bytes = engine::kMaxLaneBytes;
  size_t group_operations = engine::kMaxGroupOperations;
  size_t group_bytes = engine::kMaxGroupBytes;
};

class Inbox {
 public:
  explicit Inbox(const InboxLimits& limits) : limits_(limits) {}

  // OVERLOADED when the lane is full; the reason it was closed with once it is closed.
  absl::Status Push(Call call);
  // The calls of the next group. One that is over the limits by itself comes alone.
  std::vector<Call> Take();
  bool empty() const;
  // What waits in each lane; any thread.
  struct LaneFill {
    size_t places = 0;
    size_t bytes = 0;
  };
  std::array<LaneFill, 3> Fill() const;

  // Returns when Wake was called, `timeout_ms` has passed or, if `for_calls`, there is a call.
  void Wait(int64_t timeout_ms, bool for_calls);
  void Wake();

  // Refuses everything from now on, with `reason`.
  void Close(absl::Status reason);

 private:
  struct LaneState {
    std::deque<Call> calls;
    size_t places = 0;
    size_t bytes = 0;
    // It had calls, and the last group took none of them.
    bool passed_over = false;
  };
  struct Taken {
    std::vector<Call> calls;
    size_t operations = 0;
    size_t bytes = 0;
  };
  // Takes from a lane while the group stays within `operations` and `bytes`.
  void TakeFrom(LaneState* lane, size_t operations, size_t bytes, Taken* taken);

  const InboxLimits limits_;
  mutable Mutex mutex_;
  Condition changed_;
  std::array<LaneState, 3> lanes_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool waiting_for_calls_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_INBOX_H_
