// Server reflection (v1 and v1alpha), so that any generic gRPC tool can call the API: the
// services, and the files that describe them and nothing else of this program. Unlike the
// packaged plugin it asks for credentials as every other service does. Thread-safe.
#ifndef STINT_SERVER_API_GRPC_REFLECTION_H_
#define STINT_SERVER_API_GRPC_REFLECTION_H_

#include <grpcpp/impl/service_type.h>

#include <memory>
#include <vector>

#include "server/api/auth.h"

namespace stint::api {

// `authenticator` must outlive the services.
std::vector<std::unique_ptr<grpc::Service>> MakeReflectionServices(
    const Authenticator* authenticator);

}  // namespace stint::api

#endif  // STINT_SERVER_API_GRPC_REFLECTION_H_
