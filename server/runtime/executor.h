// Where work runs that may block: making groups durable and giving out their answers. One
// piece after the other, in the order posted.
#ifndef STINT_SERVER_RUNTIME_EXECUTOR_H_
#define STINT_SERVER_RUNTIME_EXECUTOR_H_

#include <functional>
#include <memory>

namespace stint::runtime {

class Executor {
 public:
  virtual ~Executor() = default;
  // Any thread; never blocks. At most one piece is posted by the loop at a time.
  virtual void Post(std::function<void()> work) = 0;

 protected:
  Executor() = default;
  Executor(const Executor&) = default;
  Executor& operator=(const Executor&) = default;
};

// A thread of its own. Destruction finishes what was posted.
std::unique_ptr<Executor> MakeThreadExecutor();

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_EXECUTOR_H_
