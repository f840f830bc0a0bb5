// `stint completion`: the script, used as a shell uses it.
#include "gmock/gmock.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/cli_shell.h"

namespace stint::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

class CompletionTest : public CliTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(RunPlain({"completion", "bash"}), cli::kOk);
    test::WriteFile(folder_.File("stint.bash"), out_);
  }

  // What bash offers for the last of `words`.
  std::vector<std::string> Offered(const std::vector<std::string>& words) {
    std::string script = "source ./stint.bash\nCOMP_WORDS=(stint";
    for (const std::string& word : words) script += " '" + word + "'";
    script += ")\nCOMP_CWORD=" + std::to_string(words.size()) +
              "\n_stint\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    const ShellRan ran = RunShell(folder_.path(), script);
    EXPECT_EQ(ran.code, 0) << ran.output;
    std::vector<std::string> offered;
    std::istringstream lines(ran.output);
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) offered.push_back(line);
    }
    return offered;
  }

  test::TempFolder folder_;
};

TEST_F(CompletionTest, OffersCommands) {
  EXPECT_THAT(Offered({""}), IsSupersetOf({"enqueue", "jobs", "queues", "top", "--address"}));
  EXPECT_THAT(Offered({"qu"}), ElementsAre("queues"));
  EXPECT_THAT(Offered({"jobs", "ta"}), ElementsAre("tail"));
  EXPECT_THAT(Offered({"jobs", "list", "q", "ta"}), ElementsAre());
}

TEST_F(CompletionTest, OffersFlagsOfTheCommandAndOfEvery) {
  EXPECT_THAT(Offered({"jobs", "list", "q", "--"}),
              IsSupersetOf({"--state", "--label", "--watch", "--json", "--token-file", "--help"}));
  EXPECT_THAT(Offered({"jobs", "list", "q", "--"}), Not(Contains("--exec")));
  EXPECT_THAT(Offered({"work", "--ex"}), ElementsAre("--exec", "--exit-when-empty"));
}

TEST_F(CompletionTest, OffersFixedValues) {
  EXPECT_THAT(Offered({"jobs", "list", "q", "--state", "d"}), ElementsAre("delayed", "dead"));
  EXPECT_THAT(Offered({"top", "--sort", ""}),
              ElementsAre("depth", "oldest", "dead", "rate", "name"));
  EXPECT_THAT(Offered({"completion", "z"}), ElementsAre("zsh"));
}

TEST_F(CompletionTest, LeavesOtherValuesToTheShell) {
  EXPECT_THAT(Offered({"--token-file", ""}), ElementsAre());
  EXPECT_THAT(Offered({"jobs", "list", "q", "--token-file", ""}), ElementsAre());
  EXPECT_THAT(Offered({"jobs", "list", "q", "--kind", ""}), ElementsAre());
}

TEST_F(CompletionTest, FlagsBeforeTheCommandDoNotHideIt) {
  EXPECT_THAT(Offered({"--address", "jobs", "--json", "queues", "st"}), ElementsAre("stats"));
}

TEST_F(CompletionTest, ZshCanReadItsOwn) {
  ASSERT_EQ(RunPlain({"completion", "zsh"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("#compdef stint\n"));
  test::WriteFile(folder_.File("_stint"), out_);
  // Most of it is read alike by bash; zsh itself is asked where there is one.
  const ShellRan ran = RunShell(
      folder_.path(), "if command -v zsh >zsh.path; then zsh -n _stint; else bash -n _stint; fi");
  EXPECT_EQ(ran.code, 0) << ran.output;
}

TEST_F(CompletionTest, OtherShellsAreRefused) {
  EXPECT_EQ(RunPlain({"completion", "fish"}), cli::kUsage);
  EXPECT_EQ(RunPlain({"completion"}), cli::kUsage);
}

}  // namespace
}  // namespace stint::testing
