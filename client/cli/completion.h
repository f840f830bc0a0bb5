// Completion scripts for shells, made from the commands themselves. A script is static: it knows
// commands, flags and fixed values, and asks no broker.
// Thread rule: no state.
#ifndef STINT_CLIENT_CLI_COMPLETION_H_
#define STINT_CLIENT_CLI_COMPLETION_H_

#include <string>

#include "CLI/CLI.hpp"

namespace stint::cli {

// For bash 4 or newer: `source <(stint completion bash)`.
std::string BashCompletion(const CLI::App& root);
// For zsh, as the file `_stint` in a folder of $fpath.
std::string ZshCompletion(const CLI::App& root);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_COMPLETION_H_
