// Changes every job of a queue that a filter matches: counts, asks, and goes on step by step,
// each a call of its own, until all have been looked at.
// Thread rule: one thread.
#ifndef STINT_CLIENT_CLI_JOBS_BATCH_H_
#define STINT_CLIENT_CLI_JOBS_BATCH_H_

#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "client/cli/job_filter.h"
#include "client/cli/session.h"

namespace stint::cli {

struct BatchOptions {
  std::string queue;
  FilterOptions filter;
  bool dry_run = false;
  bool yes = false;
};

// Adds --queue, the filter, --dry-run and --yes.
void AddBatchFlags(CLI::App* command, BatchOptions* options);

// One step; the request in it has queue, filter, page token and dry run.
using BatchStep = std::function<absl::StatusOr<v1::BatchResult>(
    client::Client&, const v1::BatchCancelJobsRequest& request)>;

// `verb` and `done` such as "cancel" and "cancelled".
int ChangeMatching(const BatchOptions& options, Session& session, const std::string& verb,
                   const std::string& done, const BatchStep& step);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_JOBS_BATCH_H_
