// StreamJobs as gRPC sees it: bytes to messages and back. Only the grpc_*.cc files include this.
#ifndef STINT_SERVER_API_GRPC_WORKER_STREAM_H_
#define STINT_SERVER_API_GRPC_WORKER_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "server/api/edge.h"
#include "server/api/grpc_call.h"

namespace stint::api {

// The reactor of one stream; it belongs to gRPC, which ends its life.
grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* BeginWorkerStream(
    const Door& door, Edge* edge, grpc::CallbackServerContext* context);

}  // namespace stint::api

#endif  // STINT_SERVER_API_GRPC_WORKER_STREAM_H_
