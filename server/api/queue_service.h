// QueueService without gRPC: validate, convert, submit, answer. Reads go past the engine to
// the store's stable view. Thread-safe.
#ifndef STINT_SERVER_API_QUEUE_SERVICE_H_
#define STINT_SERVER_API_QUEUE_SERVICE_H_

#include "server/api/edge.h"
#include "server/api/exchange.h"
#include "stint/v1/queue_service.pb.h"

namespace stint::api {

class QueueService {
 public:
  explicit QueueService(Edge* edge) : edge_(edge) {}

  void CreateQueue(v1::CreateQueueRequest request, ExchangePtr exchange);
  void GetQueue(v1::GetQueueRequest request, ExchangePtr exchange);
  void ListQueues(v1::ListQueuesRequest request, ExchangePtr exchange);
  void UpdateQueue(v1::UpdateQueueRequest request, ExchangePtr exchange);
  void DeleteQueue(v1::DeleteQueueRequest request, ExchangePtr exchange);
  void PauseQueue(v1::PauseQueueRequest request, ExchangePtr exchange);
  void ResumeQueue(v1::ResumeQueueRequest request, ExchangePtr exchange);
  void PurgeQueue(v1::PurgeQueueRequest request, ExchangePtr exchange);
  void GetQueueStats(v1::GetQueueStatsRequest request, ExchangePtr exchange);

 private:
  Edge* const edge_;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_QUEUE_SERVICE_H_
