// Who may call the gRPC server, and what reflection tells.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "server/api/edge.h"
#include "server/api/grpc_server.h"
#include "server/engine/error.h"
#include "stint/v1/admin_service.grpc.pb.h"
#include "stint/v1/job_service.grpc.pb.h"
#include "stint/v1/queue_service.grpc.pb.h"
#include "stint/v1/worker_service.grpc.pb.h"
#include "tests/support/grpc_edge_fixture.h"
#include "tests/support/test_certificates.h"

namespace stint::api {
namespace {

using testing::CallWithBytes;
using ::testing::Contains;
using testing::Health;
using testing::ReasonOf;
using testing::TestServer;

template <typename Stub, typename Request, typename Response>
grpc::Status Reflect(Stub* stub, const std::string& authorization,
                     const std::vector<Request>& requests, std::vector<Response>* responses) {
  grpc::ClientContext context;
  if (!authorization.empty()) context.AddMetadata("authorization", authorization);
  auto stream = stub->ServerReflectionInfo(&context);
  for (const Request& request : requests) {
    Response response;
    if (!stream->Write(request) || !stream->Read(&response)) break;
    responses->push_back(response);
  }
  stream->WritesDone();
  return stream->Finish();
}

TEST(GrpcReflectionTest, TellsTheApiAndNothingElse) {
  namespace reflection = grpc::reflection::v1;
  TestServer server;
  const auto stub = reflection::ServerReflection::NewStub(server.Connect());
  std::vector<reflection::ServerReflectionRequest> requests(6);
  requests[0].set_list_services("");
  requests[1].set_file_containing_symbol("stint.v1.JobService");
  requests[2].set_file_by_filename("stint/v1/worker_service.proto");
  requests[3].set_file_by_filename("storage/record.proto");
  requests[4].set_file_containing_symbol("stint.record.JobRecord");
  std::vector<reflection::ServerReflectionResponse> responses;
  EXPECT_TRUE(Reflect(stub.get(), "", requests, &responses).ok());
  ASSERT_EQ(responses.size(), 6u);
  std::vector<std::string> services;
  for (const auto& service : responses[0].list_services_response().service()) {
    services.push_back(service.name());
  }
  EXPECT_THAT(services, ::testing::IsSupersetOf({"stint.v1.JobService", "stint.v1.WorkerService",
                                                 "stint.v1.QueueService", "stint.v1.AdminService",
                                                 "grpc.health.v1.Health"}));
  for (const int i : {1, 2}) {
    std::vector<std::string> files;
    for (const std::string& bytes :
         responses[static_cast<size_t>(i)].file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      ASSERT_TRUE(file.ParseFromString(bytes));
      files.push_back(file.name());
    }
    EXPECT_THAT(files, Contains("stint/v1/job.proto"));
    EXPECT_THAT(files, Contains("google/protobuf/duration.proto"));
  }
  EXPECT_EQ(responses[3].error_response().error_code(), 5);
  EXPECT_EQ(responses[4].error_response().error_code(), 5);
  EXPECT_EQ(responses[5].error_response().error_code(), 3);
}

// SHA-256 of "secret".
constexpr char kTokens[] =
    "tester all sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b\n";

TEST(GrpcAccessTest, EverythingButHealthAsksForACredential) {
  GrpcServerOptions options;
  options.authenticator = Authenticator(*TokensFile::Parse(kTokens, "tokens"), false);
  TestServer server(std::move(options));
  const auto channel = server.Connect();
  for (const auto* service : {v1::EnqueueJobRequest::descriptor()->file()->service(0),
                              v1::LeaseJobsRequest::descriptor()->file()->service(0),
                              v1::GetQueueRequest::descriptor()->file()->service(0),
                              v1::GetServerInfoRequest::descriptor()->file()->service(0)}) {
    for (int i = 0; i < service->method_count(); ++i) {
      const std::string method =
          absl::StrCat("/", service->full_name(), "/", service->method(i)->name());
      const grpc::Status status = CallWithBytes(channel, method, "");
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED) << method;
      EXPECT_EQ(ReasonOf(status), "UNAUTHENTICATED") << method;
    }
  }
  namespace v1_reflection = grpc::reflection::v1;
  namespace v1alpha_reflection = grpc::reflection::v1alpha;
  std::vector<v1_reflection::ServerReflectionRequest> requests(1);
  requests[0].set_list_services("");
  std::vector<v1_reflection::ServerReflectionResponse> responses;
  const auto stub = v1_reflection::ServerReflection::NewStub(channel);
  EXPECT_EQ(Reflect(stub.get(), "", requests, &responses).error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_TRUE(responses.empty());
  EXPECT_TRUE(Reflect(stub.get(), "Bearer secret", requests, &responses).ok());
  EXPECT_EQ(responses.size(), 1u);
  std::vector<v1alpha_reflection::ServerReflectionRequest> old_requests(1);
  std::vector<v1alpha_reflection::ServerReflectionResponse> old_responses;
  EXPECT_EQ(Reflect(v1alpha_reflection::ServerReflection::NewStub(channel).get(), "Bearer x",
                    old_requests, &old_responses)
                .error_code(),
            grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Health(channel), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
}

// What GetServerInfo is answered with these credentials.
grpc::Status Info(const std::shared_ptr<grpc::Channel>& channel, const std::string& token) {
  grpc::ClientContext context;
  if (!token.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", token));
  v1::GetServerInfoResponse response;
  return v1::AdminService::NewStub(channel)->GetServerInfo(&context, {}, &response);
}

TEST(GrpcAccessTest, ACredentialLetsTheCallIn) {
  GrpcServerOptions options;
  options.authenticator = Authenticator(*TokensFile::Parse(kTokens, "tokens"), false);
  TestServer server(std::move(options));
  server.gateway().Refuse(engine::MakeError(engine::Reason::kOverloaded, "full"));
  EXPECT_EQ(ReasonOf(Info(server.Connect(), "secret")), "OVERLOADED");
  EXPECT_EQ(ReasonOf(Info(server.Connect(), "other")), "UNAUTHENTICATED");
}

TEST(GrpcAccessTest, ClientCertificatesAreCredentials) {
  const testing::TestAuthority authority;
  const testing::TestAuthority strangers;
  const testing::Pem server_pem = authority.Issue("localhost");
  GrpcServerOptions options;
  options.tls = {server_pem.certificate, server_pem.key, authority.pem()};
  options.authenticator = Authenticator(std::nullopt, true);
  TestServer server(std::move(options));
  server.gateway().Refuse(engine::MakeError(engine::Reason::kOverloaded, "full"));

  const auto connect = [&](const std::optional<testing::Pem>& client) {
    grpc::SslCredentialsOptions ssl;
    ssl.pem_root_certs = authority.pem();
    if (client.has_value()) {
      ssl.pem_cert_chain = client->certificate;
      ssl.pem_private_key = client->key;
    }
    return server.Connect(grpc::SslCredentials(ssl));
  };
  EXPECT_EQ(ReasonOf(Info(connect(authority.Issue("worker-1")), "")), "OVERLOADED");
  // Health asks for none.
  EXPECT_EQ(ReasonOf(Info(connect(std::nullopt), "")), "UNAUTHENTICATED");
  EXPECT_EQ(Health(connect(std::nullopt)), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  // Of another authority: not even a connection.
  EXPECT_EQ(Info(connect(strangers.Issue("worker-1")), "").error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(Info(server.Connect(), "").error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace stint::api
