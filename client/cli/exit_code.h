// What `stint` says when a call fails: exit code, reason, and what to do next.
// The codes are part of the interface: scripts decide by them (README.md).
// Thread rule: no state.
#ifndef STINT_CLIENT_CLI_EXIT_CODE_H_
#define STINT_CLIENT_CLI_EXIT_CODE_H_

#include <string>

#include "absl/status/status.h"

namespace stint::cli {

enum ExitCode : int {
  kOk = 0,
  kRefused = 1,       // The broker refused the call, or the output could not be written.
  kUsage = 2,         // Wrong command line, or a file of it cannot be read.
  kUnreachable = 3,   // No broker answered in time, or it is starting or stopping.
  kNotFound = 4,      // No such job or queue; `lease`: no job came.
  kWrongState = 5,    // The lease is lost, or the job's or queue's state does not allow it.
  kNotCompleted = 6,  // `jobs wait`: the job ended, but not as COMPLETED.
  kStillRunning = 7,  // `jobs wait`: the job has not ended in the time given.
};

// Text of `stint help exit-codes`.
extern const char kExitCodesHelp[];

ExitCode ExitCodeFor(const absl::Status& status);

// What a person can do about it; empty when there is nothing to add.
std::string AdviceFor(const absl::Status& status, const std::string& address);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_EXIT_CODE_H_
