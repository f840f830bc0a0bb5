#include "client/cli/completion.h"

#include <map>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "client/cli/output.h"
#include "stint/v1/job.pb.h"

namespace stint::cli {
namespace {

// What the scripts are made of. A path is the words of a command, such as `jobs list`.
struct Tree {
  std::map<std::string, std::string> words;   // path: commands and flags that may follow
  std::map<std::string, std::string> values;  // path and flag: its values; empty: any text
  std::set<std::string> with_value;           // flags of every command that take a value
};

std::string States() {
  std::vector<std::string> names;
  for (int state = v1::JobState_MIN; state <= v1::JobState_MAX; ++state) {
    if (!v1::JobState_IsValid(state) || state == v1::JOB_STATE_UNSPECIFIED) continue;
    names.push_back(absl::AsciiStrToLower(StateName(static_cast<v1::JobState>(state))));
  }
  return absl::StrJoin(names, " ");
}

// `basic full` of an option that takes one of them; empty: any text.
std::string ValuesOf(const CLI::Option& option) {
  if (option.check_lname("state")) return States();
  // A set is part of the type's name: `TEXT:{basic,full}`.
  const std::string type = option.get_type_name();
  const size_t open = type.find('{');
  const size_t close = type.find('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return "";
  return absl::StrReplaceAll(type.substr(open + 1, close - open - 1), {{",", " "}});
}

void Gather(const CLI::App& command, const std::string& path, const std::string& inherited,
            Tree* tree) {
  std::string flags = inherited;
  for (const CLI::Option* const option : command.get_options()) {
    const std::string values = ValuesOf(*option);
    const bool takes_value = option->get_items_expected_max() > 0;
    std::vector<std::string> names;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
    for (const std::string& name : names) {
      absl::StrAppend(&flags, flags.empty() ? "" : " ", name);
      if (!takes_value) continue;
      if (path.empty()) {
        tree->with_value.insert(name);
      } else {
        tree->values[absl::StrCat(path, " ", name)] = values;
      }
    }
    if (names.empty() && !values.empty()) {  // a word that has fixed values, such as a topic
      absl::StrAppend(&flags, flags.empty() ? "" : " ", values);
    }
  }
  std::string words;
  for (const CLI::App* const child : command.get_subcommands({})) {
    absl::StrAppend(&words, words.empty() ? "" : " ", child->get_name());
    // --help is each command's own; the rest of the root's flags is everybody's.
    const std::string passed =
        path.empty() ? absl::StrReplaceAll(flags, {{"--help ", ""}, {"-h ", ""}}) : inherited;
    Gather(*child, absl::StrCat(path, path.empty() ? "" : " ", child->get_name()), passed, tree);
  }
  tree->words[path] = absl::StrCat(words, words.empty() ? "" : " ", flags);
}

// The part that both shells read alike: walks over the words before the cursor, then chooses.
std::string Choose(const Tree& tree, absl::string_view first, absl::string_view end,
                   absl::string_view word_of) {
  std::vector<std::string> paths;
  for (const auto& [path, words] : tree.words) {
    if (!path.empty()) paths.push_back(absl::StrCat("'", path, "'"));
  }
  const std::string with_value = absl::StrJoin(tree.with_value, "|");
  std::string text = absl::StrCat(
      "  local command='' chosen='' previous='' word='' i\n"
      "  for ((i = ",
      first, "; i < ", end,
      "; i++)); do\n"
      "    word=\"",
      word_of,
      "\"\n"
      "    case \"$previous\" in\n"
      "      ",
      with_value,
      ") previous=''; continue ;;\n"
      "    esac\n"
      "    previous=\"$word\"\n"
      "    case \"${command:+$command }$word\" in\n"
      "      ",
      absl::StrJoin(paths, "|"),
      ") command=\"${command:+$command }$word\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$command $previous\" in\n");
  for (const auto& [flag, values] : tree.values) {
    absl::StrAppend(&text, "    '", flag, "') chosen='", values, "' ;;\n");
  }
  absl::StrAppend(&text, "    *' '", absl::StrJoin(tree.with_value, "|*' '"),
                  ") ;;\n    *)\n      case \"$command\" in\n");
  for (const auto& [path, words] : tree.words) {
    absl::StrAppend(&text, "        '", path, "') chosen='", words, "' ;;\n");
  }
  absl::StrAppend(&text, "      esac ;;\n  esac\n");
  return text;
}

}  // namespace

std::string BashCompletion(const CLI::App& root) {
  Tree tree;
  Gather(root, "", "", &tree);
  return absl::StrCat(
      "# Completion of stint for bash. Made by: stint completion bash\n"
      "_stint() {\n",
      Choose(tree, "1", "COMP_CWORD", "${COMP_WORDS[i]}"),
      "  # Without a match the shell offers file names.\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$chosen\" -- \"${COMP_WORDS[COMP_CWORD]}\")\n"
      "}\n"
      "complete -o default -F _stint stint\n");
}

std::string ZshCompletion(const CLI::App& root) {
  Tree tree;
  Gather(root, "", "", &tree);
  return absl::StrCat(
      "#compdef stint\n"
      "# Completion of stint for zsh. Made by: stint completion zsh\n"
      "_stint() {\n",
      Choose(tree, "2", "CURRENT", "${words[i]}"),
      "  compadd -- ${=chosen} || _files\n"
      "}\n"
      "if [[ $zsh_eval_context == *loadautofunc ]]; then _stint \"$@\"; else compdef _stint stint; "
      "fi\n");
}

}  // namespace stint::cli
