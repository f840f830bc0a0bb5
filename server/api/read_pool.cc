#include "server/api/read_pool.h"

#include <utility>

#include "server/engine/error.h"

namespace stint::api {

ReadPool::ReadPool(size_t threads, size_t max_waiting) : max_waiting_(max_waiting) {
  threads_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

ReadPool::~ReadPool() {
  std::deque<std::function<void()>> dropped;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status ReadPool::Run(std::function<void()> read) {
  {
    const MutexLock lock(mutex_);
    if (waiting_.size() >= max_waiting_) {
      return engine::MakeError(engine::Reason::kOverloaded,
                               "too many reads are waiting; try again");
    }
    waiting_.push_back(std::move(read));
  }
  changed_.NotifyOne();
  return absl::OkStatus();
}

void ReadPool::Work() {
  MutexLock lock(mutex_);
  while (true) {
    while (!stopping_ && waiting_.empty()) changed_.Wait(mutex_);
    if (stopping_) return;
    std::function<void()> read = std::move(waiting_.front());
    waiting_.pop_front();
    lock.Unlock();
    read();
    read = nullptr;  // what it holds goes without the lock
    lock.Lock();
  }
}

}  // namespace stint::api
