// stint version, stint help [exit-codes]
#include "client/cli/commands.h"

namespace stint::cli {

void AddHelpCommands(CLI::App& root, Session& session) {
  CLI::App* const version = root.add_subcommand("version", "Print the version of this program");
  session.OnChosen(version, [&session] {
    session.out() << (session.json() ? "{\"version\":\"" STINT_VERSION "\"}" : STINT_VERSION)
                  << '\n';
    return kOk;
  });

  auto topic = std::make_shared<std::string>();
  CLI::App* const help = root.add_subcommand("help", "Explain: stint help exit-codes");
  help->add_option("topic", *topic, "exit-codes")->check(CLI::IsMember({"exit-codes"}));
  session.OnChosen(help, [topic, &root, &session] {
    session.out() << (topic->empty() ? root.help() : kExitCodesHelp);
    return kOk;
  });
}

}  // namespace stint::cli
