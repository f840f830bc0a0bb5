// WorkerService without gRPC: validate, convert, submit, answer. Thread-safe.
#ifndef STINT_SERVER_API_WORKER_SERVICE_H_
#define STINT_SERVER_API_WORKER_SERVICE_H_

#include "server/api/edge.h"
#include "server/api/exchange.h"
#include "stint/v1/worker_service.pb.h"

namespace stint::api {

class WorkerService {
 public:
  explicit WorkerService(Edge* edge) : edge_(edge) {}

  // A caller that has gone when its jobs are there gets none: they are released at once.
  void LeaseJobs(v1::LeaseJobsRequest request, ExchangePtr exchange);
  void Heartbeat(v1::HeartbeatRequest request, ExchangePtr exchange);
  void CompleteJob(v1::CompleteJobRequest request, ExchangePtr exchange);
  void FailJob(v1::FailJobRequest request, ExchangePtr exchange);
  void ReleaseJob(v1::ReleaseJobRequest request, ExchangePtr exchange);
  void SettleJobs(v1::SettleJobsRequest request, ExchangePtr exchange);

 private:
  // One settle; `finish(SettleResult, Exchange&)` answers when it was accepted.
  template <typename Finish>
  void SettleOne(engine::SettleItem item, ExchangePtr exchange, Finish finish);

  Edge* const edge_;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_WORKER_SERVICE_H_
