#include "server/api/grpc_server.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/api/calls_under_way.h"
#include "server/api/grpc_reflection.h"
#include "server/api/grpc_services.h"
#include "server/api/grpc_wakeful.h"
#include "server/ops/log.h"

namespace stint::api {
namespace {

// A call over the limit is read up to this many times the limit, so that it can be refused
// with a reason; beyond that gRPC cuts it off with RESOURCE_EXHAUSTED.
constexpr size_t kReceiveFactor = 8;
constexpr int kMaxReceiveBytes = 512 << 20;

// Clients may ping every 10 s, with and without calls; some come a little early.
constexpr int kMinPingIntervalMs = 8'000;
// The server pings connections that are silent.
constexpr int kKeepaliveMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 10'000;

// At the end: how long to wait for a moment without calls, and then for the last answers to
// leave.
constexpr int64_t kQuietMs = 500;
constexpr int64_t kLastAnswersMs = 100;

constexpr int kMaxStreamsPerConnection = 20'000;

std::shared_ptr<grpc::ServerCredentials> MakeCredentials(const TlsOptions& tls) {
  if (tls.certificate.empty()) return grpc::InsecureServerCredentials();
  // A client certificate is verified when there is one; whether one is needed is decided
  // per call (auth.h), since health needs none.
  grpc::SslServerCredentialsOptions options(tls.client_ca.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_key_cert_pairs.push_back({tls.key, tls.certificate});
  options.pem_root_certs = tls.client_ca;
  return grpc::SslServerCredentials(options);
}

void SetChannelArguments(grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              kMinPingIntervalMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  // Two brokers on one port would each get some of the calls.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A compressed call could unfold to any size before a limit is checked.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
}

// While this thread binds its address, the reason of a failure is kept.
thread_local std::string* bind_log = nullptr;

// gRPC's own lines are for people who debug the broker: a stranger's failed handshake is no
// event.
void ForwardLog(gpr_log_func_args* line) {
  if (bind_log != nullptr && line->severity == GPR_LOG_SEVERITY_ERROR) *bind_log = line->message;
  ops::Log(ops::LogLevel::kDebug, line->message, {{"from", "grpc"}});
}

// "Address already in use" of a line with os_error:"Address already in use".
std::string ReasonIn(const std::string& log) {
  constexpr absl::string_view kMark = "os_error:\"";
  const size_t begin = log.rfind(kMark.data(), std::string::npos, kMark.size());
  if (begin == std::string::npos) return log.empty() ? "gRPC gives no reason" : log.substr(0, 200);
  const size_t from = begin + kMark.size();
  return log.substr(from, log.find('"', from) - from);
}

class Server final : public GrpcServer {
 public:
  Server(GrpcServerOptions options, Edge* edge)
      : options_(std::move(options)),
        max_receive_bytes_(
            std::min(edge->limits().max_call_bytes * kReceiveFactor, size_t{kMaxReceiveBytes})),
        sessions_(edge->sessions()),
        services_(MakeServices(edge, &options_.authenticator, calls_, max_receive_bytes_,
                               options_.memory_bytes / 2)),
        reflection_(MakeReflectionServices(&options_.authenticator)) {}

  ~Server() override { Shutdown(0); }

  absl::Status Listen() {
    gpr_set_log_function(ForwardLog);
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(options_.listen, MakeCredentials(options_.tls), &port);
    builder.SetMaxReceiveMessageSize(static_cast<int>(max_receive_bytes_));
    grpc::ResourceQuota quota("stintd");
    quota.Resize(options_.memory_bytes);
    builder.SetResourceQuota(quota);
    SetChannelArguments(&builder);
    for (const auto& service : services_) builder.RegisterService(service.get());
    for (const auto& service : reflection_) builder.RegisterService(service.get());
    std::string log;
    bind_log = &log;
    server_ = builder.BuildAndStart();
    bind_log = nullptr;
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError(
          absl::StrCat(options_.listen, ": ", ReasonIn(log),
                       "; the port must be free, the address of this machine, and the TLS files "
                       "must fit together"));
    }
    address_ = absl::StrCat(options_.listen.substr(0, options_.listen.rfind(':')), ":", port);
    SetServing(false);
    wakeful_ = std::make_unique<Wakeful>(server_->InProcessChannel({}));
    return absl::OkStatus();
  }

  std::string address() const override { return address_; }

  void SetServing(bool serving) override {
    server_->GetHealthCheckService()->SetServingStatus(serving);
  }

  void Shutdown(int64_t grace_ms) override {
    if (server_ == nullptr) return;
    wakeful_ = nullptr;
    server_->GetHealthCheckService()->Shutdown();
    // gRPC's own graceful end also waits for clients that hold an idle connection, of which
    // some look at it only every 5 s; so the calls are waited for here, and that end is short.
    // Under a load that never pauses it is gRPC's that makes clients go.
    sessions_->DrainAll();
    const bool idle = calls_->WaitForNone(std::min(grace_ms, kQuietMs));
    sessions_->EndAll();
    server_->Shutdown(gpr_time_add(
        gpr_now(GPR_CLOCK_MONOTONIC),
        gpr_time_from_millis(idle ? std::min(grace_ms, kLastAnswersMs) : grace_ms, GPR_TIMESPAN)));
    server_->Wait();
    server_ = nullptr;
  }

 private:
  const GrpcServerOptions options_;
  const size_t max_receive_bytes_;
  // These before the server, which uses them.
  const std::shared_ptr<CallsUnderWay> calls_ = std::make_shared<CallsUnderWay>();
  runtime::Sessions* const sessions_;
  const std::vector<std::unique_ptr<grpc::Service>> services_;
  const std::vector<std::unique_ptr<grpc::Service>> reflection_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Wakeful> wakeful_;
  std::string address_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(GrpcServerOptions options,
                                                              Edge* edge) {
  auto server = std::make_unique<Server>(std::move(options), edge);
  if (absl::Status status = server->Listen(); !status.ok()) return status;
  return server;
}

}  // namespace stint::api
