// Tells a handler that its work is not wanted any more, and why.
//
// How it is used: the worker runtime owns the token; a handler reads it, waits on it, or
// registers a function that ends what it waits for. A handler that never looks at it is not
// interrupted; its result is then refused or ignored by the broker.
//
// A lease that could not be renewed for its whole duration is *unconfirmed*: somebody else may
// be given the job. That alone cancels nothing (unless WorkerOptions says so), since the
// broker may have been away for everybody; a handler with costly side effects may look.
//
// Thread rule: any thread.
#ifndef STINT_CLIENT_CPP_CANCEL_TOKEN_H_
#define STINT_CLIENT_CPP_CANCEL_TOKEN_H_

#include <atomic>
#include <functional>
#include <list>
#include <memory>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "sync/mutex.h"

namespace stint::client {

enum class CancelReason {
  kNone,
  kCancelRequested,  // Somebody asked to cancel the job.
  kLeaseLost,        // The job belongs to somebody else, or is gone.
  kRunLimit,         // The attempt ran longer than its run limit.
  kUnconfirmed,      // No renewal for a whole lease, and the worker is set to stop then.
  kStopping,         // The worker stops and its grace is over.
};

// For people: `the lease is lost`.
absl::string_view Describe(CancelReason reason);

class CancelToken {
 public:
  CancelToken() = default;
  CancelToken(const CancelToken&) = delete;
  CancelToken& operator=(const CancelToken&) = delete;

  bool cancelled() const { return reason() != CancelReason::kNone; }
  CancelReason reason() const { return reason_.load(); }
  bool unconfirmed() const { return unconfirmed_.load(); }

  // Waits at most `longest`, by the machine's clock. True when cancelled.
  bool WaitFor(absl::Duration longest) const;

  // Calls `notify` once when the token is cancelled, at once if it is already, until the
  // returned handle is destroyed. `notify` must be quick, must not throw and must not use the
  // token; it runs on the thread that cancels. Destroying the handle waits for a call under
  // way.
  using Notify = std::function<void(CancelReason)>;
  [[nodiscard]] std::shared_ptr<void> OnCancel(Notify notify) const;

  // For the worker runtime. The first reason stays.
  void Cancel(CancelReason reason);
  void SetUnconfirmed(bool unconfirmed) { unconfirmed_.store(unconfirmed); }

 private:
  std::atomic<CancelReason> reason_{CancelReason::kNone};
  std::atomic<bool> unconfirmed_{false};
  mutable Mutex mutex_;
  mutable Condition changed_;
  mutable std::list<Notify> listeners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_CANCEL_TOKEN_H_
