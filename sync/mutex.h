// The mutex, lock and condition of this project: those of the standard library, with the
// annotations by which clang (-Wthread-safety, preset `clang`) checks at compile time that what a
// mutex guards is touched only under it.
//
//   Mutex mutex_;
//   Condition changed_;
//   std::deque<Call> calls_ ABSL_GUARDED_BY(mutex_);
//
//   const MutexLock lock(mutex_);
//   while (calls_.empty()) changed_.Wait(mutex_);
//
// A function that is called under the mutex says ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_), and so does
// a lambda.
//
// What it does not do: shared locks, timed locks, order of locks.
//
// Threads: any.
#ifndef STINT_SYNC_MUTEX_H_
#define STINT_SYNC_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace stint {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

// Holds a mutex for a scope, except between Unlock and Lock.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {
    if (held_) mutex_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() ABSL_UNLOCK_FUNCTION() {
    held_ = false;
    mutex_.Unlock();
  }
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mutex_.Lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// What threads wait for while they give the mutex up. A wait may end early and without a reason, so
// what is waited for is tested in a loop, or given to WaitFor.
class Condition {
 public:
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    changed_.wait(lock);
    lock.release();
  }
  // At most `longest`.
  void WaitFor(Mutex& mutex, std::chrono::nanoseconds longest)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    changed_.wait_for(lock, longest);
    lock.release();
  }
  // Until `holds`, at most `longest`; what `holds` then says.
  template <typename Predicate>
  bool WaitFor(Mutex& mutex, std::chrono::nanoseconds longest, Predicate holds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool held = changed_.wait_for(lock, longest, holds);
    lock.release();
    return held;
  }

 private:
  std::condition_variable changed_;
};

}  // namespace stint

#endif  // STINT_SYNC_MUTEX_H_
