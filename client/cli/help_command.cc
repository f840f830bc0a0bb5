// stint version, stint help [exit-codes | COMMAND]
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"

namespace stint::cli {
namespace {

int RunHelp(const std::vector<std::string>& words, CLI::App& root, Session& session) {
  if (words == std::vector<std::string>{"exit-codes"}) {
    session.out() << kExitCodesHelp;
    return kOk;
  }
  const CLI::App* command = &root;
  std::string name = root.get_name();
  for (const std::string& word : words) {
    const auto named = command->get_subcommands(
        [&word](const CLI::App* candidate) { return candidate->get_name() == word; });
    if (named.empty()) {
      return session.Misuse(absl::InvalidArgumentError(absl::StrCat(
          "there is no command '", absl::StrJoin(words, " "),
          "'; stint help lists them, stint help exit-codes says what they exit with")));
    }
    command = named.front();
    absl::StrAppend(&name, " ", word);
  }
  session.out() << command->get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal);
  return kOk;
}

}  // namespace

void AddHelpCommands(CLI::App& root, Session& session) {
  CLI::App* const version = root.add_subcommand("version", "Print the version of this program");
  version->footer("\nExample: stint version");
  session.OnChosen(version, [&session] {
    session.out() << (session.json() ? "{\"version\":\"" STINT_VERSION "\"}" : STINT_VERSION)
                  << '\n';
    return kOk;
  });

  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* const help = root.add_subcommand("help", "Explain a command, or exit-codes");
  help->add_option("topic", *words, "A command, such as jobs list, or exit-codes");
  help->footer(R"(
Examples:
  stint help jobs list
  stint help exit-codes)");
  session.OnChosen(help, [words, &root, &session] { return RunHelp(*words, root, session); });
}

}  // namespace stint::cli
