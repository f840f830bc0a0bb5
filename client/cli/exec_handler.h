// The handler of `stint work --exec`: one run of a command for each job.
//
//   standard input    the payload (or the last argument, with `payload_as_argument`)
//   standard output   the result
//   standard error    its tail becomes the error text of a failure
//   environment       STINT_JOB STINT_ATTEMPT STINT_TOKEN STINT_QUEUE STINT_KIND STINT_WORKER
//                     STINT_ADDRESS
//   exit code         0 completes · 100 fails and is never retried · others fail
//
// A cancel, a lost lease or the worker's end send SIGTERM to the command's process group, and
// SIGKILL after `kill_grace`; at the worker's end almost at once, since the worker's own grace
// has passed by then and the job goes to somebody else.
//
// Thread rule: Handle from any thread.
#ifndef STINT_CLIENT_CLI_EXEC_HANDLER_H_
#define STINT_CLIENT_CLI_EXEC_HANDLER_H_

#include <string>
#include <vector>

#include "client/cli/child_process.h"
#include "client/cpp/worker.h"

namespace stint::cli {

// Exit code that makes a job a dead letter at once.
inline constexpr int kNoRetryExitCode = 100;

struct ExecOptions {
  size_t max_result_bytes = 1024 * 1024;
  absl::Duration run_limit = absl::InfiniteDuration();
  absl::Duration kill_grace = absl::Seconds(5);
  bool payload_as_argument = false;
  std::string address;
  std::string worker;
};

class ExecHandler {
 public:
  ExecHandler(Command command, ExecOptions options);

  client::Result Handle(client::JobContext& job) const;

 private:
  std::vector<std::string> Environment(const client::JobContext& job) const;
  client::Result Judge(const client::JobContext& job, ChildResult child) const;

  const Command command_;
  const ExecOptions options_;
  std::vector<std::string> inherited_;  // our environment without what we set
};

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_EXEC_HANDLER_H_
