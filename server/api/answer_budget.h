// Bytes of answers that have been given to gRPC and that their callers have not read yet.
// Callers that stop reading would otherwise make the broker hold as much as they can ask for.
//
// How it is used: Take before an answer is handed to gRPC; false: refuse the call instead. Give
// when gRPC is done with it. Small answers are always let through, so that settles, heartbeats
// and refusals never wait for somebody else's large ones. Thread-safe.
#ifndef STINT_SERVER_API_ANSWER_BUDGET_H_
#define STINT_SERVER_API_ANSWER_BUDGET_H_

#include <atomic>
#include <cstddef>

namespace stint::api {

class AnswerBudget {
 public:
  // Answers up to this size are not counted.
  static constexpr size_t kSmallBytes = 64 << 10;

  explicit AnswerBudget(size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  bool Take(size_t bytes) {
    if (bytes <= kSmallBytes) return true;
    if (held_bytes_.fetch_add(bytes) + bytes <= limit_bytes_) return true;
    held_bytes_.fetch_sub(bytes);
    return false;
  }
  void Give(size_t bytes) {
    if (bytes > kSmallBytes) held_bytes_.fetch_sub(bytes);
  }

 private:
  const size_t limit_bytes_;
  std::atomic<size_t> held_bytes_ = 0;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_ANSWER_BUDGET_H_
