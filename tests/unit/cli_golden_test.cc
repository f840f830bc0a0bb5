// What every command prints as JSON, and every --help and topic, compared with tests/golden/cli.
// STINT_UPDATE_GOLDEN=1 in the environment writes the files anew, for a change that is meant.
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/help_topics.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/cli_fixture.h"

namespace stint::testing {
namespace {

void ExpectGolden(const std::string& name, const std::string& actual) {
  const std::string path = "tests/golden/cli/" + name;
  if (std::getenv("STINT_UPDATE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    test::WriteFile(path, actual);
  }
  EXPECT_EQ(test::ReadFile(path), actual)
      << path << " differs. If the change is meant: STINT_UPDATE_GOLDEN=1 writes it anew";
}

class GoldenTest : public CliTest {
 protected:
  // Runs a command with --json and notes it as people would see it in a terminal.
  void Note(const std::vector<std::string>& command) {
    std::vector<std::string> arguments = command;
    arguments.push_back("--json");
    const int code = Run(arguments);
    absl::StrAppend(&transcript_, "$ stint ", absl::StrJoin(arguments, " "), "\n", out_, err_);
    if (code != 0) absl::StrAppend(&transcript_, "(exit code ", code, ")\n");
  }

  std::string transcript_;
};

TEST_F(GoldenTest, JsonOfJobs) {
  Note({"enqueue", "q", "--id", "one", "--payload", "hi", "--kind", "k", "--label", "a=1",
        "--header", "h=2", "--priority", "7"});
  Note({"enqueue", "q", "--id-prefix", "more", "--count", "2"});
  Note({"jobs", "list", "q", "--limit", "1"});
  Note({"jobs", "list", "q", "--limit", "1", "--view", "full"});
  Note({"jobs", "list", "q", "--watch", "--count", "1"});
  Note({"jobs", "tail", "q", "--limit", "1"});
  Note({"jobs", "get", "q/one"});
  Note({"jobs", "wait", "q/one", "--for", "0s"});
  Note({"jobs", "update", "q/one", "--priority", "9"});
  Note({"jobs", "cancel", "q/more1"});
  Note({"jobs", "redrive", "q/more1"});
  Note({"jobs", "delete", "q/more1"});
  Note({"jobs", "get", "q/none"});
  ExpectGolden("json/jobs.txt", transcript_);
}

TEST_F(GoldenTest, JsonOfWorkers) {
  for (int i = 0; i < 3; ++i) broker_.AddJob("q", "work");
  Note({"lease", "q", "--worker", "me"});
  Note({"heartbeat", "q/j1", "1000000"});
  Note({"complete", "q/j1", "1000000", "--result", "done"});
  Note({"lease", "q", "--worker", "me"});
  Note({"fail", "q/j2", "1000001", "--error", "no"});
  Note({"lease", "q", "--worker", "me"});
  Note({"release", "q/j3", "1000002"});
  Note({"heartbeat", "q/j3", "1000002"});
  ExpectGolden("json/workers.txt", transcript_);
}

TEST_F(GoldenTest, JsonOfQueues) {
  const std::string file =
      WriteFile("golden.toml", "[queues.filed]\nmax-attempts = 3\nretry-initial = \"10s\"\n");
  Note({"queues", "create", "q", "--max-attempts", "5", "--finished-age", "2d"});
  broker_.AddJob("q");
  Note({"queues", "get", "q"});
  Note({"queues", "list"});
  Note({"queues", "list", "--no-stats"});
  Note({"queues", "list", "--watch", "--count", "1"});
  Note({"queues", "stats", "q"});
  Note({"queues", "update", "q", "--draining", "true"});
  Note({"queues", "pause", "q"});
  Note({"queues", "resume", "q"});
  Note({"queues", "purge", "q"});
  Note({"top", "--once", "--interval", "100ms"});
  Note({"queues", "delete", "q"});
  Note({"queues", "stats", "q"});
  EXPECT_EQ(Run({"queues", "create", "-f", file, "--json"}), cli::kOk);
  absl::StrAppend(&transcript_, "$ stint queues create -f golden.toml --json\n", out_);
  ExpectGolden("json/queues.txt", transcript_);
}

TEST_F(GoldenTest, JsonOfTheBroker) {
  Note({"server", "info"});
  Note({"health"});
  Note({"server", "drain"});
  broker_.Refuse("EnqueueJob", {absl::StatusCode::kInvalidArgument,
                                "INVALID_REQUEST",
                                "one field is wrong",
                                {},
                                {{"job.kind", "is 200 bytes, the limit is 128"}}});
  Note({"enqueue", "q"});
  ExpectGolden("json/server.txt", transcript_);
}

// One file for each command of the first level, with the commands under it.
TEST_F(GoldenTest, Help) {
  std::istringstream in;
  std::ostringstream out;
  cli::Session session(cli::Streams{in, out, out});
  CLI::App app("", "stint");
  cli::AddAllCommands(app, session);
  ASSERT_EQ(RunPlain({"--help"}), cli::kOk);
  ExpectGolden("help/stint.txt", out_);
  for (const CLI::App* const command : app.get_subcommands({})) {
    ASSERT_EQ(RunPlain({command->get_name(), "--help"}), cli::kOk);
    std::string all = out_;
    for (const CLI::App* const child : command->get_subcommands({})) {
      ASSERT_EQ(RunPlain({command->get_name(), child->get_name(), "--help"}), cli::kOk);
      absl::StrAppend(&all, "\n----\n", out_);
    }
    ExpectGolden("help/" + command->get_name() + ".txt", all);
  }
}

TEST_F(GoldenTest, Topics) {
  for (const cli::HelpTopic& topic : cli::HelpTopics()) {
    ASSERT_EQ(RunPlain({"help", topic.name}), cli::kOk);
    ExpectGolden(absl::StrCat("topics/", topic.name, ".txt"), out_);
  }
}

}  // namespace
}  // namespace stint::testing
