#include "client/cli/cli.h"

#include <algorithm>

#include "client/cli/commands.h"
#include "client/cli/exit_code.h"

namespace stint::cli {
namespace {

constexpr char kFooter[] = R"(
Try it (with a broker running: stintd --memory):
  stint enqueue hello --payload world
  stint work hello --exec 'tr a-z A-Z' --max-jobs 1 --verbose
  stint jobs list hello

stint COMMAND --help shows a command with examples. Exit codes: stint help exit-codes.)";

// Flags of every command may stand behind the command as well.
void LetThrough(CLI::App* app) {
  for (CLI::App* const command : app->get_subcommands({})) {
    command->fallthrough();
    LetThrough(command);
  }
}

}  // namespace

int Run(const std::vector<std::string>& arguments, const Streams& streams) {
  CLI::App app("stint: put jobs into queues, work on them, look after them.", "stint");
  Session session(streams);
  session.AddFlags(app);
  app.require_subcommand(1);
  app.footer(kFooter);
  AddEnqueueCommand(app, session);
  AddWorkCommand(app, session);
  AddJobsCommands(app, session);
  AddQueuesCommands(app, session);
  AddWorkerCommands(app, session);
  AddWorkersCommands(app, session);
  AddServerCommands(app, session);
  AddHealthCommand(app, session);
  AddTokenCommand(app, session);
  AddHelpCommands(app, session);
  LetThrough(&app);

  // CLI11 takes them last first.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    return app.exit(error, streams.out, streams.err) == 0 ? kOk : kUsage;
  }
  return session.RunChosen();
}

}  // namespace stint::cli
