#include "server/api/job_service.h"

#include <utility>

#include "server/api/convert.h"
#include "server/api/job_batch.h"
#include "server/api/job_listing.h"
#include "server/api/names.h"
#include "server/api/not_found.h"
#include "server/api/time_values.h"

namespace stint::api {
namespace {

struct FoundJob {
  v1::GetJobResponse response;
  storage::JobKey key;
};

absl::StatusOr<FoundJob> ReadJob(const storage::Reader& reader, const v1::GetJobRequest& request) {
  const engine::JobRef ref = ParseJobName(request.job()).value_or(engine::JobRef{});
  const v1::JobView view =
      request.view() == v1::JOB_VIEW_UNSPECIFIED ? v1::JOB_VIEW_FULL : request.view();
  auto queue = reader.FindQueue(ref.queue);
  if (!queue.ok()) return queue.status();
  if (!queue->has_value()) return JobNotFound(request.job());
  auto job = reader.FindJob(**queue, ref.job_id, view == v1::JOB_VIEW_FULL);
  if (!job.ok()) return job.status();
  if (!job->has_value()) return JobNotFound(request.job());
  FoundJob found;
  found.key = (*job)->key;
  *found.response.mutable_job() =
      ToJob(ref.queue, *std::move(*job), (*queue)->record.settings(), view);
  return found;
}

}  // namespace

void JobService::EnqueueJob(v1::EnqueueJobRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request, edge_->limits()); !status.ok()) {
    return exchange->Refuse(status);
  }
  engine::Command command = ToCommand(std::move(request), exchange->identity());
  edge_->Submit<engine::EnqueueReply>(
      std::move(exchange), std::move(command), [](engine::EnqueueReply&& reply, Exchange& to) {
        if (reply.jobs.size() != 1) {
          return to.Refuse(absl::InternalError("one job was added and another number answered"));
        }
        to.Reply(ToEnqueueResponse(reply.queue, reply.jobs.front()));
      });
}

void JobService::BatchEnqueueJobs(v1::BatchEnqueueJobsRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request, edge_->limits()); !status.ok()) {
    return exchange->Refuse(status);
  }
  engine::Command command = ToCommand(std::move(request), exchange->identity());
  edge_->Submit<engine::EnqueueReply>(
      std::move(exchange), std::move(command), [](engine::EnqueueReply&& reply, Exchange& to) {
        v1::BatchEnqueueJobsResponse response;
        for (const engine::EnqueuedJob& job : reply.jobs) {
          *response.add_results() = ToEnqueueResponse(reply.queue, job);
        }
        to.Reply(response);
      });
}

void JobService::GetJob(v1::GetJobRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  edge_->RunRead(exchange, [edge = edge_, exchange, request = std::move(request)](
                               const storage::Reader& reader, const PageTokens&) {
    auto found = ReadJob(reader, request);
    if (!found.ok()) return exchange->Refuse(found.status());
    const v1::Job& job = found->response.job();
    if (job.state() != v1::JOB_STATE_LEASED) return exchange->Reply(found->response);
    engine::Command command = engine::ProgressCommand{found->key, job.holder().token()};
    edge->Submit<engine::ProgressReply>(
        exchange, std::move(command),
        [response = std::move(found->response)](engine::ProgressReply&& reply,
                                                Exchange& to) mutable {
          if (reply.progress.has_value()) {
            response.mutable_job()->set_progress(*std::move(reply.progress));
          }
          to.Reply(response);
        });
  });
}

void JobService::ListJobs(v1::ListJobsRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  edge_->RunRead(exchange, [exchange, request = std::move(request),
                            max_bytes = edge_->limits().max_call_bytes](
                               const storage::Reader& reader, const PageTokens& tokens) {
    const auto response = ReadJobPage(reader, tokens, request, max_bytes);
    response.ok() ? exchange->Reply(*response) : exchange->Refuse(response.status());
  });
}

void JobService::WaitJob(v1::WaitJobRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  std::optional<int64_t> asked_ms;
  if (request.has_wait()) asked_ms = MillisOf(request.wait());
  engine::Command command = ToCommand(request, WaitMillis(asked_ms, *exchange));
  edge_->Submit<engine::JobReply>(
      std::move(exchange), std::move(command), [](engine::JobReply&& reply, Exchange& to) {
        v1::WaitJobResponse response;
        *response.mutable_job() = ToJob(std::move(reply.job), reply.settings, v1::JOB_VIEW_FULL);
        // A large payload is kept apart and not read for this; none is shown, whatever its size.
        response.mutable_job()->mutable_spec()->clear_payload();
        if (reply.progress.has_value()) {
          response.mutable_job()->set_progress(*std::move(reply.progress));
        }
        to.Reply(response);
      });
}

void JobService::CancelJob(v1::CancelJobRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  engine::Command command = ToCommand(request, exchange->identity());
  edge_->Submit<engine::StateReply>(std::move(exchange), std::move(command),
                                    [](engine::StateReply&& reply, Exchange& to) {
                                      v1::CancelJobResponse response;
                                      response.set_state(static_cast<v1::JobState>(reply.state));
                                      to.Reply(response);
                                    });
}

void JobService::RedriveJob(v1::RedriveJobRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  engine::Command command = ToCommand(request, exchange->identity());
  edge_->Submit<engine::StateReply>(std::move(exchange), std::move(command),
                                    [](engine::StateReply&& reply, Exchange& to) {
                                      v1::RedriveJobResponse response;
                                      response.set_state(static_cast<v1::JobState>(reply.state));
                                      to.Reply(response);
                                    });
}

void JobService::DeleteJob(v1::DeleteJobRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  engine::Command command = ToCommand(request, exchange->identity());
  edge_->Submit<engine::EmptyReply>(
      std::move(exchange), std::move(command),
      [](engine::EmptyReply&&, Exchange& to) { to.Reply(v1::DeleteJobResponse()); });
}

void JobService::UpdateJob(v1::UpdateJobRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  engine::Command command = ToCommand(request, exchange->identity());
  edge_->Submit<engine::JobReply>(
      std::move(exchange), std::move(command), [](engine::JobReply&& reply, Exchange& to) {
        v1::UpdateJobResponse response;
        *response.mutable_job() = ToJob(std::move(reply.job), reply.settings, v1::JOB_VIEW_BASIC);
        to.Reply(response);
      });
}

// A read finds the jobs, then the engine looks at each again and changes it.
template <typename Response, typename Request>
void JobService::ChangeJobs(const Request& request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  edge_->RunRead(exchange, [edge = edge_, exchange, batch = ToBatch(request, exchange->identity())](
                               const storage::Reader& reader, const PageTokens& tokens) {
    auto command = FindBatch(reader, tokens, batch);
    if (!command.ok()) return exchange->Refuse(command.status());
    edge->Submit<engine::BatchReply>(
        exchange, *std::move(command),
        [&tokens, filter_hash = FilterHash(batch)](engine::BatchReply&& reply, Exchange& to) {
          Response response;
          *response.mutable_result() = ToBatchResult(reply, tokens, filter_hash);
          to.Reply(response);
        });
  });
}

void JobService::BatchCancelJobs(v1::BatchCancelJobsRequest request, ExchangePtr exchange) {
  ChangeJobs<v1::BatchCancelJobsResponse>(request, std::move(exchange));
}

void JobService::BatchRedriveJobs(v1::BatchRedriveJobsRequest request, ExchangePtr exchange) {
  ChangeJobs<v1::BatchRedriveJobsResponse>(request, std::move(exchange));
}

void JobService::BatchDeleteJobs(v1::BatchDeleteJobsRequest request, ExchangePtr exchange) {
  ChangeJobs<v1::BatchDeleteJobsResponse>(request, std::move(exchange));
}

}  // namespace stint::api
