// What tests of the gRPC server share: a server on any port over a scripted gateway, and ways to
// call it and to look at its refusals.
// Threads: one.
#ifndef STINT_TESTS_SUPPORT_GRPC_EDGE_FIXTURE_H_
#define STINT_TESTS_SUPPORT_GRPC_EDGE_FIXTURE_H_

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/api/edge.h"
#include "server/api/grpc_server.h"
#include "storage/memory_store.h"
#include "storage/reader.h"
#include "tests/support/edge_fixture.h"

namespace stint::testing {

// A server on any port over a scripted gateway.
class TestServer {
 public:
  explicit TestServer(api::GrpcServerOptions options = {}) {
    edge_.Open(&gateway_, &reader_, api::RandomPageKey());
    options.listen = "127.0.0.1:0";
    auto server = api::GrpcServer::Start(std::move(options), &edge_);
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) server_ = *std::move(server);
  }

  std::shared_ptr<grpc::Channel> Connect(std::shared_ptr<grpc::ChannelCredentials> credentials =
                                             grpc::InsecureChannelCredentials()) const {
    return grpc::CreateChannel(server_->address(), std::move(credentials));
  }

  FakeGateway& gateway() { return gateway_; }
  api::GrpcServer& server() { return *server_; }

 private:
  storage::MemoryStore store_;
  storage::Reader reader_{&store_};
  FakeGateway gateway_;
  api::Edge edge_{api::EdgeOptions{}};
  std::unique_ptr<api::GrpcServer> server_;
};

inline google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

// "" when there is none.
inline std::string ReasonOf(const grpc::Status& status) {
  const google::rpc::Status details = DetailsOf(status);
  for (const auto& any : details.details()) {
    google::rpc::ErrorInfo info;
    if (any.UnpackTo(&info)) return info.reason();
  }
  return "";
}

// Fields of the violations.
inline std::vector<std::string> FieldsOf(const grpc::Status& status) {
  std::vector<std::string> fields;
  const google::rpc::Status details = DetailsOf(status);
  for (const auto& any : details.details()) {
    google::rpc::BadRequest bad_request;
    if (!any.UnpackTo(&bad_request)) continue;
    for (const auto& violation : bad_request.field_violations()) {
      fields.push_back(violation.field());
    }
  }
  return fields;
}

// Calls `method` with bytes as they are.
inline grpc::Status CallWithBytes(const std::shared_ptr<grpc::Channel>& channel,
                                  const std::string& method, const std::string& bytes) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, method, {}, &request, &response,
                 [&done](grpc::Status status) { done.set_value(std::move(status)); });
  return done.get_future().get();
}

inline grpc::health::v1::HealthCheckResponse::ServingStatus Health(
    const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status =
      grpc::health::v1::Health::NewStub(channel)->Check(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.status();
}

}  // namespace stint::testing

#endif  // STINT_TESTS_SUPPORT_GRPC_EDGE_FIXTURE_H_
