// The services as gRPC sees them: one line a method, from its name to its place in the
// services without gRPC. Thread-safe.
#ifndef STINT_SERVER_API_GRPC_SERVICES_H_
#define STINT_SERVER_API_GRPC_SERVICES_H_

#include <grpcpp/impl/service_type.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "server/api/auth.h"
#include "server/api/calls_under_way.h"
#include "server/api/edge.h"

namespace stint::api {

// All services of the API. `edge` and `authenticator` must outlive them. Calls over the
// edge's limit are refused; FailJob may be as large as `max_receive_bytes`, since its text
// is shortened and trouble must not be too large to report. Answers that callers have not read
// yet hold about `max_answer_bytes` at most.
std::vector<std::unique_ptr<grpc::Service>> MakeServices(Edge* edge,
                                                         const Authenticator* authenticator,
                                                         std::shared_ptr<CallsUnderWay> calls,
                                                         size_t max_receive_bytes,
                                                         size_t max_answer_bytes);

}  // namespace stint::api

#endif  // STINT_SERVER_API_GRPC_SERVICES_H_
