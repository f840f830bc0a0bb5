// What `stint` says about itself: help, and what is wrong with a command line.
#include <algorithm>
#include <sstream>

#include "gmock/gmock.h"
#include "tests/unit/cli_fixture.h"

namespace stint::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

// The parser's own messages name neither the word nor what there is instead.
TEST_F(CliTest, AWrongCommandLineIsNamed) {
  EXPECT_EQ(RunPlain({"bogus"}), cli::kUsage);
  EXPECT_THAT(err_, StartsWith("stint: there is no command stint bogus; the commands of stint are "
                               "enqueue, work, jobs, "));
  EXPECT_EQ(RunPlain({"--bogus"}), cli::kUsage);
  EXPECT_THAT(err_, StartsWith("stint: there is no flag --bogus; "));
  EXPECT_EQ(RunPlain({"jobs", "bogus"}), cli::kUsage);
  EXPECT_THAT(err_, HasSubstr("the commands of stint jobs are list, get, "));
  EXPECT_EQ(RunPlain({"jobs"}), cli::kUsage);
  EXPECT_THAT(err_, StartsWith("stint: stint jobs needs a command: list, "));
  EXPECT_EQ(RunPlain({"enqueue", "q", "--payload", "x", "--bogus", "1"}), cli::kUsage);
  EXPECT_EQ(err_, "stint: stint enqueue has no flag --bogus (stint enqueue --help)\n");
  EXPECT_EQ(RunPlain({"queues", "stats", "q", "r"}), cli::kUsage);
  EXPECT_EQ(err_, "stint: one word too many: r (stint queues stats --help)\n");
  EXPECT_EQ(RunPlain({"enqueue", "q", "hello"}), cli::kUsage);
  EXPECT_EQ(err_,
            "stint: one word too many: hello; a payload goes with --payload "
            "(stint enqueue --help)\n");
  EXPECT_EQ(RunPlain({"enqueue"}), cli::kUsage);
  EXPECT_EQ(err_, "stint: queue is required (stint enqueue --help)\n");
  EXPECT_EQ(RunPlain({"help", "nonsense"}), cli::kUsage);
  EXPECT_THAT(err_, HasSubstr("there is no command 'nonsense'"));
}

TEST_F(CliTest, AWrongCommandLineAsJson) {
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {"--json", "enqueue", "q", "--bogus"}, {"--json", "enqueue", "q", "--delay", "5"}}) {
    EXPECT_EQ(RunPlain(arguments), cli::kUsage);
    EXPECT_THAT(err_, StartsWith("{"));
    EXPECT_THAT(err_, HasSubstr("\"code\":\"INVALID_ARGUMENT\""));
    EXPECT_THAT(err_, HasSubstr("\"message\":"));
    EXPECT_EQ(std::count(err_.begin(), err_.end(), '\n'), 1);
  }
}

// The commands that a help text lists.
std::vector<std::string> CommandsIn(const std::string& help) {
  std::vector<std::string> commands;
  std::istringstream lines(help);
  bool listed = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "Subcommands:") {
      listed = true;
    } else if (listed && line.rfind("  ", 0) == 0 && line[2] != ' ') {
      commands.push_back(line.substr(2, line.find(' ', 2) - 2));
    } else if (listed) {
      break;
    }
  }
  return commands;
}

TEST_F(CliTest, TheHelpOfEveryCommandHasAnExampleOfItsOwn) {
  std::vector<std::vector<std::string>> open = {{}};
  int leaves = 0;
  while (!open.empty()) {
    std::vector<std::string> command = open.back();
    open.pop_back();
    std::vector<std::string> with_help = command;
    with_help.emplace_back("--help");
    ASSERT_EQ(RunPlain(with_help), cli::kOk);
    const std::string help = out_;
    const std::vector<std::string> below = CommandsIn(help);
    for (const std::string& name : below) {
      open.push_back(command);
      open.back().push_back(name);
    }
    if (!below.empty()) continue;
    ++leaves;
    std::string text = "stint";
    for (const std::string& word : command) text += " " + word;
    const size_t example = help.find("Example");
    ASSERT_NE(example, std::string::npos) << text;
    EXPECT_THAT(help.substr(example), HasSubstr(text));
    std::vector<std::string> asked = {"help"};
    asked.insert(asked.end(), command.begin(), command.end());
    EXPECT_EQ(RunPlain(asked), cli::kOk);
    EXPECT_THAT(out_, HasSubstr("Usage: " + text + " "));
    EXPECT_THAT(out_, HasSubstr(help.substr(example)));
  }
  EXPECT_GT(leaves, 25);
}

TEST_F(CliTest, HelpExitsWithZero) {
  EXPECT_EQ(RunPlain({"--help"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("stint enqueue hello --payload world"));
  EXPECT_EQ(RunPlain({"work", "--help"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("STINT_TOKEN"));
  EXPECT_EQ(RunPlain({"help", "exit-codes"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("no broker answered"));
  EXPECT_EQ(RunPlain({"version"}), cli::kOk);
  EXPECT_THAT(out_, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

}  // namespace
}  // namespace stint::testing
