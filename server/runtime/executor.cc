#include "server/runtime/executor.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace stint::runtime {
namespace {

class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor() : thread_([this] { Run(); }) {}
  ~ThreadExecutor() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;

  void Post(std::function<void()> work) override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      posted_.push_back(std::move(work));
    }
    changed_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !posted_.empty(); });
      if (posted_.empty()) return;
      const std::function<void()> work = std::move(posted_.front());
      posted_.pop_front();
      lock.unlock();
      work();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> posted_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Executor> MakeThreadExecutor() { return std::make_unique<ThreadExecutor>(); }

}  // namespace stint::runtime
