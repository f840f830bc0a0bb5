#include "server/api/worker_service.h"

#include <utility>
#include <vector>

#include "server/api/convert.h"
#include "server/api/error_details.h"
#include "server/api/time_values.h"
#include "server/engine/error.h"

namespace stint::api {
namespace {

absl::Status WorkerDrained() {
  return engine::MakeError(engine::Reason::kWorkerDrained,
                           "an operator asked this worker to leave: it gets no more jobs; finish "
                           "what it holds and end it");
}

}  // namespace

void WorkerService::LeaseJobs(v1::LeaseJobsRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  if (!request.worker().empty()) {
    if (edge_->workers()->IsDrained(request.worker())) return exchange->Refuse(WorkerDrained());
    edge_->workers()->AskedForJobs(request.worker(),
                                   {request.queues().begin(), request.queues().end()});
  }
  std::optional<int64_t> asked_ms;
  if (request.has_wait()) asked_ms = MillisOf(request.wait());
  engine::Command command = ToCommand(std::move(request), WaitMillis(asked_ms, *exchange));
  edge_->Submit<engine::LeaseReply>(
      std::move(exchange), std::move(command),
      [edge = edge_](engine::LeaseReply&& reply, Exchange& to) {
        if (to.gone()) {
          if (!reply.leases.empty()) edge->SubmitUnattended(ToUndo(reply));
          return to.Refuse(absl::CancelledError("the caller has gone; its jobs were released"));
        }
        engine::Command undo = ToUndo(reply);
        v1::LeaseJobsResponse response;
        for (engine::GrantedLease& lease : reply.leases) {
          *response.add_leases() = ToLease(std::move(lease));
        }
        if (!to.TryReply(response)) edge->SubmitUnattended(std::move(undo));
      });
}

void WorkerService::Heartbeat(v1::HeartbeatRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  edge_->workers()->Heard(request.worker());
  const bool drained = edge_->workers()->IsDrained(request.worker());
  engine::Command command = ToCommand(request);
  edge_->Submit<engine::HeartbeatReply>(
      std::move(exchange), std::move(command),
      [drained, request = std::move(request)](engine::HeartbeatReply&& reply, Exchange& to) {
        if (reply.statuses.size() != static_cast<size_t>(request.leases_size())) {
          return to.Refuse(absl::InternalError("heartbeats and answers differ in number"));
        }
        v1::HeartbeatResponse response;
        ToResults(request.leases(), reply, response.mutable_results());
        response.set_draining(reply.draining || drained);
        *response.mutable_next_interval() = DurationOfMillis(reply.next_interval_ms);
        to.Reply(response);
      });
}

template <typename Finish>
void WorkerService::SettleOne(engine::SettleItem item, ExchangePtr exchange, Finish finish) {
  engine::SettleCommand command;
  command.items.push_back(std::move(item));
  edge_->Submit<engine::SettleReply>(
      std::move(exchange), std::move(command),
      [finish = std::move(finish)](engine::SettleReply&& reply, Exchange& to) {
        if (reply.results.size() != 1) {
          return to.Refuse(absl::InternalError("settles and answers differ in number"));
        }
        const engine::SettleResult& result = reply.results.front();
        if (!result.status.ok()) return to.Refuse(result.status);
        finish(result, to);
      });
}

void WorkerService::CompleteJob(v1::CompleteJobRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request, edge_->limits()); !status.ok()) {
    return exchange->Refuse(status);
  }
  SettleOne(ToItem(std::move(request)), std::move(exchange),
            [](const engine::SettleResult& result, Exchange& to) {
              to.Reply(ToCompleteResponse(result));
            });
}

void WorkerService::FailJob(v1::FailJobRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  SettleOne(
      ToItem(std::move(request)), std::move(exchange),
      [](const engine::SettleResult& result, Exchange& to) { to.Reply(ToFailResponse(result)); });
}

void WorkerService::ReleaseJob(v1::ReleaseJobRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  SettleOne(ToItem(std::move(request)), std::move(exchange),
            [](const engine::SettleResult& result, Exchange& to) {
              to.Reply(ToReleaseResponse(result));
            });
}

void WorkerService::SettleJobs(v1::SettleJobsRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  // Items with a malformed field are refused here, alone; the engine sees the others.
  v1::SettleJobsResponse response;
  engine::SettleCommand command;
  std::vector<int> places;  // in the answer, of the items the engine sees
  for (v1::SettleItem& item : *request.mutable_items()) {
    v1::SettleResult* result = response.add_results();
    if (absl::Status status = Validate(item, edge_->limits()); !status.ok()) {
      *result->mutable_error() = ToItemStatus(status);
      continue;
    }
    places.push_back(response.results_size() - 1);
    command.items.push_back(ToItem(std::move(item)));
  }
  if (command.items.empty()) return exchange->Reply(response);
  edge_->Submit<engine::SettleReply>(
      std::move(exchange), std::move(command),
      [response = std::move(response), places = std::move(places)](engine::SettleReply&& reply,
                                                                   Exchange& to) mutable {
        if (reply.results.size() != places.size()) {
          return to.Refuse(absl::InternalError("settles and answers differ in number"));
        }
        for (size_t i = 0; i < places.size(); ++i) {
          *response.mutable_results(places[i]) = ToSettleResult(reply.results[i]);
        }
        to.Reply(response);
      });
}

}  // namespace stint::api
