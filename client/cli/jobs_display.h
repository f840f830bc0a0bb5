// How jobs are shown: columns of a list, and one job in full.
#ifndef STINT_CLIENT_CLI_JOBS_DISPLAY_H_
#define STINT_CLIENT_CLI_JOBS_DISPLAY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/output.h"
#include "client/cli/session.h"

namespace stint::cli {

// Names that `jobs list --columns` knows, for its help.
std::string JobColumnNames();

// INVALID_ARGUMENT names the column that does not exist.
absl::StatusOr<std::vector<std::string>> ParseJobColumns(const std::string& comma_separated);

// Whether a column needs the FULL view.
bool NeedsFullView(const std::vector<std::string>& columns);

std::vector<Cell> JobRow(const v1::Job& job, const std::vector<std::string>& columns);

// Everything about one job, a field a line.
void PrintJob(const v1::Job& job, Session& session);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_JOBS_DISPLAY_H_
