// The commands of `stint`, one function for each file that adds some.
#ifndef STINT_CLIENT_CLI_COMMANDS_H_
#define STINT_CLIENT_CLI_COMMANDS_H_

#include "client/cli/session.h"

namespace stint::cli {

void AddEnqueueCommand(CLI::App& root, Session& session);
void AddHealthCommand(CLI::App& root, Session& session);
void AddJobsCommands(CLI::App& root, Session& session);
void AddQueuesCommands(CLI::App& root, Session& session);
void AddWorkCommand(CLI::App& root, Session& session);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_COMMANDS_H_
