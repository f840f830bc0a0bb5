// Calls, their repeats, and the connection they go by.
#include "client/cpp/client.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "client/cpp/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_broker.h"
#include "tests/support/test_certificates.h"
#include "tests/unit/client_fake_clock.h"

namespace stint::testing {
namespace {

using client::Client;
using client::Connection;
using client::ConnectionOptions;
using ::testing::HasSubstr;

class ClientTest : public ::testing::Test {
 protected:
  Client MakeClient(const std::string& token_file = "") {
    ConnectionOptions options;
    options.address = broker_.address();
    options.token_file = token_file;
    return Client(*Connection::Open(options), &clock_);
  }

  std::string WriteFile(const std::string& name, const std::string& content) {
    const std::string path = ::testing::TempDir() + name;
    std::ofstream(path) << content;
    return path;
  }

  static v1::EnqueueJobRequest Job(const std::string& queue, const std::string& payload = "") {
    v1::EnqueueJobRequest request;
    request.set_queue(queue);
    request.mutable_job()->set_payload(payload);
    return request;
  }

  FakeBroker broker_;
  SteppingClock clock_;
};

TEST_F(ClientTest, EveryChangingCallCarriesARequestId) {
  Client client = MakeClient();
  const std::string job = client.EnqueueJob(Job("q"))->job();
  v1::BatchEnqueueJobsRequest batch;
  batch.set_queue("q");
  batch.add_items();
  EXPECT_TRUE(client.BatchEnqueueJobs(batch).ok());
  v1::CancelJobRequest cancel;
  cancel.set_job(job);
  EXPECT_TRUE(client.CancelJob(cancel).ok());
  v1::DeleteJobRequest remove;
  remove.set_job(job);
  EXPECT_TRUE(client.DeleteJob(remove).ok());
  v1::PauseQueueRequest pause;
  pause.set_queue("q");
  EXPECT_TRUE(client.PauseQueue(pause).ok());
  EXPECT_EQ(broker_.Requests<v1::EnqueueJobRequest>("EnqueueJob")[0].request_id().size(), 32U);
  EXPECT_EQ(
      broker_.Requests<v1::BatchEnqueueJobsRequest>("BatchEnqueueJobs")[0].request_id().size(),
      32U);
  EXPECT_EQ(broker_.Requests<v1::CancelJobRequest>("CancelJob")[0].request_id().size(), 32U);
  EXPECT_EQ(broker_.Requests<v1::DeleteJobRequest>("DeleteJob")[0].request_id().size(), 32U);
  EXPECT_EQ(broker_.Requests<v1::PauseQueueRequest>("PauseQueue")[0].request_id().size(), 32U);
}

TEST_F(ClientTest, TheCallersOwnRequestIdIsKept) {
  v1::EnqueueJobRequest request = Job("q");
  request.set_request_id("mine");
  EXPECT_TRUE(MakeClient().EnqueueJob(request).ok());
  EXPECT_EQ(broker_.Requests<v1::EnqueueJobRequest>("EnqueueJob")[0].request_id(), "mine");
}

TEST_F(ClientTest, ALostAnswerIsRepeatedWithoutASecondEffect) {
  broker_.LoseAnswers("EnqueueJob");
  const auto answer = MakeClient().EnqueueJob(Job("q"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(broker_.Calls("EnqueueJob"), 2);
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_READY), 1);
}

TEST_F(ClientTest, ObeysTheBrokersRetryDelay) {
  broker_.Refuse(
      "EnqueueJob",
      {absl::StatusCode::kResourceExhausted, "OVERLOADED", "busy", absl::Seconds(3), {}});
  EXPECT_TRUE(MakeClient().EnqueueJob(Job("q")).ok());
  ASSERT_EQ(clock_.Waits().size(), 1U);
  EXPECT_GE(clock_.Waits()[0], absl::Seconds(3));
}

TEST_F(ClientTest, GivesUpAfterTheTotalWithTheLastError) {
  broker_.Refuse("EnqueueJob", {absl::StatusCode::kUnavailable, "STARTING", "not ready", {}, {}},
                 1000);
  client::CallOptions options;
  options.total = absl::Seconds(10);
  const absl::Duration start = clock_.Now();
  const auto answer = MakeClient().EnqueueJob(Job("q"), options);
  EXPECT_EQ(client::ErrorReason(answer.status()), "STARTING");
  EXPECT_LE(clock_.Now() - start, absl::Seconds(10));
  EXPECT_GE(broker_.Calls("EnqueueJob"), 6);
}

// The time a call may wait at the broker is no time to go on without one.
TEST_F(ClientTest, WaitingCallsGiveUpAfterTheTotalToo) {
  broker_.Refuse("WaitJob", {absl::StatusCode::kUnavailable, "STARTING", "not ready", {}, {}},
                 1000);
  broker_.Refuse("LeaseJobs", {absl::StatusCode::kUnavailable, "STARTING", "not ready", {}, {}},
                 1000);
  client::CallOptions options;
  options.total = absl::Seconds(10);
  int told = 0;
  options.on_repeat = [&told](const absl::Status& why) {
    EXPECT_EQ(client::ErrorReason(why), "STARTING");
    ++told;
  };
  absl::Duration start = clock_.Now();
  const auto job = MakeClient().AwaitJob("queues/q/jobs/1", absl::InfiniteDuration(), options);
  EXPECT_EQ(client::ErrorReason(job.status()), "STARTING");
  EXPECT_LE(clock_.Now() - start, absl::Seconds(10));
  EXPECT_EQ(told, broker_.Calls("WaitJob") - 1);
  EXPECT_GE(told, 5);
  start = clock_.Now();
  EXPECT_FALSE(MakeClient().AwaitJob("queues/q/jobs/1", absl::Seconds(2), options).ok());
  EXPECT_LE(clock_.Now() - start, absl::Seconds(2));
  start = clock_.Now();
  v1::LeaseJobsRequest lease;
  lease.add_queues("q");
  lease.set_worker("me");
  EXPECT_FALSE(MakeClient().LeaseJobs(lease, options).ok());
  EXPECT_LE(clock_.Now() - start, absl::Seconds(10));
}

// A call that ran into its deadline says nothing about the job.
TEST_F(ClientTest, ABrokerThatDoesNotAnswerIsNotAJobThatHasNotEnded) {
  broker_.Refuse("WaitJob", {absl::StatusCode::kDeadlineExceeded, "", "too late", {}, {}}, 1000);
  client::CallOptions options;
  options.total = absl::Seconds(5);
  EXPECT_TRUE(absl::IsUnavailable(
      MakeClient().AwaitJob("queues/q/jobs/1", absl::InfiniteDuration(), options).status()));
}

TEST_F(ClientTest, WithoutATotalThereIsOneTry) {
  broker_.Refuse("EnqueueJob", {});
  client::CallOptions options;
  options.total = absl::ZeroDuration();
  EXPECT_TRUE(absl::IsUnavailable(MakeClient().EnqueueJob(Job("q"), options).status()));
  EXPECT_EQ(broker_.Calls("EnqueueJob"), 1);
}

TEST_F(ClientTest, ARefusalIsReturnedAtOnceAndInFull) {
  broker_.Refuse("EnqueueJob", {absl::StatusCode::kInvalidArgument,
                                "INVALID_REQUEST",
                                "two fields are wrong",
                                {},
                                {{"queue", "is empty"}, {"job.kind", "is too long"}}});
  const auto answer = MakeClient().EnqueueJob(Job(""));
  EXPECT_EQ(client::ErrorReason(answer.status()), "INVALID_REQUEST");
  EXPECT_EQ(answer.status().message(), "two fields are wrong");
  ASSERT_EQ(client::FieldViolations(answer.status()).size(), 2U);
  EXPECT_EQ(client::FieldViolations(answer.status())[1].field, "job.kind");
  EXPECT_EQ(broker_.Calls("EnqueueJob"), 1);
}

// An answer lost here could not be found again, so the call is not repeated.
TEST_F(ClientTest, ALeaseWithoutAWorkerIsAskedForOnce) {
  broker_.Refuse("LeaseJobs", {});
  v1::LeaseJobsRequest request;
  request.add_queues("q");
  EXPECT_TRUE(absl::IsUnavailable(MakeClient().LeaseJobs(request).status()));
  EXPECT_EQ(broker_.Calls("LeaseJobs"), 1);
}

TEST_F(ClientTest, ALeaseWithAWorkerIsRepeatedWithItsRequestId) {
  broker_.AddJob("q");
  broker_.LoseAnswers("LeaseJobs");
  v1::LeaseJobsRequest request;
  request.add_queues("q");
  request.set_worker("me");
  const auto answer = MakeClient().LeaseJobs(request);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->leases_size(), 1);
  EXPECT_EQ(broker_.MostLeased(), 1);
}

TEST_F(ClientTest, AwaitsTheEndOfAJob) {
  Client client = MakeClient();
  const std::string job = client.EnqueueJob(Job("q"))->job();
  v1::LeaseJobsRequest lease;
  lease.add_queues("q");
  const auto leases = client.LeaseJobs(lease);
  ASSERT_TRUE(leases.ok());
  v1::CompleteJobRequest complete;
  complete.set_job(job);
  complete.set_token(leases->leases(0).token());
  complete.set_result("done");
  EXPECT_TRUE(client.CompleteJob(complete).ok());
  const auto ended = client.AwaitJob(job, absl::Seconds(1));
  ASSERT_TRUE(ended.ok());
  EXPECT_EQ(ended->result(), "done");
}

TEST_F(ClientTest, AwaitingHasALimit) {
  Client client = MakeClient();
  const std::string job = client.EnqueueJob(Job("q"))->job();
  EXPECT_TRUE(absl::IsDeadlineExceeded(client.AwaitJob(job, absl::ZeroDuration()).status()));
}

// S64: one byte under the limit, at it, and one over, through every step.
TEST_F(ClientTest, S64PayloadsAtTheLimit) {
  Client client = MakeClient();
  const size_t limit = FakeBroker::kMaxPayloadBytes;
  for (const size_t size : {limit - 1, limit}) {
    v1::EnqueueJobRequest request = Job(std::string(128, 'q'), std::string(size, 'x'));
    for (int i = 0; i < 32; ++i) {
      (*request.mutable_job()->mutable_headers())[std::to_string(i)] = std::string(100, 'h');
    }
    ASSERT_TRUE(client.EnqueueJob(request).ok()) << size;
    v1::LeaseJobsRequest lease;
    lease.add_queues(request.queue());
    const auto leases = client.LeaseJobs(lease);
    ASSERT_TRUE(leases.ok()) << leases.status();
    EXPECT_EQ(leases->leases(0).payload().size(), size);
    v1::ListJobsRequest list;
    list.set_queue(request.queue());
    list.set_view(v1::JOB_VIEW_FULL);
    EXPECT_TRUE(client.ListJobs(list).ok());
    v1::CompleteJobRequest complete;
    complete.set_job(leases->leases(0).job());
    complete.set_token(leases->leases(0).token());
    complete.set_result(std::string(size, 'r'));
    EXPECT_TRUE(client.CompleteJob(complete).ok());
  }
  const auto refused = client.EnqueueJob(Job("q", std::string(limit + 1, 'x')));
  ASSERT_EQ(client::FieldViolations(refused.status()).size(), 1U);
  EXPECT_THAT(client::FieldViolations(refused.status())[0].description, HasSubstr("1048577"));
}

TEST_F(ClientTest, ChecksHealth) {
  const auto health = MakeClient().CheckHealth();
  ASSERT_TRUE(health.ok()) << health.status();
  EXPECT_EQ(*health, client::HealthStatus::kServing);
}

TEST_F(ClientTest, SendsTheTokenAndReadsItAgainWhenItIsRefused) {
  const std::string path = WriteFile("token", "first\n");
  broker_.RequireToken("first");
  Client client = MakeClient(path);
  EXPECT_TRUE(client.GetServerInfo().ok());
  broker_.RequireToken("second");
  EXPECT_TRUE(absl::IsUnauthenticated(client.GetServerInfo().status()));
  WriteFile("token", "  second  \n");
  EXPECT_TRUE(client.GetServerInfo().ok());
}

TEST_F(ClientTest, SaysWhatIsWrongWithCredentialFiles) {
  ConnectionOptions options;
  options.address = broker_.address();
  options.token_file = ::testing::TempDir() + "no-such-token";
  absl::Status status = Connection::Open(options).status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no-such-token"));
  options.token_file = WriteFile("empty-token", " \n");
  EXPECT_TRUE(absl::IsInvalidArgument(Connection::Open(options).status()));
  options.token_file = WriteFile("two-tokens", "one\ntwo\n");
  EXPECT_TRUE(absl::IsInvalidArgument(Connection::Open(options).status()));
  options.token_file = "";
  options.tls_cert_file = WriteFile("cert.pem", "x");
  EXPECT_TRUE(absl::IsInvalidArgument(Connection::Open(options).status()));
}

TEST_F(ClientTest, SpeaksTlsAndShowsItsCertificate) {
  const TestAuthority authority;
  const Pem server = authority.Issue("broker");
  const Pem own = authority.Issue("client");
  const FakeBroker secure(TlsIdentity{authority.pem(), server.certificate, server.key});
  ConnectionOptions options;
  options.address = secure.address();
  options.tls_ca_file = WriteFile("ca.pem", authority.pem());
  options.tls_cert_file = WriteFile("own.pem", own.certificate);
  options.tls_key_file = WriteFile("own.key", own.key);
  client::CallOptions once;
  once.total = absl::ZeroDuration();
  EXPECT_TRUE(Client(*Connection::Open(options)).GetServerInfo(once).ok());
  // An authority that does not know the broker, no certificate, no TLS.
  ConnectionOptions stranger = options;
  stranger.tls_ca_file = WriteFile("other-ca.pem", TestAuthority().pem());
  EXPECT_FALSE(Client(*Connection::Open(stranger)).GetServerInfo(once).ok());
  ConnectionOptions nameless = options;
  nameless.tls_cert_file.clear();
  nameless.tls_key_file.clear();
  EXPECT_FALSE(Client(*Connection::Open(nameless)).GetServerInfo(once).ok());
  ConnectionOptions plain;
  plain.address = secure.address();
  EXPECT_FALSE(Client(*Connection::Open(plain)).GetServerInfo(once).ok());
  EXPECT_EQ(secure.Calls("GetServerInfo"), 1);
}

TEST_F(ClientTest, ReadsItsOptionsFromTheEnvironment) {
  EXPECT_EQ(setenv("STINT_ADDRESS", "broker.example:7150", 1), 0);
  EXPECT_EQ(setenv("STINT_TLS_CA", "", 1), 0);
  const ConnectionOptions options = ConnectionOptions::FromEnvironment();
  unsetenv("STINT_ADDRESS");
  unsetenv("STINT_TLS_CA");
  EXPECT_EQ(options.address, "broker.example:7150");
  EXPECT_EQ(options.tls_ca_file, "");
  EXPECT_EQ(ConnectionOptions::FromEnvironment().address, "127.0.0.1:7150");
}

TEST_F(ClientTest, ACancelledCallEndsAtOnce) {
  ConnectionOptions options;
  options.address = broker_.address();
  auto connection = *Connection::Open(options);
  client::CallCanceller canceller;
  v1::LeaseJobsRequest request;
  request.add_queues("q");
  request.mutable_wait()->set_seconds(60);
  v1::LeaseJobsResponse response;
  canceller.Cancel();
  const auto call = [&] {
    return connection->Call("/stint.v1.WorkerService/LeaseJobs", request, &response,
                            absl::Seconds(60), &canceller);
  };
  EXPECT_TRUE(absl::IsCancelled(call()));
  EXPECT_EQ(broker_.Calls("LeaseJobs"), 0);
  canceller.Reset();
  std::thread other([&] {
    broker_.WaitForCalls("LeaseJobs", 1);
    canceller.Cancel();
  });
  EXPECT_TRUE(absl::IsCancelled(call()));
  other.join();
}

}  // namespace
}  // namespace stint::testing
