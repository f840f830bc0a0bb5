// The flags that say which jobs of a queue are meant, for `jobs list` and for commands that
// change many jobs.
// Thread rule: one thread.
#ifndef STINT_CLIENT_CLI_JOB_FILTER_H_
#define STINT_CLIENT_CLI_JOB_FILTER_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "client/cli/arguments.h"
#include "client/cpp/proto_time.h"

namespace stint::cli {

struct FilterOptions {
  std::vector<std::string> states;
  std::string kind;
  std::vector<std::string> labels;
  std::string created_after;
  std::string created_before;
  CLI::Option* kind_option = nullptr;

  bool kind_given() const { return kind_option->count() > 0; }
  bool any() const {
    return !states.empty() || kind_given() || !labels.empty() || !created_after.empty() ||
           !created_before.empty();
  }
};

// Adds --state, --kind and --label.
void AddMatchFlags(CLI::App* command, FilterOptions* options);
// Adds --created-after and --created-before as well.
void AddFilterFlags(CLI::App* command, FilterOptions* options);

// `Filter` is v1::ListJobsRequest or v1::JobFilter.
template <typename Filter>
absl::Status ParseFilter(const FilterOptions& options, Filter* filter) {
  absl::Status status = CheckText("--kind", options.kind);
  if (status.ok()) status = ParsePairs(options.labels, filter->mutable_labels());
  if (!status.ok()) return status;
  if (options.kind_given()) filter->set_kind(options.kind);
  for (const std::string& text : options.states) {
    const auto state = ParseState(text);
    if (!state.ok()) return state.status();
    filter->add_states(*state);
  }
  if (!options.created_after.empty()) {
    const auto time = ParseTime(options.created_after);
    if (!time.ok()) return time.status();
    *filter->mutable_created_after() = client::ToProto(*time);
  }
  if (!options.created_before.empty()) {
    const auto time = ParseTime(options.created_before);
    if (!time.ok()) return time.status();
    *filter->mutable_created_before() = client::ToProto(*time);
  }
  return absl::OkStatus();
}

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_JOB_FILTER_H_
