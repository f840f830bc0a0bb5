// Runs one command as a child process in a process group of its own, with bytes on its
// standard input and what it prints collected within limits.
//
// How it is used: parse the command once, run it for each job. The caller ends it early by
// making `cancel_fd` readable: the group gets SIGTERM, and SIGKILL when it is still there after
// the grace.
//
// What it does not do: it does not wait for processes that the command leaves in the
// background, unless it was told to end it; then the whole group is killed.
//
// Thread rule: any thread, one call each.
#ifndef STINT_CLIENT_CLI_CHILD_PROCESS_H_
#define STINT_CLIENT_CLI_CHILD_PROCESS_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace stint::cli {

class Command {
 public:
  // `text` is a shell command. One without anything that means something to a shell, whose
  // program is found in PATH, is started without a shell, which is much cheaper.
  // INVALID_ARGUMENT for an empty command.
  static absl::StatusOr<Command> Parse(absl::string_view text);

  // INVALID_ARGUMENT for one word after the other of which the first is neither a program in PATH
  // nor anything the shell knows. Of a command with shell characters nothing can be said.
  absl::Status CheckKnown() const;

  bool uses_shell() const { return shell_; }
  // What to execute. With `extra` it is one more argument; no shell reads it.
  std::vector<std::string> Arguments(const std::string* extra) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::vector<std::string> arguments_;
  bool shell_ = false;
  std::string unfound_;  // the first word of a plain command that is no program in PATH
};

struct ChildOptions {
  std::vector<std::string> environment;  // KEY=VALUE, complete
  std::string input;
  const std::string* argument = nullptr;  // see Command::Arguments
  size_t max_output_bytes = 0;
  size_t max_error_bytes = 0;
  int cancel_fd = -1;
  absl::Duration run_limit = absl::InfiniteDuration();
  // Asked when SIGTERM is sent: how long until SIGKILL.
  std::function<absl::Duration()> kill_grace;
};

struct ChildResult {
  int exit_code = -1;  // -1: ended by `signal`
  int signal = 0;
  std::string output;       // the first max_output_bytes
  size_t output_bytes = 0;  // all it printed
  std::string error_tail;   // the last max_error_bytes of standard error
  bool cancelled = false;   // ended because of cancel_fd
  bool over_run_limit = false;
};

// Whether this kernel can watch child processes (pidfd_open, Linux 5.3). Asked once, before a job
// is taken, so that no job fails for it.
absl::Status CheckCanRunChildren();

// An error when the process could not be started.
absl::StatusOr<ChildResult> RunChild(const Command& command, const ChildOptions& options);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_CHILD_PROCESS_H_
