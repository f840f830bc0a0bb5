// stintd as a process: how it refuses to start, what it says, how it stops.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "stint/v1/admin_service.grpc.pb.h"
#include "stint/v1/job_service.grpc.pb.h"
#include "stint/v1/worker_service.grpc.pb.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace stint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::Process;

// The address in a line such as "… ready address=127.0.0.1:4711 version=…"; "" when the process
// ended before.
std::string AddressOf(Process* stintd) {
  const std::string line = stintd->WaitForLine("ready ");
  const size_t begin = line.find("address=");
  if (begin == std::string::npos) return "";
  return line.substr(begin + 8, line.find(' ', begin) - begin - 8);
}

// A broker in a folder of its own, on any port.
class Stintd {
 public:
  explicit Stintd(const std::vector<std::string>& more = {})
      : process_("stintd", Arguments(folder_.File("data"), more)) {
    address_ = AddressOf(&process_);
    EXPECT_FALSE(address_.empty()) << process_.output();
    channel_ = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  }

  static std::vector<std::string> Arguments(const std::string& data,
                                            const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {"--listen", "127.0.0.1:0", "--data-dir", data};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  Process& process() { return process_; }
  const std::string& address() const { return address_; }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  std::string data() const { return folder_.File("data"); }

 private:
  test::TempFolder folder_;
  Process process_;
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST(StintdTest, BadSettingsAreNamedAndExitWith2) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"--no-such-flag"},
           {"--max-payload", "huge"},
           {"--config", "/nowhere/stintd.toml"},
           {"--memory", "--tokens-file", "/nowhere/tokens"},
           {"--memory", "--server-cert", "/nowhere/cert", "--server-key", "/nowhere/key"}}) {
    Process stintd("stintd", arguments);
    EXPECT_EQ(stintd.WaitForExit(), 2) << stintd.output();
    EXPECT_THAT(stintd.output(),
                ::testing::AnyOf(HasSubstr("no-such-flag"),
                                 HasSubstr("max_payload (--max-payload)"), HasSubstr("/nowhere/")));
  }
}

TEST(StintdTest, BeyondLoopbackItAsksForADecision) {
  Process refused("stintd", {"--memory", "--listen", "0.0.0.0:0"});
  EXPECT_EQ(refused.WaitForExit(), 2);
  EXPECT_THAT(refused.output(), AllOf(HasSubstr("docker run -e STINT_INSECURE=1"),
                                      HasSubstr("STINT_TOKENS_FILE=/run/stint/tokens")));

  Process insecure("stintd", {"--memory"}, {"STINT_LISTEN=0.0.0.0:0", "STINT_INSECURE=1"});
  EXPECT_THAT(AddressOf(&insecure), Not(IsEmpty())) << insecure.output();
}

TEST(StintdTest, TokensOverPlaintextAreWarnedOf) {
  const test::TempFolder folder;
  test::WriteFile(folder.File("tokens"), "t all sha256:" + std::string(64, 'a') + "\n");
  Process stintd("stintd",
                 {"--memory", "--listen", "0.0.0.0:0", "--tokens-file", folder.File("tokens")});
  EXPECT_THAT(stintd.WaitForLine("plaintext"), HasSubstr("require_tls"));
  EXPECT_THAT(AddressOf(&stintd), Not(IsEmpty()));
}

TEST(StintdTest, MemoryIsSaidLoudly) {
  Process stintd("stintd", {"--memory", "--listen", "127.0.0.1:0"});
  EXPECT_THAT(stintd.WaitForLine("memory"), HasSubstr("NOTHING SURVIVES"));
}

TEST(StintdTest, LogLinesMayBeJson) {
  Process stintd("stintd", {"--memory", "--listen", "127.0.0.1:0", "--log-format", "json"});
  EXPECT_THAT(stintd.WaitForLine("\"message\":\"ready\""),
              AllOf(HasSubstr("{\"time\":\""), HasSubstr("\"level\":\"info\""),
                    HasSubstr("\"store\":\"memory\"")));
}

TEST(StintdTest, TwoBrokersDoNotShareAFolder) {
  Stintd first;
  Process second("stintd", Stintd::Arguments(first.data(), {}));
  EXPECT_EQ(second.WaitForExit(), 3);
  EXPECT_THAT(second.output(),
              AllOf(HasSubstr("is in use"), HasSubstr(std::to_string(first.process().pid()))));
}

TEST(StintdTest, TwoBrokersDoNotShareAPort) {
  Stintd first;
  const test::TempFolder folder;
  Process second("stintd", {"--listen", first.address(), "--data-dir", folder.File("data")});
  EXPECT_EQ(second.WaitForExit(), 5);
  EXPECT_THAT(second.output(), HasSubstr("Address already in use"));
}

TEST(StintdTest, ServesAJobAndKeepsItOverARestart) {
  const test::TempFolder folder;
  std::string name;
  {
    Process stintd("stintd", Stintd::Arguments(folder.File("data"), {}));
    const auto channel =
        grpc::CreateChannel(AddressOf(&stintd), grpc::InsecureChannelCredentials());
    v1::EnqueueJobRequest request;
    request.set_queue("q");
    request.mutable_job()->set_payload("p");
    v1::EnqueueJobResponse response;
    grpc::ClientContext context;
    ASSERT_TRUE(v1::JobService::NewStub(channel)->EnqueueJob(&context, request, &response).ok());
    name = response.job();
    stintd.Signal(SIGKILL);
    EXPECT_EQ(stintd.WaitForExit(), -SIGKILL);
  }
  Process stintd("stintd", Stintd::Arguments(folder.File("data"), {}));
  const auto channel = grpc::CreateChannel(AddressOf(&stintd), grpc::InsecureChannelCredentials());
  v1::LeaseJobsRequest request;
  request.add_queues("q");
  v1::LeaseJobsResponse response;
  grpc::ClientContext context;
  ASSERT_TRUE(v1::WorkerService::NewStub(channel)->LeaseJobs(&context, request, &response).ok());
  ASSERT_EQ(response.leases_size(), 1);
  EXPECT_EQ(response.leases(0).job(), name);
  EXPECT_EQ(response.leases(0).payload(), "p");
}

// Asks for a job that never comes; the answer is there when the broker drains.
grpc::Status LeaseNothing(const std::shared_ptr<grpc::Channel>& channel,
                          v1::LeaseJobsResponse* response) {
  v1::LeaseJobsRequest request;
  request.add_queues("empty");
  request.mutable_wait()->set_seconds(60);
  grpc::ClientContext context;
  return v1::WorkerService::NewStub(channel)->LeaseJobs(&context, request, response);
}

// Returns when `calls` wait at the broker.
void WaitForParkedCalls(const std::shared_ptr<grpc::Channel>& channel, int64_t calls) {
  const auto admin = v1::AdminService::NewStub(channel);
  v1::GetServerInfoResponse info;
  do {
    grpc::ClientContext context;
    ASSERT_TRUE(admin->GetServerInfo(&context, {}, &info).ok());
  } while (info.parked_calls() < calls);
}

TEST(StintdTest, SigtermEndsWaitsEmptyAndExitsWith0) {
  Stintd stintd;
  v1::LeaseJobsResponse response;
  grpc::Status status;
  std::thread worker([&] { status = LeaseNothing(stintd.channel(), &response); });
  WaitForParkedCalls(stintd.channel(), 1);
  stintd.process().Signal(SIGTERM);
  worker.join();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.leases_size(), 0);
  EXPECT_EQ(stintd.process().WaitForExit(), 0) << stintd.process().output();
}

TEST(StintdTest, DrainServerDoesWhatSigtermDoes) {
  Stintd stintd;
  grpc::ClientContext context;
  v1::DrainServerResponse response;
  EXPECT_TRUE(
      v1::AdminService::NewStub(stintd.channel())->DrainServer(&context, {}, &response).ok());
  EXPECT_EQ(stintd.process().WaitForExit(), 0) << stintd.process().output();
}

// Both signals wait for the process when it goes on, and an idle connection keeps the drain from
// ending first.
TEST(StintdTest, ASecondSignalEndsTheDrain) {
  Stintd stintd;
  WaitForParkedCalls(stintd.channel(), 0);
  stintd.process().Signal(SIGSTOP);
  stintd.process().Signal(SIGTERM);
  stintd.process().Signal(SIGINT);
  stintd.process().Signal(SIGCONT);
  EXPECT_EQ(stintd.process().WaitForExit(), 1) << stintd.process().output();
}

TEST(StintdTest, ServerInfoTellsWhatRuns) {
  Stintd stintd({"--max-payload", "2KiB", "--request-window", "2h"});
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(v1::AdminService::NewStub(stintd.channel())->GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.store(), "rocksdb");
  EXPECT_EQ(info.format(), 1);
  EXPECT_THAT(info.version(), Not(IsEmpty()));
  EXPECT_EQ(info.max_payload_bytes(), 2048);
  EXPECT_EQ(info.request_window().seconds(), 7200);
  EXPECT_GE(info.current_time().seconds(), info.start_time().seconds());
  EXPECT_FALSE(info.draining());
}

}  // namespace
}  // namespace stint
