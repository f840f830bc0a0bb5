// Executes every example of every --help and every topic of `stint help`, as it is written, by a
// shell against a whole broker. An example that its text does not lead to the end of (it goes on
// for ever, or needs a worker) is completed here.
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/commands.h"
#include "client/cli/help_topics.h"
#include "gmock/gmock.h"
#include "tests/unit/cli_live_fixture.h"
#include "tests/unit/cli_shell.h"

namespace stint::testing {
namespace {

// The examples of a text: lines that begin with two blanks and have `stint` in them, up to four
// blanks in a row (a remark), and what follows `Example: `. A line that ends with `|` goes on.
std::vector<std::string> ExamplesOf(absl::string_view text) {
  std::vector<std::string> examples;
  bool goes_on = false;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const bool indented = absl::ConsumePrefix(&line, "  ");
    if (goes_on) {
      absl::StrAppend(&examples.back(), " ", absl::StripLeadingAsciiWhitespace(line));
    } else if (indented || absl::ConsumePrefix(&line, "Example: ")) {
      line = line.substr(0, line.find("    "));
      if (absl::StartsWith(line, " ") || !absl::StrContains(line, "stint ")) continue;
      examples.emplace_back(line);
    } else {
      continue;
    }
    goes_on = absl::EndsWith(examples.back(), "|");
  }
  return examples;
}

// What an example needs to come to its end, by the beginning it has.
std::string Completed(const std::string& example) {
  struct Rule {
    const char* begin;
    const char* unless;  // it has this already
    const char* more;
  };
  static constexpr Rule kRules[] = {
      {"stint work ", " --exit-when-empty", " --exit-when-empty"},
      {"stint jobs delete --queue ", "--yes", " --yes"},
      {"stint top", "--", " --once --interval 100ms"},
      {"stint bench", "--for", " --for 100ms"},
      {"stint jobs tail ", "--since", " --since 1h"},
      {"stint jobs tail ", "--limit", " --limit 1"},
  };
  std::string line = example;
  for (const Rule& rule : kRules) {
    if (!absl::StartsWith(line, rule.begin)) {
      continue;
    }
    const absl::string_view rest = absl::string_view(line).substr(std::string(rule.begin).size());
    if (absl::StrContains(rest, rule.unless)) continue;
    line += rule.more;
  }
  // Readings that are shown every few seconds are shown at once here.
  line = absl::StrReplaceAll(
      line, {{"--interval 10s", "--interval 100ms"}, {"--interval 1s", "--interval 100ms"}});
  if (absl::StrContains(line, "--watch") && !absl::StrContains(line, "--count")) {
    line += " --count 1";
  }
  return line;
}

// What has to be there first.
std::string Before(const std::string& example) {
  static const std::map<std::string, std::string> kBefore = {
      {"stint jobs redrive email/order-17", "stint jobs cancel email/order-17"},
      {"stint jobs wait $(stint enqueue reports",
       "stint work reports --exec cat --max-jobs 1 >/dev/null 2>&1 &"},
  };
  for (const auto& [begin, before] : kBefore) {
    if (absl::StartsWith(example, begin)) return before + "\n";
  }
  return "";
}

// Examples that show a refusal.
int ExpectedCode(const std::string& example) {
  static const std::map<std::string, int> kCodes = {
      {"stint enqueue email --id order-17", cli::kRefused},
      {"stint heartbeat email/order-17 ", cli::kWrongState},
      {"stint complete email/order-17 ", cli::kWrongState},
      {"stint fail email/order-17 ", cli::kWrongState},
      {"stint release email/order-17 ", cli::kWrongState},
  };
  if (example == "stint queues delete email") return cli::kWrongState;
  for (const auto& [begin, code] : kCodes) {
    if (absl::StartsWith(example, begin)) return code;
  }
  return cli::kOk;
}

class ExamplesTest : public LiveCliTest {
 protected:
  void SetUp() override {
    WriteFile("report.json", "{}");
    WriteFile("queues.toml", "[queues.fresh]\nmax-attempts = 5\n");
    WriteFile("email.toml", "[queues.email]\nmax-attempts = 7\n");
  }

  // Jobs that the texts speak of.
  void AddJobs() {
    for (const char* const command :
         {"enqueue email", "enqueue email --id order-17 --label campaign=may",
          "enqueue email --id order-18", "enqueue email --id rejected",
          "enqueue reports --id j17 --delay 1h", "queues create files", "queues create thumbnails",
          "queues create hello", "jobs cancel email/rejected"}) {
      ASSERT_EQ(Run(absl::StrSplit(command, ' ')).code, cli::kOk) << command;
    }
  }

  // Runs them one after the other in one folder.
  void Execute(const std::vector<std::string>& examples) {
    for (const std::string& example : examples) {
      // It names workers, and no example brings one.
      if (absl::StartsWith(example, "stint workers drain ")) continue;
      const ShellRan ran =
          RunShell(folder_.path(), absl::StrCat("export STINT_ADDRESS=", broker_.address(), "\n",
                                                Before(example), Completed(example), "\n"));
      EXPECT_EQ(ran.code, ExpectedCode(example)) << example << "\n" << ran.output;
      ++executed_;
    }
  }

  int executed_ = 0;
};

TEST_F(ExamplesTest, ReadsExamplesOutOfATextOnly) {
  EXPECT_THAT(ExamplesOf("Text about stint work.\n"
                         "  stint one     a remark\n"
                         "     stint not\n"
                         "  seq 3 | stint two -\n"
                         "  0  no example\n"
                         "  stint three |\n"
                         "      xargs cat\n"
                         "Example: stint four"),
              ::testing::ElementsAre("stint one", "seq 3 | stint two -", "stint three | xargs cat",
                                     "stint four"));
}

class TopicExamplesTest : public ExamplesTest,
                          public ::testing::WithParamInterface<cli::HelpTopic> {};

TEST_P(TopicExamplesTest, Work) {
  Execute(ExamplesOf(GetParam().text));
  EXPECT_EQ(executed_ > 0, std::string(GetParam().name) != "exit-codes");
}

INSTANTIATE_TEST_SUITE_P(All, TopicExamplesTest, ::testing::ValuesIn(cli::HelpTopics()),
                         [](const auto& tested) {
                           return absl::StrReplaceAll(tested.param.name, {{"-", "_"}});
                         });

// Path and footer of each command.
void Gather(const CLI::App& command, const std::string& path,
            std::vector<std::pair<std::string, std::string>>* footers) {
  for (const CLI::App* const child : command.get_subcommands({})) {
    const std::string name = path.empty() ? child->get_name() : path + "_" + child->get_name();
    if (!ExamplesOf(child->get_footer()).empty()) footers->emplace_back(name, child->get_footer());
    Gather(*child, name, footers);
  }
}

std::vector<std::pair<std::string, std::string>> Footers() {
  std::istringstream in;
  std::ostringstream out;
  cli::Session session(cli::Streams{in, out, out});
  CLI::App app("", "stint");
  cli::AddAllCommands(app, session);
  std::vector<std::pair<std::string, std::string>> footers;
  Gather(app, "", &footers);
  const Ran help = [] {
    std::istringstream no_in;
    std::ostringstream text;
    Ran ran;
    ran.code = cli::Run({"--help"}, cli::Streams{no_in, text, text});
    ran.out = text.str();
    return ran;
  }();
  footers.emplace_back("stint", help.out);
  return footers;
}

class HelpExamplesTest : public ExamplesTest,
                         public ::testing::WithParamInterface<std::pair<std::string, std::string>> {
};

TEST_P(HelpExamplesTest, Work) {
  AddJobs();
  Execute(ExamplesOf(GetParam().second));
  EXPECT_EQ(executed_ > 0, GetParam().first != "workers_drain");
}

INSTANTIATE_TEST_SUITE_P(All, HelpExamplesTest, ::testing::ValuesIn(Footers()),
                         [](const auto& tested) { return tested.param.first; });

}  // namespace
}  // namespace stint::testing
