// What a session has to say and has not said yet: gathers while a message is on its way and is
// packed into the next ones, in order. Used under the lock of its WorkerStream.
#ifndef STINT_SERVER_API_STREAM_OUTBOX_H_
#define STINT_SERVER_API_STREAM_OUTBOX_H_

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/command.h"
#include "stint/v1/worker_service.pb.h"

namespace stint::api {

class StreamOutbox {
 public:
  explicit StreamOutbox(size_t max_message_bytes) : max_message_bytes_(max_message_bytes) {}

  // Everything else waits for it.
  void SetWelcome(v1::Welcome welcome);
  void Add(v1::StreamAnswer answer);
  void Add(v1::HeartbeatResult verdict);
  void Add(v1::Drain drain);
  // `lease` of the same job, to give it back if it is never written.
  void Add(v1::PushedJob job, engine::JobRef ref);

  // The next message, with as much as fits and one item at least; nullopt: nothing to say yet.
  std::optional<v1::StreamJobsResponse> Pack();
  // Its bytes, about.
  size_t NextBytes() const;
  // Takes out the jobs that were not packed yet: settles that release them, and what they take
  // of the session's room.
  struct Unwritten {
    std::vector<engine::SettleItem> releases;
    int64_t credit_bytes = 0;
  };
  Unwritten TakeJobs();

  bool empty() const { return items_.empty(); }
  bool welcomed() const { return welcomed_; }
  size_t jobs() const { return jobs_; }
  size_t bytes() const { return bytes_; }

 private:
  struct Item {
    v1::StreamJobsResponse part;  // with exactly one thing in it
    size_t bytes = 0;
    engine::JobRef job;  // of a pushed job
  };
  v1::StreamJobsResponse* AddItem();
  void Weigh();

  size_t max_message_bytes_;
  std::deque<Item> items_;
  size_t bytes_ = 0;
  size_t jobs_ = 0;
  bool welcomed_ = false;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_STREAM_OUTBOX_H_
