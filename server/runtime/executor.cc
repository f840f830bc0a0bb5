#include "server/runtime/executor.h"

#include <deque>
#include <thread>
#include <utility>

#include "sync/mutex.h"

namespace stint::runtime {
namespace {

class ThreadExecutor final : public Executor {
 public:
  ThreadExecutor() : thread_([this] { Run(); }) {}
  ~ThreadExecutor() override {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    changed_.NotifyOne();
    thread_.join();
  }
  ThreadExecutor(const ThreadExecutor&) = delete;
  ThreadExecutor& operator=(const ThreadExecutor&) = delete;

  void Post(std::function<void()> work) override {
    {
      const MutexLock lock(mutex_);
      posted_.push_back(std::move(work));
    }
    changed_.NotifyOne();
  }

 private:
  void Run() {
    MutexLock lock(mutex_);
    while (true) {
      while (!stopping_ && posted_.empty()) changed_.Wait(mutex_);
      if (posted_.empty()) return;
      const std::function<void()> work = std::move(posted_.front());
      posted_.pop_front();
      lock.Unlock();
      work();
      lock.Lock();
    }
  }

  Mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> posted_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Executor> MakeThreadExecutor() { return std::make_unique<ThreadExecutor>(); }

}  // namespace stint::runtime
