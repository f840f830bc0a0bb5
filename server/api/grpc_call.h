// One unary call of gRPC's callback API, from its bytes to its answer: who calls, is it too
// large, is it a message at all; then it is handed to a service as an Exchange.
//
// The bytes are parsed here and not by gRPC, because gRPC answers a request that cannot be
// parsed with UNIMPLEMENTED and no word why. Only the grpc_*.cc files include this.
//
// Thread rule: calls begin on gRPC's threads and end on any.
#ifndef STINT_SERVER_API_GRPC_CALL_H_
#define STINT_SERVER_API_GRPC_CALL_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/api/answer_budget.h"
#include "server/api/auth.h"
#include "server/api/calls_under_way.h"
#include "server/api/exchange.h"
#include "server/api/parse_request.h"
#include "server/ops/rpc_counts.h"
#include "server/runtime/clock.h"

namespace stint::api {

grpc::Status ToGrpcStatus(const absl::Status& status);

// The identity of the caller, or UNAUTHENTICATED.
absl::StatusOr<std::string> Authenticate(const Authenticator& authenticator,
                                         const grpc::CallbackServerContext& context);

// INVALID_REQUEST when `bytes` is over the limit.
absl::Status CheckCallSize(size_t bytes, size_t max_bytes);

// The number of the method whose request has this name.
size_t MethodOfRequest(absl::string_view request_name);

// What stands before every method.
struct Door {
  const Authenticator* authenticator;
  std::shared_ptr<CallsUnderWay> calls;
  std::shared_ptr<AnswerBudget> answers;
  size_t max_call_bytes;
  ops::RpcCounts* counts;
};

// A call that has begun: which method, and when.
struct CallStart {
  size_t method;
  int64_t boot_us;
};

// The start of a call with this kind of request; each method has one of its own.
template <typename Request>
CallStart StartOf() {
  static const size_t kMethod = MethodOfRequest(Request::descriptor()->name());
  return {kMethod, runtime::SystemClock().BootMicros()};
}

// Counts a call that has ended; each call once.
void CountEnd(ops::RpcCounts* counts, CallStart start, const absl::Status& status);

// Reactor and exchange for one call; the reactor belongs to gRPC, which ends its life.
std::pair<grpc::ServerUnaryReactor*, ExchangePtr> BeginCall(grpc::CallbackServerContext* context,
                                                            grpc::ByteBuffer* response,
                                                            const Door& door, CallStart start,
                                                            std::string identity,
                                                            size_t request_bytes);

// Answers a call with a refusal at once.
grpc::ServerUnaryReactor* RefuseCall(grpc::CallbackServerContext* context, const Door& door,
                                     CallStart start, const absl::Status& status);

// Serves one call with `service->*method`.
template <typename Service, typename Request>
grpc::ServerUnaryReactor* Serve(const Door& door, grpc::CallbackServerContext* context,
                                const grpc::ByteBuffer* bytes, grpc::ByteBuffer* response,
                                Service* service, void (Service::*method)(Request, ExchangePtr)) {
  const CallStart start = StartOf<Request>();
  absl::StatusOr<std::string> identity = Authenticate(*door.authenticator, *context);
  if (!identity.ok()) return RefuseCall(context, door, start, identity.status());
  const size_t size = bytes->Length();
  if (absl::Status status = CheckCallSize(size, door.max_call_bytes); !status.ok()) {
    return RefuseCall(context, door, start, status);
  }
  Request request;
  grpc::ByteBuffer copy(*bytes);  // shares the slices; the reader wants it mutable
  grpc::ProtoBufferReader reader(&copy);
  if (absl::Status status = ParseRequest(&reader, &request); !status.ok()) {
    return RefuseCall(context, door, start, status);
  }
  auto [reactor, exchange] = BeginCall(context, response, door, start, *std::move(identity), size);
  (service->*method)(std::move(request), std::move(exchange));
  return reactor;
}

}  // namespace stint::api

#endif  // STINT_SERVER_API_GRPC_CALL_H_
