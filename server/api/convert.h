// Between the API's messages and the engine's plain values, in both directions. Takes only
// checked requests (validate.h) and moves payloads, it does not copy them. Thread-safe:
// functions without state.
#ifndef STINT_SERVER_API_CONVERT_H_
#define STINT_SERVER_API_CONVERT_H_

#include <string>

#include "server/engine/command.h"
#include "server/engine/outcome.h"
#include "stint/v1/job_service.pb.h"
#include "stint/v1/queue_service.pb.h"
#include "stint/v1/worker_service.pb.h"
#include "storage/reader.h"

namespace stint::api {

// Requests. `identity` is the caller's credential, "" on an open broker; `wait_ms` is how
// long the call may really wait.
engine::EnqueueCommand ToCommand(v1::EnqueueJobRequest&& request, const std::string& identity);
engine::EnqueueCommand ToCommand(v1::BatchEnqueueJobsRequest&& request,
                                 const std::string& identity);
engine::WaitJobCommand ToCommand(const v1::WaitJobRequest& request, int64_t wait_ms);
engine::CancelCommand ToCommand(const v1::CancelJobRequest& request, const std::string& identity);
engine::RedriveCommand ToCommand(const v1::RedriveJobRequest& request, const std::string& identity);
engine::DeleteJobCommand ToCommand(const v1::DeleteJobRequest& request,
                                   const std::string& identity);
engine::UpdateJobCommand ToCommand(const v1::UpdateJobRequest& request,
                                   const std::string& identity);

engine::LeaseCommand ToCommand(v1::LeaseJobsRequest&& request, int64_t wait_ms);
engine::HeartbeatCommand ToCommand(const v1::HeartbeatRequest& request);
engine::HeartbeatCommand ToCommand(const v1::StreamHeartbeat& heartbeat, const std::string& worker,
                                   uint64_t session);
engine::SettleItem ToItem(v1::CompleteJobRequest&& request);
engine::SettleItem ToItem(v1::FailJobRequest&& request);
engine::SettleItem ToItem(v1::ReleaseJobRequest&& request);
engine::SettleItem ToItem(v1::SettleItem&& item);

engine::CreateQueueCommand ToCommand(const v1::CreateQueueRequest& request,
                                     const std::string& identity);
engine::UpdateQueueCommand ToCommand(const v1::UpdateQueueRequest& request,
                                     const std::string& identity);
engine::DeleteQueueCommand ToCommand(const v1::DeleteQueueRequest& request,
                                     const std::string& identity);
engine::PauseQueueCommand ToCommand(const v1::PauseQueueRequest& request,
                                    const std::string& identity);
engine::PauseQueueCommand ToCommand(const v1::ResumeQueueRequest& request,
                                    const std::string& identity);
engine::PurgeQueueCommand ToCommand(const v1::PurgeQueueRequest& request,
                                    const std::string& identity);

// Releases granted jobs as if they had never been granted: it spends nothing and keeps their
// places. One item for each lease, in order.
engine::SettleCommand ToUndo(const engine::LeaseReply& reply);

// Answers.
v1::EnqueueJobResponse ToEnqueueResponse(const std::string& queue, const engine::EnqueuedJob& job);
// `reply` has one status for each of `items`.
void ToResults(const google::protobuf::RepeatedPtrField<v1::HeartbeatItem>& items,
               const engine::HeartbeatReply& reply,
               google::protobuf::RepeatedPtrField<v1::HeartbeatResult>* results);
v1::SettleResult ToSettleResult(const engine::SettleResult& settled);
v1::Job ToJob(engine::JobSnapshot&& job, const record::QueueSettings& settings, v1::JobView view);
v1::Job ToJob(const std::string& queue, storage::StoredJob&& job,
              const record::QueueSettings& settings, v1::JobView view);
v1::Lease ToLease(engine::GrantedLease&& lease);
v1::Queue ToQueue(const record::QueueRecord& queue);
v1::QueueStats ToStats(const record::QueueCounters& counters);
// Of an accepted settle.
v1::CompleteJobResponse ToCompleteResponse(const engine::SettleResult& result);
v1::FailJobResponse ToFailResponse(const engine::SettleResult& result);
v1::ReleaseJobResponse ToReleaseResponse(const engine::SettleResult& result);

}  // namespace stint::api

#endif  // STINT_SERVER_API_CONVERT_H_
