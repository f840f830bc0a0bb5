#include "server/api/admin_service.h"

#include <utility>

#include "server/api/time_values.h"

namespace stint::api {

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

}  // namespace stint::api
