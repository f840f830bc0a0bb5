// The gRPC server on a real port: bytes in, status and details out, and what happens to callers
// that leave.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "grpc/health/v1/health.grpc.pb.h"
#include "server/api/edge.h"
#include "server/api/grpc_server.h"
#include "server/engine/error.h"
#include "stint/v1/job_service.grpc.pb.h"
#include "stint/v1/worker_service.grpc.pb.h"
#include "tests/support/grpc_edge_fixture.h"

namespace stint::api {
namespace {

using testing::CallWithBytes;
using testing::DetailsOf;
using testing::FieldsOf;
using ::testing::HasSubstr;
using testing::Health;
using testing::ReasonOf;
using ::testing::StartsWith;
using testing::TestServer;

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
  EXPECT_THAT(status.error_message(),
              StartsWith("the call must be at most 3670016 bytes, has 20971"));
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

TEST(GrpcServerTest, HealthFollowsTheBroker) {
  using grpc::health::v1::HealthCheckResponse;
  TestServer server;
  EXPECT_EQ(Health(server.Connect()), HealthCheckResponse::NOT_SERVING);
  server.server().SetServing(true);
  EXPECT_EQ(Health(server.Connect()), HealthCheckResponse::SERVING);
  server.server().SetServing(false);
  EXPECT_EQ(Health(server.Connect()), HealthCheckResponse::NOT_SERVING);
}

}  // namespace
}  // namespace stint::api
