// What comes in on a stream becomes commands, and what they come to becomes answers.
#include <utility>
#include <variant>

#include "server/api/convert.h"
#include "server/api/error_details.h"
#include "server/api/time_values.h"
#include "server/api/validate.h"
#include "server/api/worker_stream.h"

namespace stint::api {
namespace {

v1::StreamAnswer ErrorAnswer(int64_t id, const absl::Status& status) {
  v1::StreamAnswer answer;
  answer.set_id(id);
  *answer.mutable_error() = ToItemStatus(status);
  return answer;
}

}  // namespace

void WorkerStream::Enqueue(v1::StreamEnqueue enqueue) {
  const int64_t id = enqueue.id();
  if (absl::Status status = Validate(enqueue.request(), context_.edge->limits()); !status.ok()) {
    return outbox_.Add(ErrorAnswer(id, status));
  }
  const size_t bytes = enqueue.ByteSizeLong();
  Submit(ToCommand(std::move(*enqueue.mutable_request()), context_.identity), 1, bytes,
         [id](WorkerStream& self, engine::Outcome outcome)
             ABSL_EXCLUSIVE_LOCKS_REQUIRED(self.mutex_) {
               const auto* reply = std::get_if<engine::EnqueueReply>(&outcome.body);
               if (outcome.status.ok() && (reply == nullptr || reply->jobs.size() != 1)) {
                 outcome.status = UnexpectedAnswer();
               }
               if (!outcome.status.ok()) return self.outbox_.Add(ErrorAnswer(id, outcome.status));
               v1::StreamAnswer answer;
               answer.set_id(id);
               *answer.mutable_enqueue() = ToEnqueueResponse(reply->queue, reply->jobs.front());
               self.outbox_.Add(std::move(answer));
             });
}

void WorkerStream::Settle(v1::StreamJobsRequest* message) {
  engine::SettleCommand command;
  std::vector<int64_t> ids;
  size_t bytes = 0;
  for (v1::StreamSettle& settle : *message->mutable_settles()) {
    if (absl::Status status = Validate(settle.item(), context_.edge->limits()); !status.ok()) {
      outbox_.Add(ErrorAnswer(settle.id(), status));
      continue;
    }
    bytes += settle.ByteSizeLong();
    ids.push_back(settle.id());
    command.items.push_back(ToItem(std::move(*settle.mutable_item())));
  }
  if (ids.empty()) return;
  const size_t operations = ids.size();
  Submit(
      std::move(command), operations, bytes,
      [ids = std::move(ids)](WorkerStream& self, engine::Outcome outcome)
          ABSL_EXCLUSIVE_LOCKS_REQUIRED(self.mutex_) {
            const auto* reply = std::get_if<engine::SettleReply>(&outcome.body);
            if (outcome.status.ok() && (reply == nullptr || reply->results.size() != ids.size())) {
              outcome.status = UnexpectedAnswer();
            }
            for (size_t i = 0; i < ids.size(); ++i) {
              if (!outcome.status.ok()) {
                self.outbox_.Add(ErrorAnswer(ids[i], outcome.status));
                continue;
              }
              v1::StreamAnswer answer;
              answer.set_id(ids[i]);
              *answer.mutable_settle() = ToSettleResult(reply->results[i]);
              self.outbox_.Add(std::move(answer));
            }
          });
}

void WorkerStream::Heartbeat(const v1::StreamHeartbeat& heartbeat) {
  if (absl::Status status = Validate(heartbeat); !status.ok()) {
    return outbox_.Add(ErrorAnswer(heartbeat.id(), status));
  }
  Submit(ToCommand(heartbeat, hello_.worker(), session_), 1, heartbeat.ByteSizeLong(),
         [heartbeat](WorkerStream& self, engine::Outcome outcome)
             ABSL_EXCLUSIVE_LOCKS_REQUIRED(self.mutex_) {
               const auto* reply = std::get_if<engine::HeartbeatReply>(&outcome.body);
               if (outcome.status.ok() && reply == nullptr) {
                 outcome.status = UnexpectedAnswer();
               }
               if (!outcome.status.ok()) {
                 return self.outbox_.Add(ErrorAnswer(heartbeat.id(), outcome.status));
               }
               v1::StreamAnswer answer;
               answer.set_id(heartbeat.id());
               v1::HeartbeatResponse* response = answer.mutable_heartbeat();
               ToResults(heartbeat.leases(), *reply, response->mutable_results());
               response->set_draining(reply->draining || self.draining_);
               *response->mutable_next_interval() = DurationOfMillis(reply->next_interval_ms);
               self.outbox_.Add(std::move(answer));
             });
}

void WorkerStream::Submit(engine::Command command, size_t operations, size_t bytes, Answer answer) {
  if (operations_ == 0) context_.calls->Begin();
  operations_ += operations;
  bytes_ += bytes;
  runtime::Call call;
  call.command = std::move(command);
  call.bytes = bytes;
  call.done = [self = shared_from_this(), operations, bytes, answer](engine::Outcome outcome) {
    const MutexLock lock(self->mutex_);
    self->Answered(operations, bytes, answer, std::move(outcome));
    self->MayRead();
    self->MayWrite();
    self->MayFinish();
  };
  absl::Status status = context_.edge->Submit(std::move(call));
  if (!status.ok()) Answered(operations, bytes, answer, {std::move(status), {}});
}

void WorkerStream::Answered(size_t operations, size_t bytes, const Answer& answer,
                            engine::Outcome outcome) {
  operations_ -= operations;
  bytes_ -= bytes;
  answer(*this, std::move(outcome));
  if (operations_ == 0) context_.calls->End();
}

}  // namespace stint::api
