// A few threads for reads that may touch the disk, so that neither gRPC's threads nor the
// thread of decisions waits for them. Bounded: when too many reads wait, a further one is
// refused with OVERLOADED.
//
// Thread rule: Run from any thread.
#ifndef STINT_SERVER_API_READ_POOL_H_
#define STINT_SERVER_API_READ_POOL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "sync/mutex.h"

namespace stint::api {

class ReadPool {
 public:
  ReadPool(size_t threads, size_t max_waiting);
  // Waits for the reads under way; those still waiting are dropped unread.
  ~ReadPool();
  ReadPool(const ReadPool&) = delete;
  ReadPool& operator=(const ReadPool&) = delete;

  absl::Status Run(std::function<void()> read);

 private:
  void Work();

  const size_t max_waiting_;
  Mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_READ_POOL_H_
