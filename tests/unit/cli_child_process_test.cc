// Running commands: pipes, limits, exit codes, ends.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>

#include "client/cli/child_process.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stint::cli {
namespace {

class ChildProcessTest : public ::testing::Test {
 protected:
  ChildProcessTest() {
    std::signal(SIGPIPE, SIG_IGN);
    options_.environment = {"PATH=/usr/bin:/bin", "NAME=value"};
    options_.max_output_bytes = 1024 * 1024;
    options_.max_error_bytes = 100;
    options_.cancel_fd = cancel_;
    options_.kill_grace = [] { return absl::Hours(1); };
  }
  ~ChildProcessTest() override { close(cancel_); }

  ChildResult Run(absl::string_view command) {
    const auto parsed = Command::Parse(command);
    EXPECT_TRUE(parsed.ok());
    auto result = RunChild(*parsed, options_);
    EXPECT_TRUE(result.ok()) << result.status();
    return *std::move(result);
  }

  int cancel_ = eventfd(0, EFD_CLOEXEC);
  ChildOptions options_;
};

TEST_F(ChildProcessTest, GivesInputAndTakesOutput) {
  options_.input = "hello";
  const ChildResult result = Run("cat");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output, "hello");
}

TEST_F(ChildProcessTest, UsesAShellOnlyWhenNeeded) {
  EXPECT_FALSE(Command::Parse("cat -u")->uses_shell());
  for (const char* const text : {"cat | cat", "exit 3", "A=b env", "cat <x", "echo $HOME",
                                 "no-such-program-anywhere", "echo 'a'"}) {
    EXPECT_TRUE(Command::Parse(text)->uses_shell()) << text;
  }
  EXPECT_FALSE(Command::Parse("").ok());
  EXPECT_FALSE(Command::Parse("   ").ok());
  EXPECT_EQ(Run("exit 3").exit_code, 3);
  EXPECT_EQ(Run("printf %s \"$NAME\"").output, "value");
  EXPECT_EQ(Run("no-such-program-anywhere").exit_code, 127);
}

// Whatever the argument holds, no shell reads it.
TEST_F(ChildProcessTest, AnArgumentIsNeverReadByAShell) {
  const std::string hostile = "$(echo pwned); 'x' \n --help";
  options_.argument = &hostile;
  EXPECT_EQ(Run("printf %s").output, hostile);
  EXPECT_EQ(Run("cat /dev/null; printf %s").output, hostile);
}

// More than a pipe holds, in both directions at once.
TEST_F(ChildProcessTest, LargeInputAndOutputDoNotBlockEachOther) {
  options_.input = std::string(1024 * 1024, 'x');
  EXPECT_EQ(Run("cat").output, options_.input);
}

TEST_F(ChildProcessTest, ACommandNeedNotReadItsInput) {
  options_.input = std::string(1024 * 1024, 'x');
  EXPECT_EQ(Run("true").exit_code, 0);
}

TEST_F(ChildProcessTest, KeepsTheBeginningOfOutputAndTheEndOfErrors) {
  options_.max_output_bytes = 10;
  const ChildResult result = Run("seq 1 100000; seq 1 100000 >&2");
  EXPECT_EQ(result.output, "1\n2\n3\n4\n5\n");
  EXPECT_EQ(result.output_bytes, 588895U);
  EXPECT_EQ(result.error_tail.size(), 100U);
  EXPECT_THAT(result.error_tail, ::testing::EndsWith("99999\n100000\n"));
}

TEST_F(ChildProcessTest, SaysWhichSignalEndedIt) {
  const ChildResult result = Run("kill -USR1 $$");
  EXPECT_EQ(result.exit_code, -1);
  EXPECT_EQ(result.signal, SIGUSR1);
}

// The whole group: the shell and what it started.
TEST_F(ChildProcessTest, ACancelEndsTheGroup) {
  eventfd_write(cancel_, 1);
  const ChildResult result = Run("cat /dev/zero >/dev/null & wait");
  EXPECT_TRUE(result.cancelled);
  EXPECT_EQ(result.signal, SIGTERM);
}

TEST_F(ChildProcessTest, ACommandMayEndItsOwnWayWhenCancelled) {
  options_.cancel_fd = -1;
  options_.run_limit = absl::Milliseconds(1);
  const ChildResult result = Run("trap 'echo bye; exit 7' TERM; while :; do :; done");
  EXPECT_TRUE(result.over_run_limit);
  // SIGTERM may come before the trap is set.
  EXPECT_TRUE(result.exit_code == 7 || result.signal == SIGTERM);
}

TEST_F(ChildProcessTest, IsKilledWhenItIgnoresTheEnd) {
  options_.kill_grace = [] { return absl::ZeroDuration(); };
  eventfd_write(cancel_, 1);
  const ChildResult result = Run("trap '' TERM; while :; do :; done");
  EXPECT_TRUE(result.cancelled);
  EXPECT_TRUE(result.signal == SIGKILL || result.signal == SIGTERM);
}

// A process left in the background holds the pipes open; the job has ended all the same.
TEST_F(ChildProcessTest, DoesNotWaitForWhatIsLeftBehind) {
  const ChildResult result = Run("cat /dev/zero >/dev/null & echo $!");
  EXPECT_EQ(result.exit_code, 0);
  const int left = std::stoi(result.output);
  EXPECT_EQ(kill(left, SIGKILL), 0);
}

// SIGPIPE is ignored here and SIGTERM blocked; the command has both as usual.
TEST_F(ChildProcessTest, SignalsAreNotInherited) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  EXPECT_EQ(Run("kill -TERM $$; echo alive").signal, SIGTERM);
  EXPECT_EQ(Run("kill -PIPE $$; echo alive").signal, SIGPIPE);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST_F(ChildProcessTest, DescriptorsAreNotInherited) {
  // What this test's process was started with is not ours to judge.
  for (int fd = 3; fd < 1024; ++fd) fcntl(fd, F_SETFD, FD_CLOEXEC);
  EXPECT_EQ(Run("ls /proc/self/fd").output, "0\n1\n2\n3\n");  // 3 is the folder itself
}

}  // namespace
}  // namespace stint::cli
