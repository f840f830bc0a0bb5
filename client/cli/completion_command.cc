// stint completion
#include "client/cli/commands.h"
#include "client/cli/completion.h"

namespace stint::cli {

void AddCompletionCommand(CLI::App& root, Session& session) {
  auto shell = std::make_shared<std::string>();
  CLI::App* const command =
      root.add_subcommand("completion", "Print a script that completes commands in a shell");
  command->add_option("shell", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  command->footer(R"(
It completes commands, flags and fixed values, and asks no broker. Examples, for bash in ~/.bashrc
and for zsh in a folder of $fpath:
  source <(stint completion bash)
  stint completion zsh > _stint)");
  session.OnChosen(command, [shell, &root, &session] {
    session.out() << (*shell == "bash" ? BashCompletion(root) : ZshCompletion(root));
    return kOk;
  });
}

}  // namespace stint::cli
