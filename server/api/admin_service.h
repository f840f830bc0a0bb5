// AdminService without gRPC. Thread-safe.
#ifndef STINT_SERVER_API_ADMIN_SERVICE_H_
#define STINT_SERVER_API_ADMIN_SERVICE_H_

#include "server/api/edge.h"
#include "server/api/exchange.h"
#include "stint/v1/admin_service.pb.h"

namespace stint::api {

class AdminService {
 public:
  explicit AdminService(Edge* edge) : edge_(edge) {}

  void GetServerInfo(v1::GetServerInfoRequest request, ExchangePtr exchange);
  // Answers first, then begins the drain.
  void DrainServer(v1::DrainServerRequest request, ExchangePtr exchange);
  void ListWorkers(v1::ListWorkersRequest request, ExchangePtr exchange);
  void DrainWorker(v1::DrainWorkerRequest request, ExchangePtr exchange);

 private:
  Edge* const edge_;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_ADMIN_SERVICE_H_
