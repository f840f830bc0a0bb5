// `stint work`: in the test's process, and as a process of its own for signals.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "gmock/gmock.h"
#include "tests/unit/cli_fixture.h"

namespace stint::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class WorkTest : public CliTest {
 protected:
  // Works until the queue `q` is empty.
  int Work(const std::string& command, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"work", "q", "--exec", command, "--exit-when-empty"});
    return Run(more);
  }

  // Starts the binary, working on the queue `q`.
  pid_t StartBinary(const std::string& command, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {STINT_BINARY, "work",           "q", "--exec", command,
                                          "--address",  broker_.address()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_t pid = -1;
    EXPECT_EQ(posix_spawn(&pid, STINT_BINARY, nullptr, nullptr, pointers.data(), environ), 0);
    return pid;
  }

  static int ExitCode(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
};

TEST_F(WorkTest, PayloadInResultOut) {
  const std::string job = broker_.AddJob("q", "hello");
  EXPECT_EQ(Work("tr a-z A-Z"), cli::kOk);
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(broker_.GetJob(job).result(), "HELLO");
  EXPECT_EQ(err_, "stint: 1 completed, 0 failed, 0 handed back, 0 lost\n");
}

TEST_F(WorkTest, TheCommandKnowsItsJob) {
  v1::JobSpec spec;
  spec.set_kind("greet");
  const std::string job = broker_.AddJob("q", spec);
  EXPECT_EQ(Work("echo $STINT_JOB $STINT_QUEUE $STINT_KIND $STINT_ATTEMPT $STINT_TOKEN "
                 "$STINT_WORKER $STINT_ADDRESS",
                 {"--worker", "me"}),
            cli::kOk);
  EXPECT_EQ(broker_.GetJob(job).result(),
            job + " q greet 1 1000000 me " + broker_.address() + "\n");
}

TEST_F(WorkTest, ExitCodesDecide) {
  const std::string failed = broker_.AddJob("q", "3");
  const std::string rejected = broker_.AddJob("q", "100");
  EXPECT_EQ(Work("read -r code; echo said $code >&2; exit $code"), cli::kOk);
  EXPECT_EQ(broker_.GetJob(failed).state(), v1::JOB_STATE_DELAYED);
  EXPECT_EQ(broker_.GetJob(failed).last_error(), "exit code 3\nsaid 3\n");
  EXPECT_EQ(broker_.GetJob(rejected).state(), v1::JOB_STATE_DEAD);
  EXPECT_EQ(broker_.GetJob(rejected).last_error(), "exit code 100\nsaid 100\n");
}

TEST_F(WorkTest, ACommandEndedByASignalFails) {
  const std::string job = broker_.AddJob("q");
  EXPECT_EQ(Work("kill -SEGV $$"), cli::kOk);
  EXPECT_EQ(broker_.GetJob(job).last_error(),
            "the command was killed by signal 11 (Segmentation fault)");
}

// S65 for commands: what is printed over the limit is never kept in memory or sent.
TEST_F(WorkTest, S65AResultOverTheLimitFailsAndSaysSo) {
  const std::string at_limit = broker_.AddJob("q", "1048576");
  const std::string over = broker_.AddJob("q", "1048577");
  EXPECT_EQ(Work("read -r size; head -c $size /dev/zero"), cli::kOk);
  EXPECT_EQ(broker_.GetJob(at_limit).state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(broker_.GetJob(over).last_error(),
            "the command printed 1048577 bytes; a result is at most 1048576 bytes");
}

TEST_F(WorkTest, ALongErrorKeepsItsEnd) {
  const std::string job = broker_.AddJob("q");
  EXPECT_EQ(Work("seq 1 100000 >&2; exit 1"), cli::kOk);
  EXPECT_LE(broker_.GetJob(job).last_error().size(), 8192U);
  EXPECT_THAT(broker_.GetJob(job).last_error(), StartsWith("exit code 1\n"));
  EXPECT_THAT(broker_.GetJob(job).last_error(), EndsWith("99999\n100000\n"));
}

TEST_F(WorkTest, ThePayloadMayBeTheLastArgument) {
  const std::string job = broker_.AddJob("q", "a  b; $(echo c)");
  const std::string zero = broker_.AddJob("q", std::string("\0", 1));
  EXPECT_EQ(Work("echo", {"--payload-arg"}), cli::kOk);
  EXPECT_EQ(broker_.GetJob(job).result(), "a  b; $(echo c)\n");
  EXPECT_EQ(broker_.GetJob(zero).state(), v1::JOB_STATE_DEAD);
}

TEST_F(WorkTest, EndsACommandOverItsRunLimit) {
  const std::string job = broker_.AddJob("q");
  EXPECT_EQ(Work("cat /dev/zero >/dev/null", {"--run-limit", "1ms"}), cli::kOk);
  EXPECT_EQ(broker_.GetJob(job).last_error(), "the command was ended after 1ms");
}

TEST_F(WorkTest, PrintsALineForEachJob) {
  broker_.AddJob("q");
  EXPECT_EQ(Work("true", {"--verbose"}), cli::kOk);
  EXPECT_THAT(err_, HasSubstr("completed queues/q/jobs/j1 attempt 1 "));
  broker_.AddJob("q");
  EXPECT_EQ(Work("echo no mail >&2; exit 3", {"--verbose", "--max-jobs", "1"}), cli::kOk);
  EXPECT_THAT(err_, HasSubstr(": exit code 3: no mail\n"));
  broker_.AddJob("q");
  EXPECT_EQ(Work("exit 1", {"--json"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("\"job\":\"queues/q/jobs/j3\""));
  EXPECT_THAT(out_, HasSubstr("\"error\":\"exit code 1\""));
  EXPECT_THAT(out_, HasSubstr("\"outcome\":\"failed\""));
}

TEST_F(WorkTest, ManyJobsManyAtATime) {
  for (int i = 0; i < 300; ++i) broker_.AddJob("q", std::to_string(i));
  EXPECT_EQ(Work("cat", {"--concurrency", "8"}), cli::kOk);
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_COMPLETED), 300);
  EXPECT_EQ(broker_.GetJob("queues/q/jobs/j7").result(), "6");
}

TEST_F(WorkTest, EndsWhenTheBrokerRefusesIt) {
  broker_.RequireToken("secret");
  EXPECT_EQ(Work("true"), cli::kRefused);
  EXPECT_THAT(err_, HasSubstr("UNAUTHENTICATED"));
}

// The command tells through the broker itself that it has begun: it enqueues a job.
constexpr char kTellAndHang[] =
    STINT_BINARY " enqueue started -q --payload ''; trap 'exit 1' TERM; while :; do :; done";

TEST_F(WorkTest, ATermSignalLetsJobsEndWithinTheGrace) {
  const std::string job = broker_.AddJob("q");
  const pid_t pid = StartBinary(STINT_BINARY " enqueue started -q --payload ''; " STINT_BINARY
                                             " jobs wait started/j2 --for 30s >/dev/null; echo ok");
  broker_.WaitForCalls("WaitJob", 1);
  ASSERT_EQ(kill(pid, SIGTERM), 0);
  // The command waits for this job; its cancel ends the wait.
  EXPECT_EQ(Run({"jobs", "cancel", "started/j2"}), cli::kOk);
  EXPECT_EQ(ExitCode(pid), cli::kOk);
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(broker_.GetJob(job).result(), "ok\n");
}

// S57: at the end of the grace the command is ended and the job handed back.
TEST_F(WorkTest, S57WithoutGraceTheJobIsHandedBack) {
  const std::string job = broker_.AddJob("q");
  const pid_t pid = StartBinary(kTellAndHang, {"--grace", "0s"});
  broker_.WaitForCount("started", v1::JOB_STATE_READY, 1);
  ASSERT_EQ(kill(pid, SIGTERM), 0);
  EXPECT_EQ(ExitCode(pid), cli::kOk);
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_READY);
  EXPECT_EQ(broker_.GetJob(job).attempt(), 1);
}

TEST_F(WorkTest, ASecondSignalEndsTheGrace) {
  const std::string job = broker_.AddJob("q");
  const pid_t pid = StartBinary(kTellAndHang, {"--grace", "1h"});
  broker_.WaitForCount("started", v1::JOB_STATE_READY, 1);
  ASSERT_EQ(kill(pid, SIGINT), 0);
  ASSERT_EQ(kill(pid, SIGTERM), 0);
  EXPECT_EQ(ExitCode(pid), cli::kOk);
  EXPECT_EQ(broker_.GetJob(job).state(), v1::JOB_STATE_READY);
}

// The heartbeat says that the job was cancelled; the command's group is ended.
TEST_F(WorkTest, ACancelledJobsCommandIsEnded) {
  const std::string job = broker_.AddJob("q");
  const pid_t pid = StartBinary(kTellAndHang, {"--lease", "1s"});
  broker_.WaitForCount("started", v1::JOB_STATE_READY, 1);
  EXPECT_EQ(Run({"jobs", "cancel", "q/j1"}), cli::kOk);
  broker_.WaitForState(job, v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(broker_.GetJob(job).last_error(), "the command was ended: a cancel was asked for");
  ASSERT_EQ(kill(pid, SIGTERM), 0);
  EXPECT_EQ(ExitCode(pid), cli::kOk);
}

TEST_F(WorkTest, ALostLeaseEndsTheCommandAndSendsNothing) {
  const std::string job = broker_.AddJob("q");
  const pid_t pid = StartBinary(kTellAndHang, {"--lease", "1s", "--max-jobs", "1"});
  broker_.WaitForCount("started", v1::JOB_STATE_READY, 1);
  broker_.TakeOver(job);
  EXPECT_EQ(ExitCode(pid), cli::kOk);
  EXPECT_EQ(broker_.GetJob(job).holder().worker(), "another");
  EXPECT_EQ(broker_.Calls("SettleJobs"), 0);
}

}  // namespace
}  // namespace stint::testing
