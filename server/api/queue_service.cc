#include "server/api/queue_service.h"

#include <algorithm>
#include <utility>

#include "server/api/convert.h"
#include "server/api/fingerprint.h"
#include "server/api/not_found.h"
#include "server/api/time_values.h"
#include "server/engine/limits.h"

namespace stint::api {
namespace {

// Answers a call whose outcome is the queue as it now is.
template <typename Response>
void ReplyWithQueue(engine::QueueReply&& reply, Exchange& to) {
  Response response;
  *response.mutable_queue() = ToQueue(reply.queue);
  to.Reply(response);
}

absl::StatusOr<v1::GetQueueResponse> ReadQueue(const storage::Reader& reader,
                                               const std::string& name) {
  const auto queue = reader.FindQueue(name);
  if (!queue.ok()) return queue.status();
  if (!queue->has_value()) return QueueNotFound(name);
  v1::GetQueueResponse response;
  *response.mutable_queue() = ToQueue((*queue)->record);
  return response;
}

absl::StatusOr<v1::ListQueuesResponse> ReadQueuePage(const storage::Reader& reader,
                                                     const PageTokens& tokens,
                                                     const v1::ListQueuesRequest& request) {
  v1::ListQueuesRequest filter;
  filter.set_prefix(request.prefix());
  const uint64_t filter_hash = Fingerprint("ListQueues", filter);
  std::string after;
  if (!request.page_token().empty()) {
    auto position = tokens.Open(filter_hash, request.page_token());
    if (!position.ok()) return position.status();
    after = *std::move(position);
  }
  const int asked = request.page_size() == 0 ? engine::kDefaultPageSize : request.page_size();
  const auto page = reader.ListQueues(request.prefix(), after,
                                      static_cast<size_t>(std::min(asked, engine::kMaxPageSize)));
  if (!page.ok()) return page.status();
  v1::ListQueuesResponse response;
  for (const storage::StoredQueue& queue : page->queues) {
    *response.add_queues() = ToQueue(queue.record);
    if (request.with_stats()) *response.add_stats() = ToStats(queue.counters);
  }
  if (!page->next_name.empty()) {
    response.set_next_page_token(tokens.Seal(filter_hash, page->next_name));
  }
  return response;
}

}  // namespace

void QueueService::CreateQueue(v1::CreateQueueRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  engine::Command command = ToCommand(request, exchange->identity());
  edge_->Submit<engine::QueueReply>(std::move(exchange), std::move(command),
                                    ReplyWithQueue<v1::CreateQueueResponse>);
}

void QueueService::GetQueue(v1::GetQueueRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  edge_->RunRead(exchange, [exchange, name = request.queue()](const storage::Reader& reader,
                                                              const PageTokens&) {
    const auto response = ReadQueue(reader, name);
    response.ok() ? exchange->Reply(*response) : exchange->Refuse(response.status());
  });
}

void QueueService::ListQueues(v1::ListQueuesRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  edge_->RunRead(exchange, [exchange, request = std::move(request)](const storage::Reader& reader,
                                                                    const PageTokens& tokens) {
    const auto response = ReadQueuePage(reader, tokens, request);
    response.ok() ? exchange->Reply(*response) : exchange->Refuse(response.status());
  });
}

void QueueService::UpdateQueue(v1::UpdateQueueRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  engine::Command command = ToCommand(request, exchange->identity());
  edge_->Submit<engine::QueueReply>(std::move(exchange), std::move(command),
                                    ReplyWithQueue<v1::UpdateQueueResponse>);
}

void QueueService::DeleteQueue(v1::DeleteQueueRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  engine::Command command = ToCommand(request, exchange->identity());
  edge_->Submit<engine::EmptyReply>(
      std::move(exchange), std::move(command),
      [](engine::EmptyReply&&, Exchange& to) { to.Reply(v1::DeleteQueueResponse()); });
}

void QueueService::PauseQueue(v1::PauseQueueRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  engine::Command command = ToCommand(request, exchange->identity());
  edge_->Submit<engine::QueueReply>(std::move(exchange), std::move(command),
                                    ReplyWithQueue<v1::PauseQueueResponse>);
}

void QueueService::ResumeQueue(v1::ResumeQueueRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  engine::Command command = ToCommand(request, exchange->identity());
  edge_->Submit<engine::QueueReply>(std::move(exchange), std::move(command),
                                    ReplyWithQueue<v1::ResumeQueueResponse>);
}

void QueueService::PurgeQueue(v1::PurgeQueueRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  engine::Command command = ToCommand(request, exchange->identity());
  edge_->Submit<engine::PurgeReply>(std::move(exchange), std::move(command),
                                    [](engine::PurgeReply&& reply, Exchange& to) {
                                      v1::PurgeQueueResponse response;
                                      response.set_purged(reply.purged);
                                      to.Reply(response);
                                    });
}

void QueueService::GetQueueStats(v1::GetQueueStatsRequest request, ExchangePtr exchange) {
  if (absl::Status status = Validate(request); !status.ok()) return exchange->Refuse(status);
  engine::Command command = engine::QueueStatsCommand{request.queue()};
  edge_->Submit<engine::QueueStatsReply>(std::move(exchange), std::move(command),
                                         [](engine::QueueStatsReply&& reply, Exchange& to) {
                                           v1::GetQueueStatsResponse response;
                                           *response.mutable_stats() = ToStats(reply.counters);
                                           if (reply.oldest_ready_age_ms >= 0) {
                                             *response.mutable_stats()->mutable_oldest_ready_age() =
                                                 DurationOfMillis(reply.oldest_ready_age_ms);
                                           }
                                           to.Reply(response);
                                         });
}

}  // namespace stint::api
