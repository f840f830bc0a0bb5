// stint version, stint help [TOPIC | COMMAND]
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/help_topics.h"

namespace stint::cli {
namespace {

int RunHelp(const std::vector<std::string>& words, CLI::App& root, Session& session) {
  // A topic may have the name of a command: stint help queues is the topic, queues --help the
  // other.
  const HelpTopic* const topic = words.size() == 1 ? FindHelpTopic(words[0]) : nullptr;
  if (topic != nullptr) {
    session.out() << topic->text;
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
  if (words.empty()) {
    session.out() << "\nTopics, each by stint help TOPIC:\n" << DescribeHelpTopics();
  }
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
  CLI::App* const help = root.add_subcommand("help", "Explain a topic or a command");
  help->add_option("topic", *words, "A topic, or a command such as jobs list");
  help->footer("\nTopics:\n" + DescribeHelpTopics() + R"(
Examples:
  stint help quickstart
  stint help jobs list)");
  session.OnChosen(help, [words, &root, &session] { return RunHelp(*words, root, session); });
}

}  // namespace stint::cli
