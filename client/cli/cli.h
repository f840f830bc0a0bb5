// `stint` as a function, so that tests can run it.
#ifndef STINT_CLIENT_CLI_CLI_H_
#define STINT_CLIENT_CLI_CLI_H_

#include <string>
#include <vector>

#include "client/cli/session.h"

namespace stint::cli {

// Runs one command line, without the program's name. Returns its exit code (exit_code.h).
int Run(const std::vector<std::string>& arguments, const Streams& streams);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_CLI_H_
