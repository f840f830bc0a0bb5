#include "server/ops/health.h"

#include "absl/strings/str_cat.h"

namespace stint::ops {

Health::Answer Health::Alive() const {
  if (phase() == Phase::kFailed) return {false, "the store failed; see the log"};
  const MutexLock lock(mutex_);
  const int64_t stuck_ms = stuck_ms_ ? stuck_ms_() : 0;
  if (stuck_ms >= kStuckMs) {
    return {false, absl::StrCat("no progress for ", stuck_ms / 1000,
                                " s: the disk does not answer, or the process hangs")};
  }
  return {true, "alive"};
}

Health::Answer Health::Ready() const {
  switch (phase()) {
    case Phase::kStarting:
      return {false, "starting"};
    case Phase::kServing:
      return {true, "ready"};
    case Phase::kDraining:
      return {false, "draining"};
    case Phase::kFailed:
      break;
  }
  return {false, "the store failed; see the log"};
}

}  // namespace stint::ops
