#include "client/cli/cli.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/exit_code.h"

namespace stint::cli {
namespace {

constexpr char kFooter[] = R"(
Try it (with a broker running: stintd --memory):
  stint enqueue hello --payload world
  stint work hello --exec 'tr a-z A-Z' --max-jobs 1 --verbose
  stint jobs list hello

stint COMMAND --help shows a command with examples, stint help TOPIC explains what is not about
one command: quickstart, queues, workers, retries, dead-letters, labels, json, environment,
exit-codes.)";

// CLI11 (2.1) keeps the options that one excludes by their addresses, and lists them so.
class OrderedHelp final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    const size_t list = text.find(" Excludes:");
    if (list == std::string::npos) return text;
    std::vector<std::string> names;
    for (const CLI::Option* const other : option->get_excludes())
      names.push_back(other->get_name());
    std::sort(names.begin(), names.end());
    return absl::StrCat(text.substr(0, list), " Excludes: ", absl::StrJoin(names, " "));
  }
};

// The command that was read last, such as `jobs list`.
const CLI::App& Innermost(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : Innermost(*chosen.front());
}

// `stint jobs list`.
std::string FullName(const CLI::App& app) {
  return app.get_parent() == nullptr
             ? app.get_name()
             : absl::StrCat(FullName(*app.get_parent()), " ", app.get_name());
}

std::string CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return absl::StrJoin(names, ", ");
}

// What is wrong with a command line, in one line: the parser's own words name neither the word
// it did not know nor what there is instead.
absl::Status Explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = Innermost(app);
  const std::string name = FullName(command);
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const bool needs_command = command.get_require_subcommand_min() > 0;
  const bool is_flag = !unknown.empty() && absl::StartsWith(unknown.front(), "-");
  if (needs_command && !unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there is no ", is_flag ? "flag " : "command ", is_flag ? "" : name + " ", unknown.front(),
        "; the commands of ", name, " are ", CommandNames(command), " (", name, " --help)"));
  }
  if (needs_command) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " needs a command: ", CommandNames(command), " (", name, " --help)"));
  }
  // The word that is most often too many is a payload.
  const bool payload = command.get_option_no_throw("--payload") != nullptr;
  const std::string what = unknown.empty() ? error.what()
                           : is_flag
                               ? absl::StrCat(name, " has no flag ", unknown.front())
                               : absl::StrCat("one word too many: ", unknown.front(),
                                              payload ? "; a payload goes with --payload" : "");
  return absl::InvalidArgumentError(absl::StrCat(what, " (", name, " --help)"));
}

// Flags of every command may stand behind the command as well.
void LetThrough(CLI::App* app) {
  for (CLI::App* const command : app->get_subcommands({})) {
    command->fallthrough();
    LetThrough(command);
  }
}

}  // namespace

void AddAllCommands(CLI::App& root, Session& session) {
  AddEnqueueCommand(root, session);
  AddWorkCommand(root, session);
  AddJobsCommands(root, session);
  AddQueuesCommands(root, session);
  AddTopCommand(root, session);
  AddBenchCommand(root, session);
  AddWorkerCommands(root, session);
  AddWorkersCommands(root, session);
  AddServerCommands(root, session);
  AddHealthCommand(root, session);
  AddTokenCommand(root, session);
  AddCompletionCommand(root, session);
  AddHelpCommands(root, session);
  LetThrough(&root);
}

int Run(const std::vector<std::string>& arguments, const Streams& streams) {
  CLI::App app("stint: put jobs into queues, work on them, look after them.", "stint");
  app.formatter(std::make_shared<OrderedHelp>());  // first, since commands inherit it
  Session session(streams);
  session.AddFlags(app);
  app.require_subcommand(1);
  AddAllCommands(app, session);
  app.footer(kFooter);  // last, since commands inherit it

  // CLI11 takes them last first.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::Success& help) {
    app.exit(help, streams.out, streams.err);
    return kOk;
  } catch (const CLI::ParseError& error) {
    session.set_json(std::find(arguments.begin(), arguments.end(), "--json") != arguments.end());
    return session.Misuse(Explain(app, error));
  }
  return session.RunChosen();
}

}  // namespace stint::cli
