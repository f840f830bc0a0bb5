// The commands of `stint`, one function for each file that adds some. Each adds its commands to
// the command line and lives no longer than `session`.
// Thread rule: one thread.
#ifndef STINT_CLIENT_CLI_COMMANDS_H_
#define STINT_CLIENT_CLI_COMMANDS_H_

#include "client/cli/session.h"

namespace stint::cli {

void AddBenchCommand(CLI::App& root, Session& session);
void AddCompletionCommand(CLI::App& root, Session& session);
void AddEnqueueCommand(CLI::App& root, Session& session);
void AddHealthCommand(CLI::App& root, Session& session);
void AddHelpCommands(CLI::App& root, Session& session);
void AddServerCommands(CLI::App& root, Session& session);
void AddTopCommand(CLI::App& root, Session& session);
void AddWorkersCommands(CLI::App& root, Session& session);
void AddTokenCommand(CLI::App& root, Session& session);
void AddWorkerCommands(CLI::App& root, Session& session);
void AddJobsCommands(CLI::App& root, Session& session);
void AddQueuesCommands(CLI::App& root, Session& session);
void AddWorkCommand(CLI::App& root, Session& session);

// All of them, and the rule that flags of every command may stand behind a command as well.
void AddAllCommands(CLI::App& root, Session& session);

// Commands under `stint jobs` and `stint queues` that have a file of their own.
void AddJobsTailCommand(CLI::App* jobs, Session& session);
void AddJobChangeCommands(CLI::App* jobs, Session& session);
void AddQueueChangeCommands(CLI::App* queues, Session& session);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_COMMANDS_H_
