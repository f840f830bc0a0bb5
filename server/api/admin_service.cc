#include "server/api/admin_service.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/api/fingerprint.h"
#include "server/api/names.h"
#include "server/api/time_values.h"
#include "server/api/validate.h"
#include "server/engine/error.h"

namespace stint::api {
namespace {

// What tells of one worker. Light, since there can be tens of thousands and a page shows few.
struct Traces {
  const runtime::KnownWorker* known = nullptr;         // by its calls
  const runtime::Sessions::Listed* session = nullptr;  // one of its streams
  int32_t streams = 0;
  int64_t leases = 0;
};

// All workers there are.
class AllWorkers {
 public:
  AllWorkers(Edge* edge, const engine::WorkerLeasesReply& leases)
      : edge_(edge),
        now_ms_(edge->clock()->BootMs()),
        known_(edge->workers()->List()),
        sessions_(edge->sessions()->List()) {
    for (const runtime::KnownWorker& known : known_) by_id_[known.worker].known = &known;
    for (const runtime::Sessions::Listed& session : sessions_) {
      Traces& traces = by_id_[session.info->worker];
      traces.session = &session;
      ++traces.streams;
    }
    for (const auto& [worker, count] : leases.leases) by_id_[worker].leases = count;
  }
  AllWorkers(const AllWorkers&) = delete;
  AllWorkers& operator=(const AllWorkers&) = delete;

  const std::map<std::string, Traces>& by_id() const { return by_id_; }

  v1::Worker Describe(const std::string& id, const Traces& traces) const {
    v1::Worker worker;
    worker.set_name(WorkerName(id));
    if (traces.session != nullptr) {
      const runtime::SessionInfo& info = *traces.session->info;
      worker.set_version(info.version);
      *worker.mutable_kinds() = {info.kinds.begin(), info.kinds.end()};
      *worker.mutable_queues() = {info.queues.begin(), info.queues.end()};
      *worker.mutable_start_time() = TimestampOfMillis(info.start_wall_ms);
      *worker.mutable_silence() = SilenceSince(traces.session->last_heard_ms);
    } else if (traces.known != nullptr) {
      const runtime::KnownWorker& known = *traces.known;
      *worker.mutable_queues() = {known.queues->begin(), known.queues->end()};
      *worker.mutable_start_time() = TimestampOfMillis(known.start_wall_ms);
      *worker.mutable_silence() = SilenceSince(known.last_heard_ms);
    }
    worker.set_streams(traces.streams);
    worker.set_leases(traces.leases);
    worker.set_draining(edge_->workers()->IsDrained(id));
    return worker;
  }

 private:
  google::protobuf::Duration SilenceSince(int64_t heard_ms) const {
    return DurationOfMillis(std::max<int64_t>(0, now_ms_ - heard_ms));
  }

  Edge* const edge_;
  const int64_t now_ms_;
  const std::vector<runtime::KnownWorker> known_;
  const std::vector<runtime::Sessions::Listed> sessions_;
  std::map<std::string, Traces> by_id_;
};

absl::StatusOr<v1::ListWorkersResponse> ListPage(Edge* edge, const v1::ListWorkersRequest& request,
                                                 const AllWorkers& workers) {
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
  const size_t most_bytes = edge->limits().max_call_bytes - kPageOverheadBytes;
  v1::ListWorkersResponse response;
  size_t bytes = 0;
  std::string last;
  for (auto it = workers.by_id().upper_bound(after); it != workers.by_id().end(); ++it) {
    if (!absl::StartsWith(it->first, request.prefix())) continue;
    v1::Worker worker = workers.Describe(it->first, it->second);
    bytes += worker.ByteSizeLong() + kItemOverheadBytes;
    if (response.workers_size() == most || (bytes > most_bytes && response.workers_size() > 0)) {
      response.set_next_page_token(edge->page_tokens().Seal(filter_hash, last));
      break;
    }
    last = it->first;
    *response.add_workers() = std::move(worker);
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
        const AllWorkers workers(edge, reply);
        for (const auto& [id, traces] : workers.by_id()) {
          const bool meant =
              request.has_worker()
                  ? id == request.worker()
                  : traces.session != nullptr && traces.session->info->version == request.version();
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
