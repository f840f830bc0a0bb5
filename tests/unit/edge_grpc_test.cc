// The gRPC server on a real port: bytes in, status and details out, who may call, and what
// happens to callers that leave.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
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
#include "storage/memory_store.h"
#include "storage/reader.h"
#include "tests/support/edge_fixture.h"
#include "tests/support/test_certificates.h"

namespace stint::api {
namespace {

using ::testing::Contains;
using testing::FakeGateway;
using ::testing::HasSubstr;
using ::testing::Not;

// A server on any port over a scripted gateway.
class TestServer {
 public:
  explicit TestServer(GrpcServerOptions options = {}) {
    edge_.Open(&gateway_, &reader_, RandomPageKey());
    options.listen = "127.0.0.1:0";
    auto server = GrpcServer::Start(std::move(options), &edge_);
    EXPECT_TRUE(server.ok()) << server.status();
    if (server.ok()) server_ = *std::move(server);
  }

  std::shared_ptr<grpc::Channel> Connect(std::shared_ptr<grpc::ChannelCredentials> credentials =
                                             grpc::InsecureChannelCredentials()) const {
    return grpc::CreateChannel(server_->address(), std::move(credentials));
  }

  FakeGateway& gateway() { return gateway_; }
  GrpcServer& server() { return *server_; }

 private:
  storage::MemoryStore store_;
  storage::Reader reader_{&store_};
  FakeGateway gateway_;
  Edge edge_{EdgeOptions{}};
  std::unique_ptr<GrpcServer> server_;
};

google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  return details;
}

// "" when there is none.
std::string ReasonOf(const grpc::Status& status) {
  const google::rpc::Status details = DetailsOf(status);
  for (const auto& any : details.details()) {
    google::rpc::ErrorInfo info;
    if (any.UnpackTo(&info)) return info.reason();
  }
  return "";
}

// Fields of the violations.
std::vector<std::string> FieldsOf(const grpc::Status& status) {
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
grpc::Status CallWithBytes(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                           const std::string& bytes) {
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

TEST(GrpcServerTest, AnswersComeBack) {
  TestServer server;
  const auto stub = v1::JobService::NewStub(server.Connect());
  std::thread engine([&server] {
    runtime::Call call = server.gateway().Take();
    EXPECT_EQ(std::get<engine::EnqueueCommand>(call.command).jobs[0].record.payload(), "p");
    call.done({absl::OkStatus(), engine::EnqueueReply{"q", {{"j-1", engine::JobState::kDelayed}}}});
  });
  v1::EnqueueJobRequest request;
  request.set_queue("q");
  request.mutable_job()->set_payload("p");
  v1::EnqueueJobResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub->EnqueueJob(&context, request, &response);
  engine.join();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.job(), "queues/q/jobs/j-1");
  EXPECT_EQ(response.state(), v1::JOB_STATE_DELAYED);
}

TEST(GrpcServerTest, RefusalsCarryTheirDetails) {
  TestServer server;
  const auto stub = v1::JobService::NewStub(server.Connect());
  v1::EnqueueJobRequest request;
  request.set_queue("a/b");
  request.mutable_job()->set_priority(10);
  v1::EnqueueJobResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub->EnqueueJob(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "INVALID_REQUEST");
  EXPECT_THAT(FieldsOf(status), ::testing::ElementsAre("queue", "job.priority"));
  EXPECT_EQ(DetailsOf(status).message(), status.error_message());
  EXPECT_EQ(DetailsOf(status).code(), 3);
}

// The largest refusal fits into the trailers of a client with default settings.
TEST(GrpcServerTest, TheLargestRefusalArrives) {
  TestServer server;
  v1::BatchEnqueueJobsRequest request;
  request.set_queue(std::string(300, '%'));
  for (int i = 0; i < 1000; ++i) {
    v1::BatchEnqueueItem* item = request.add_items();
    item->set_job_id(std::string(200, '%'));
    item->mutable_job()->set_priority(-1);
    item->mutable_job()->mutable_delay()->set_seconds(-5);
  }
  const grpc::Status status = CallWithBytes(
      server.Connect(), "/stint.v1.JobService/BatchEnqueueJobs", request.SerializeAsString());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_EQ(ReasonOf(status), "INVALID_REQUEST");
  EXPECT_THAT(status.error_message(), HasSubstr("more"));
}

TEST(GrpcServerTest, TextThatIsNotUtf8IsNamed) {
  TestServer server;
  // queue = "\xFF", job { kind = "\xC3" } and a header.
  const auto call = [&server](const std::string& bytes) {
    return CallWithBytes(server.Connect(), "/stint.v1.JobService/EnqueueJob", bytes);
  };
  grpc::Status status = call("\x0A\x01\xFF");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(FieldsOf(status), ::testing::ElementsAre("queue"));
  EXPECT_THAT(status.error_message(), HasSubstr("not valid UTF-8"));
  status = call("\x0A\x01q\x12\x03\x0A\x01\xC3");
  EXPECT_THAT(FieldsOf(status), ::testing::ElementsAre("kind"));
  EXPECT_TRUE(server.gateway().empty());
}

TEST(GrpcServerTest, BytesThatAreNoMessageAreSaidToBeNone) {
  TestServer server;
  const grpc::Status status =
      CallWithBytes(server.Connect(), "/stint.v1.JobService/EnqueueJob", "\x0A\x7Fshort");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "INVALID_REQUEST");
  EXPECT_THAT(status.error_message(), HasSubstr("stint.v1.EnqueueJobRequest"));
}

// S65, S69: what is too large is refused with the limit and the size.
TEST(GrpcServerTest, CallsOverTheLimitAreRefusedWithBothNumbers) {
  TestServer server;
  v1::CompleteJobRequest complete;
  complete.set_job("queues/q/jobs/j");
  complete.set_token(1);
  complete.set_result(std::string(20 << 20, 'r'));
  const grpc::Status status = CallWithBytes(server.Connect(), "/stint.v1.WorkerService/CompleteJob",
                                            complete.SerializeAsString());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_EQ(ReasonOf(status), "INVALID_REQUEST");
  EXPECT_THAT(status.error_message(), HasSubstr("at most 3670016 bytes, has 20971"));
}

// S65: trouble is never too large to report.
TEST(GrpcServerTest, AHugeErrorTextIsShortenedAndTaken) {
  TestServer server;
  v1::FailJobRequest fail;
  fail.set_job("queues/q/jobs/j");
  fail.set_token(1);
  fail.set_error(std::string(20 << 20, 'e'));
  auto status = std::async(std::launch::async, [&] {
    return CallWithBytes(server.Connect(), "/stint.v1.WorkerService/FailJob",
                         fail.SerializeAsString());
  });
  runtime::Call call = server.gateway().Take();
  const auto& command = std::get<engine::SettleCommand>(call.command);
  EXPECT_EQ(command.items[0].error.size(), engine::kMaxErrorBytes);
  engine::SettleReply reply;
  reply.results.resize(1);
  reply.results[0].kind = engine::SettleKind::kFail;
  call.done({absl::OkStatus(), std::move(reply)});
  EXPECT_TRUE(status.get().ok());
}

TEST(GrpcServerTest, BeyondTheHardLimitTheCallIsCutOff) {
  TestServer server;
  const grpc::Status status = CallWithBytes(server.Connect(), "/stint.v1.WorkerService/FailJob",
                                            std::string(8 * engine::kDefaultMaxCallBytes + 1, 'x'));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

// A small call must not unfold to a large one.
TEST(GrpcServerTest, CompressedCallsAreRefused) {
  TestServer server;
  const auto stub = v1::JobService::NewStub(server.Connect());
  v1::EnqueueJobRequest request;
  request.set_queue("q");
  request.mutable_job()->set_payload(std::string(500'000, 'z'));
  v1::EnqueueJobResponse response;
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  EXPECT_EQ(stub->EnqueueJob(&context, request, &response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(server.gateway().empty());
}

// Runs LeaseJobs on a thread, so that the test can look at it from the other side.
class LeaseCall {
 public:
  LeaseCall(const std::shared_ptr<grpc::Channel>& channel,
            std::optional<std::chrono::milliseconds> deadline)
      : stub_(v1::WorkerService::NewStub(channel)) {
    if (deadline.has_value())
      context_.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_REALTIME),
                                         gpr_time_from_millis(deadline->count(), GPR_TIMESPAN)));
    thread_ = std::thread([this] {
      v1::LeaseJobsRequest request;
      request.add_queues("q");
      status_ = stub_->LeaseJobs(&context_, request, &response_);
    });
  }
  ~LeaseCall() {
    if (thread_.joinable()) thread_.join();
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Wait() {
    thread_.join();
    return status_;
  }

 private:
  std::unique_ptr<v1::WorkerService::Stub> stub_;
  grpc::ClientContext context_;
  v1::LeaseJobsResponse response_;
  grpc::Status status_;
  std::thread thread_;
};

// Returns when the server has seen that the caller has gone.
void WaitUntilAbandoned(const runtime::Call& call) {
  while (!call.abandoned()) std::this_thread::yield();
}

engine::LeaseReply OneLease() {
  engine::LeaseReply reply;
  reply.leases.resize(1);
  reply.leases[0].job.queue = "q";
  reply.leases[0].job.job_id = "j";
  reply.leases[0].token = 7;
  reply.leases[0].lease_ms = 15'000;
  return reply;
}

TEST(GrpcServerTest, ACallerThatCancelledGetsNoJob) {
  TestServer server;
  LeaseCall lease(server.Connect(), std::nullopt);
  runtime::Call call = server.gateway().Take();
  EXPECT_EQ(std::get<engine::LeaseCommand>(call.command).wait_ms, engine::kDefaultWaitMs);
  EXPECT_FALSE(call.abandoned());
  lease.Cancel();
  EXPECT_EQ(lease.Wait().error_code(), grpc::StatusCode::CANCELLED);
  WaitUntilAbandoned(call);
  call.done({absl::OkStatus(), OneLease()});
  const auto undo = server.gateway().TakeCommand<engine::SettleCommand>();
  ASSERT_EQ(undo.items.size(), 1u);
  EXPECT_EQ(undo.items[0].kind, engine::SettleKind::kRelease);
  EXPECT_EQ(undo.items[0].token, 7);
}

TEST(GrpcServerTest, ACallWhoseDeadlinePassedIsAbandoned) {
  TestServer server;
  LeaseCall lease(server.Connect(), std::chrono::milliseconds(100));
  runtime::Call call = server.gateway().Take();
  EXPECT_EQ(std::get<engine::LeaseCommand>(call.command).wait_ms, 0);
  EXPECT_EQ(lease.Wait().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  WaitUntilAbandoned(call);
  call.done({absl::OkStatus(), OneLease()});
  EXPECT_EQ(server.gateway().TakeCommand<engine::SettleCommand>().items.size(), 1u);
}

TEST(GrpcServerTest, WaitsEndBeforeTheDeadline) {
  TestServer server;
  LeaseCall lease(server.Connect(), std::chrono::seconds(15));
  runtime::Call call = server.gateway().Take();
  // gRPC rounds a deadline up on the wire, this one to tenths of a second.
  EXPECT_LE(std::get<engine::LeaseCommand>(call.command).wait_ms, 14'900);
  EXPECT_GT(std::get<engine::LeaseCommand>(call.command).wait_ms, 0);
  call.done({absl::OkStatus(), engine::LeaseReply{}});
  EXPECT_TRUE(lease.Wait().ok());
}

TEST(GrpcServerTest, ACallThatIsDroppedIsAnswered) {
  TestServer server;
  LeaseCall lease(server.Connect(), std::nullopt);
  { const runtime::Call call = server.gateway().Take(); }
  const grpc::Status status = lease.Wait();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOf(status), "STORE_FAILED");
}

TEST(GrpcServerTest, ShutdownCancelsWhatDoesNotEnd) {
  TestServer server;
  LeaseCall lease(server.Connect(), std::nullopt);
  runtime::Call call = server.gateway().Take();
  std::thread shutdown([&server] { server.server().Shutdown(1); });
  WaitUntilAbandoned(call);
  call.done({absl::OkStatus(), engine::LeaseReply{}});
  shutdown.join();
  EXPECT_FALSE(lease.Wait().ok());
}

TEST(GrpcServerTest, TwoBrokersDoNotShareAPort) {
  TestServer first;
  Edge edge{EdgeOptions{}};
  GrpcServerOptions options;
  options.listen = first.server().address();
  const auto second = GrpcServer::Start(std::move(options), &edge);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("Address already in use"));
}

grpc::health::v1::HealthCheckResponse::ServingStatus Health(
    const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status =
      grpc::health::v1::Health::NewStub(channel)->Check(&context, {}, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.status();
}

TEST(GrpcServerTest, HealthFollowsTheBroker) {
  using grpc::health::v1::HealthCheckResponse;
  TestServer server;
  EXPECT_EQ(Health(server.Connect()), HealthCheckResponse::NOT_SERVING);
  server.server().SetServing(true);
  EXPECT_EQ(Health(server.Connect()), HealthCheckResponse::SERVING);
  server.server().SetServing(false);
  EXPECT_EQ(Health(server.Connect()), HealthCheckResponse::NOT_SERVING);
}

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
