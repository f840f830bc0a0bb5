// The listening gRPC server: credentials, keepalive, limits, health, and all services.
//
// Start binds and serves at once, with health NOT_SERVING until SetServing(true). Shutdown
// lets calls under way end for a time, then cancels them. Thread-safe.
#ifndef STINT_SERVER_API_GRPC_SERVER_H_
#define STINT_SERVER_API_GRPC_SERVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/api/auth.h"
#include "server/api/edge.h"

namespace stint::api {

// Contents of PEM files; `certificate` empty: plaintext.
struct TlsOptions {
  std::string certificate;
  std::string key;
  // Authorities of client certificates; empty: none is asked for.
  std::string client_ca;
};

struct GrpcServerOptions {
  // host:port; port 0: any.
  std::string listen;
  TlsOptions tls;
  Authenticator authenticator;
  // What gRPC may hold for calls in both directions, about.
  size_t memory_bytes = size_t{512} << 20;
};

class GrpcServer {
 public:
  // `edge` must outlive the server.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(GrpcServerOptions options, Edge* edge);

  virtual ~GrpcServer() = default;

  // host:port as bound.
  virtual std::string address() const = 0;
  virtual void SetServing(bool serving) = 0;
  virtual void Shutdown(int64_t grace_ms) = 0;

 protected:
  GrpcServer() = default;
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_GRPC_SERVER_H_
