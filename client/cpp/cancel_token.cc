#include "client/cpp/cancel_token.h"

#include <utility>

namespace stint::client {

absl::string_view Describe(CancelReason reason) {
  switch (reason) {
    case CancelReason::kNone:
      return "not cancelled";
    case CancelReason::kCancelRequested:
      return "a cancel was asked for";
    case CancelReason::kLeaseLost:
      return "the lease is lost";
    case CancelReason::kRunLimit:
      return "the run limit is over";
    case CancelReason::kUnconfirmed:
      return "the lease could not be renewed for its whole duration";
    case CancelReason::kStopping:
      return "the worker stops";
  }
  return "unknown";
}

bool CancelToken::WaitFor(absl::Duration longest) const {
  const MutexLock lock(mutex_);
  return changed_.WaitFor(mutex_, absl::ToChronoNanoseconds(longest),
                          [this] { return cancelled(); });
}

std::shared_ptr<void> CancelToken::OnCancel(Notify notify) const {
  const MutexLock lock(mutex_);
  if (cancelled()) {
    notify(reason());
    return nullptr;
  }
  const auto entry = listeners_.insert(listeners_.end(), std::move(notify));
  return std::shared_ptr<void>(nullptr, [this, entry](void*) {
    const MutexLock unregister(mutex_);
    listeners_.erase(entry);
  });
}

void CancelToken::Cancel(CancelReason reason) {
  const MutexLock lock(mutex_);
  if (cancelled()) return;
  reason_.store(reason);
  for (const Notify& notify : listeners_) notify(reason);
  changed_.NotifyAll();
}

}  // namespace stint::client
