#include "server/api/job_batch.h"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/api/fingerprint.h"
#include "server/api/job_filter.h"
#include "server/api/not_found.h"
#include "server/api/violations.h"
#include "server/engine/limits.h"

namespace stint::api {
namespace {

using Operation = engine::BatchCommand::Operation;

// Where a run goes on: what a token holds.
struct Position {
  uint32_t queue_id = 0;
  uint64_t bound = 0;
  uint64_t sequence = 0;
};

std::string ToText(const Position& at) {
  return absl::StrCat(at.queue_id, ":", at.bound, ":", at.sequence);
}

absl::StatusOr<Position> OpenPosition(const PageTokens& tokens, uint64_t filter_hash,
                                      const std::string& token) {
  const auto text = tokens.Open(filter_hash, token);
  if (!text.ok()) return text.status();
  Position at;
  const std::vector<std::string> parts = absl::StrSplit(*text, ':');
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &at.queue_id) ||
      !absl::SimpleAtoi(parts[1], &at.bound) || !absl::SimpleAtoi(parts[2], &at.sequence)) {
    Violations violations;
    violations.Add("page_token", "is not a page token of a batch call");
    return violations.ToStatus();
  }
  return at;
}

template <typename Request>
BatchRequest Convert(absl::string_view method, Operation operation, const Request& request,
                     std::initializer_list<v1::JobState> default_states,
                     const std::string& identity) {
  BatchRequest batch;
  batch.operation = operation;
  batch.queue = request.queue();
  batch.filter = request.filter();
  if (batch.filter.states().empty()) {
    for (const v1::JobState state : default_states) batch.filter.add_states(state);
  }
  const int asked = request.limit() == 0 ? engine::kMaxBatchChanges : request.limit();
  batch.limit = std::min(asked, engine::kMaxBatchChanges);
  batch.page_token = request.page_token();
  batch.dry_run = request.dry_run();
  batch.force = false;
  batch.request.identity = identity;
  batch.request.request_id = request.request_id();
  if (!request.request_id().empty()) batch.request.fingerprint = Fingerprint(method, request);
  return batch;
}

}  // namespace

BatchRequest ToBatch(const v1::BatchCancelJobsRequest& request, const std::string& identity) {
  return Convert(
      "BatchCancelJobs", Operation::kCancel, request,
      {v1::JOB_STATE_DELAYED, v1::JOB_STATE_HELD, v1::JOB_STATE_READY, v1::JOB_STATE_LEASED},
      identity);
}

BatchRequest ToBatch(const v1::BatchRedriveJobsRequest& request, const std::string& identity) {
  return Convert("BatchRedriveJobs", Operation::kRedrive, request, {v1::JOB_STATE_DEAD}, identity);
}

BatchRequest ToBatch(const v1::BatchDeleteJobsRequest& request, const std::string& identity) {
  BatchRequest batch =
      Convert("BatchDeleteJobs", Operation::kDelete, request,
              {v1::JOB_STATE_COMPLETED, v1::JOB_STATE_CANCELLED, v1::JOB_STATE_DEAD}, identity);
  batch.force = request.force();
  return batch;
}

uint64_t FilterHash(const BatchRequest& batch) {
  return Fingerprint(absl::StrCat("batch/", static_cast<int>(batch.operation), "/", batch.dry_run,
                                  "/", batch.force, "/", batch.queue),
                     batch.filter);
}

absl::StatusOr<engine::BatchCommand> FindBatch(const storage::Reader& reader,
                                               const PageTokens& tokens, BatchRequest batch) {
  engine::BatchCommand command;
  command.queue = batch.queue;
  command.operation = batch.operation;
  command.force = batch.force;
  command.dry_run = batch.dry_run;
  command.request = std::move(batch.request);

  Position at;
  if (!batch.page_token.empty()) {
    const auto opened = OpenPosition(tokens, FilterHash(batch), batch.page_token);
    if (!opened.ok()) {
      command.refusal = opened.status();
      return command;
    }
    at = *opened;
  } else {
    // Before anything else is read: what changes meanwhile is passed over, not missed.
    const auto bound = reader.LastChange();
    if (!bound.ok()) return bound.status();
    at.bound = *bound;
  }
  auto queue = reader.FindQueue(batch.queue);
  if (!queue.ok()) return queue.status();
  if (!queue->has_value() || (at.queue_id != 0 && at.queue_id != (*queue)->id)) {
    command.refusal = QueueNotFound(batch.queue);
    return command;
  }
  const auto page =
      reader.ListJobs(**queue, at.sequence, static_cast<size_t>(batch.limit),
                      engine::kMaxRowsExaminedPerPage, false, [&](const storage::StoredJob& job) {
                        return job.key.sequence <= at.bound && Matches(batch.filter, job);
                      });
  if (!page.ok()) return page.status();
  command.queue_id = (*queue)->id;
  command.bound = at.bound;
  // Jobs enqueued after the run began are at the end and concern it no more.
  if (page->next_sequence <= at.bound) command.next_sequence = page->next_sequence;
  for (const storage::StoredJob& job : page->jobs) command.sequences.push_back(job.key.sequence);
  return command;
}

v1::BatchResult ToBatchResult(const engine::BatchReply& reply, const PageTokens& tokens,
                              uint64_t filter_hash) {
  v1::BatchResult result;
  result.set_matched(reply.changed + reply.moved + reply.cancelling);
  result.set_changed(reply.changed);
  result.set_skipped_moved(reply.moved);
  result.set_skipped_cancelling(reply.cancelling);
  if (reply.next_sequence != 0) {
    result.set_next_page_token(
        tokens.Seal(filter_hash, ToText({reply.queue_id, reply.bound, reply.next_sequence})));
  }
  return result;
}

}  // namespace stint::api
