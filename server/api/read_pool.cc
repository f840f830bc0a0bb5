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
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    dropped.swap(waiting_);
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status ReadPool::Run(std::function<void()> read) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.size() >= max_waiting_) {
      return engine::MakeError(engine::Reason::kOverloaded,
                               "too many reads are waiting; try again");
    }
    waiting_.push_back(std::move(read));
  }
  changed_.notify_one();
  return absl::OkStatus();
}

void ReadPool::Work() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    std::function<void()> read = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    read();
    read = nullptr;  // what it holds goes without the lock
    lock.lock();
  }
}

}  // namespace stint::api
