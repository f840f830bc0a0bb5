// Finds the jobs that a batch call is about, for the engine to look at again and change.
// Thread-safe: functions without state; FindBatch runs on the read pool.
#ifndef STINT_SERVER_API_JOB_BATCH_H_
#define STINT_SERVER_API_JOB_BATCH_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "server/api/page_token.h"
#include "server/engine/command.h"
#include "server/engine/outcome.h"
#include "stint/v1/job_service.pb.h"
#include "storage/reader.h"

namespace stint::api {

// One of the three batch requests as the engine's operation and the fields they share.
struct BatchRequest {
  engine::BatchCommand::Operation operation;
  std::string queue;
  v1::JobFilter filter;  // with its states, also when the request leaves them out
  int limit;
  std::string page_token;
  bool dry_run;
  bool force;
  engine::RequestKey request;
};

// Takes checked requests (validate.h).
BatchRequest ToBatch(const v1::BatchCancelJobsRequest& request, const std::string& identity);
BatchRequest ToBatch(const v1::BatchRedriveJobsRequest& request, const std::string& identity);
BatchRequest ToBatch(const v1::BatchDeleteJobsRequest& request, const std::string& identity);

// What tokens of a run are tied to: everything that decides what it does to which jobs.
uint64_t FilterHash(const BatchRequest& batch);

// The step of the run that the request asks for. What stands against it (a bad token, an
// unknown queue) is in the command, since a repeated call gets its first answer all the same.
// An error: the store cannot be read.
absl::StatusOr<engine::BatchCommand> FindBatch(const storage::Reader& reader,
                                               const PageTokens& tokens, BatchRequest batch);

v1::BatchResult ToBatchResult(const engine::BatchReply& reply, const PageTokens& tokens,
                              uint64_t filter_hash);

}  // namespace stint::api

#endif  // STINT_SERVER_API_JOB_BATCH_H_
