#include "server/api/admin_service.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/api/fingerprint.h"
#include "server/api/names.h"
#include "server/api/time_values.h"
#include "server/api/validate.h"
#include "server/engine/error.h"

namespace stint::api {
namespace {

using WorkersById = std::map<std::string, v1::Worker>;

// All workers there are, whatever tells of them.
WorkersById AllWorkers(Edge* edge, const engine::WorkerLeasesReply& leases) {
  WorkersById workers;
  const int64_t now_ms = edge->clock()->BootMs();
  const auto silence_of = [now_ms](int64_t heard_ms) {
    return DurationOfMillis(std::max<int64_t>(0, now_ms - heard_ms));
  };
  for (const runtime::KnownWorker& known : edge->workers()->List()) {
    v1::Worker& worker = workers[known.worker];
    *worker.mutable_queues() = {known.queues.begin(), known.queues.end()};
    *worker.mutable_start_time() = TimestampOfMillis(known.start_wall_ms);
    *worker.mutable_silence() = silence_of(known.last_heard_ms);
  }
  for (const runtime::Sessions::Listed& session : edge->sessions()->List()) {
    v1::Worker& worker = workers[session.info.worker];
    worker.set_streams(worker.streams() + 1);
    worker.set_version(session.info.version);
    *worker.mutable_kinds() = {session.info.kinds.begin(), session.info.kinds.end()};
    *worker.mutable_queues() = {session.info.queues.begin(), session.info.queues.end()};
    *worker.mutable_start_time() = TimestampOfMillis(session.info.start_wall_ms);
    *worker.mutable_silence() = silence_of(session.last_heard_ms);
  }
  for (const auto& [worker, count] : leases.leases) workers[worker].set_leases(count);
  for (auto& [id, worker] : workers) {
    worker.set_name(WorkerName(id));
    worker.set_draining(edge->workers()->IsDrained(id));
  }
  return workers;
}

absl::StatusOr<v1::ListWorkersResponse> ListPage(Edge* edge, const v1::ListWorkersRequest& request,
                                                 WorkersById workers) {
  v1::ListWorkersRequest filter;
  filter.set_prefix(request.prefix());
  const uint64_t filter_hash = Fingerprint("ListWorkers", filter);
  std::string after;
  if (!request.page_token().empty()) {
    auto position = edge->page_tokens().Open(filter_hash, request.page_token());
    if (!position.ok()) return position.status();
    after = *std::move(position);
  }
  const int asked = request.page_size() == 0 ? engine::kDefaultPageSize : request.page_size();
  const int most = std::min(asked, engine::kMaxPageSize);
  // Each may name thousands of queues; one always fits.
  const size_t most_bytes = edge->limits().max_call_bytes - kPageOverheadBytes;
  v1::ListWorkersResponse response;
  size_t bytes = 0;
  std::string last;
  for (auto it = workers.upper_bound(after); it != workers.end(); ++it) {
    if (!absl::StartsWith(it->first, request.prefix())) continue;
    bytes += it->second.ByteSizeLong() + kItemOverheadBytes;
    if (response.workers_size() == most || (bytes > most_bytes && response.workers_size() > 0)) {
      response.set_next_page_token(edge->page_tokens().Seal(filter_hash, last));
      break;
    }
    last = it->first;
    *response.add_workers() = std::move(it->second);
  }
  return response;
}

}  // namespace

void AdminService::GetServerInfo(v1::GetServerInfoRequest, ExchangePtr exchange) {
  edge_->Submit<engine::ServerInfoReply>(
      std::move(exchange), engine::ServerInfoCommand{},
      [edge = edge_](engine::ServerInfoReply&& reply, Exchange& to) {
        const ServerFacts& facts = edge->facts();
        v1::GetServerInfoResponse response;
        response.set_version(facts.version);
        response.set_format(facts.format);
        response.set_store(facts.store);
        *response.mutable_start_time() = TimestampOfMillis(facts.start_wall_ms);
        *response.mutable_current_time() = TimestampOfMillis(reply.wall_ms);
        response.set_broker_time_ms(reply.broker_ms);
        response.set_draining(reply.draining);
        response.set_low_space(reply.low_space);
        response.set_max_payload_bytes(static_cast<int64_t>(edge->limits().max_payload_bytes));
        response.set_max_call_bytes(static_cast<int64_t>(edge->limits().max_call_bytes));
        *response.mutable_request_window() = DurationOfMillis(reply.request_window_ms);
        response.set_queues(reply.queues);
        response.set_leases(reply.leases);
        response.set_parked_calls(reply.parked_calls);
        response.set_synced_group(static_cast<int64_t>(reply.synced_group));
        to.Reply(response);
      });
}

void AdminService::DrainServer(v1::DrainServerRequest, ExchangePtr exchange) {
  exchange->Reply(v1::DrainServerResponse());
  edge_->BeginDrain();
}

void AdminService::ListWorkers(v1::ListWorkersRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  edge_->Submit<engine::WorkerLeasesReply>(
      std::move(exchange), engine::WorkerLeasesCommand{},
      [edge = edge_, request = std::move(request)](engine::WorkerLeasesReply&& reply,
                                                   Exchange& to) {
        const auto response = ListPage(edge, request, AllWorkers(edge, reply));
        response.ok() ? to.Reply(*response) : to.Refuse(response.status());
      });
}

void AdminService::DrainWorker(v1::DrainWorkerRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  edge_->Submit<engine::WorkerLeasesReply>(
      std::move(exchange), engine::WorkerLeasesCommand{},
      [edge = edge_, request = std::move(request)](engine::WorkerLeasesReply&& reply,
                                                   Exchange& to) {
        std::set<std::string> targets;
        for (const auto& [id, worker] : AllWorkers(edge, reply)) {
          const bool meant =
              request.has_worker() ? id == request.worker() : worker.version() == request.version();
          if (meant) targets.insert(id);
        }
        if (targets.empty()) {
          engine::ErrorDetails details;
          details.reason = engine::Reason::kWorkerNotFound;
          details.resource_type = "worker";
          details.resource_name =
              request.has_worker() ? WorkerName(request.worker()) : request.version();
          const std::string what =
              request.has_worker()
                  ? absl::StrCat("no worker ", request.worker(), " is there now")
                  : absl::StrCat("no worker says that it runs version ", request.version());
          return to.Refuse(engine::MakeError(std::move(details), what));
        }
        for (const std::string& target : targets) edge->workers()->Drain(target);
        edge->sessions()->DrainWorkers([&targets](const runtime::SessionInfo& info) {
          return targets.count(info.worker) > 0;
        });
        v1::DrainWorkerResponse response;
        response.set_workers(static_cast<int32_t>(targets.size()));
        to.Reply(response);
      });
}

}  // namespace stint::api
