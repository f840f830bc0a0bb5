// `stint queues create|update -f`: what is read, refused and done.
#include "client/cli/queue_file.h"
#include "gmock/gmock.h"
#include "tests/unit/cli_live_fixture.h"

namespace stint::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

constexpr char kFile[] = R"([queues.email]
max-attempts = 5
retry-initial = "10s"
retry-multiplier = 1.5

[queues."reports.daily"]
run-limit = "30m"

[queues.plain]
)";

TEST_F(LiveCliTest, QueueFileIsReadInItsOrder) {
  const auto entries = cli::ReadQueueFile(WriteFile("queues.toml", kFile));
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 3U);
  EXPECT_EQ((*entries)[0].queue, "email");
  EXPECT_EQ((*entries)[1].queue, "reports.daily");
  EXPECT_EQ((*entries)[2].queue, "plain");
  v1::QueueSettings settings;
  ASSERT_TRUE((*entries)[0].settings.Apply(&settings).ok());
  EXPECT_EQ(settings.max_attempts(), 5);
  EXPECT_EQ(settings.retry().initial_delay().seconds(), 10);
  EXPECT_DOUBLE_EQ(settings.retry().multiplier(), 1.5);
}

TEST_F(LiveCliTest, WhateverAQueueFileSaysThatIsNotKnownIsRefusedWithItsLine) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"[queues.a]\n\nmax-atempts = 5\n", ", line 3: there is no setting 'max-atempts'; there are"},
      {"[queues.a]\nmax_attempts = 5\n", ", line 2: there is no setting 'max_attempts'"},
      {"[queues.a]\nmax-attempts = \"many\"\n", ", line 2: 'many' is no value for --max-attempts"},
      {"[queues.a]\nmax-attempts = 1.5\n", ", line 2: '1.5' is no value"},
      {"[queues.a]\nmax-attempts = true\n", ", line 2: max-attempts is neither a number nor"},
      {"[queues.a]\nrun-limit = 30\n", ", line 2: '30' is no duration"},
      {"[queues.a]\nrun-limit = \"\"\n", ", line 2: run-limit is empty"},
      {"[queues.a.retry]\ninitial = 1\n", ", line 1: retry is neither a number nor"},
      {"[queues]\na = 1\n", ", line 2: write a queue as a table: [queues.a]"},
      {"\n[queue.a]\n", ", line 2: 'queue' is not known; write each queue as [queues.NAME]"},
      {"queues = 1\n", ", line 1: 'queues' is not known"},
      {"[queues.a]\n[queues.a]\n", ", line 2: "},
      {"[queues.a\n", ", line 1: "},
      {"", " names no queue"},
      {"[queues]\n", " names no queue"},
  };
  for (const auto& [text, message] : wrong) {
    const std::string path = WriteFile("queues.toml", text);
    const Ran ran = Run({"queues", "create", "-f", path});
    EXPECT_EQ(ran.code, cli::kUsage) << text;
    EXPECT_THAT(ran.err, HasSubstr(path + message)) << text;
  }
  EXPECT_EQ(Run({"queues", "list", "--no-stats"}).out, "QUEUE\tSTATUS\n");
  EXPECT_THAT(Run({"queues", "create", "-f", folder_.File("none")}).err, HasSubstr("cannot read "));
  EXPECT_THAT(Run({"queues", "create", "-f", folder_.path()}).err, HasSubstr("cannot read "));
  const std::string large = WriteFile("large", std::string(64 * 1024 + 1, '#'));
  EXPECT_THAT(Run({"queues", "create", "-f", large}).err, HasSubstr("larger than 64 KiB"));
  std::string deep = "a";
  while (deep.size() < 64 * 1024 - 10) deep += ".a";
  const std::string nested = WriteFile("nested", deep + " = 1\n");
  EXPECT_THAT(Run({"queues", "create", "-f", nested}).err, HasSubstr("'a' is not known"));
}

TEST_F(LiveCliTest, CreatesTheQueuesOfAFile) {
  const std::string path = WriteFile("queues.toml", kFile);
  const Ran dry = Run({"queues", "create", "-f", path, "--dry-run"});
  EXPECT_EQ(dry.code, cli::kOk);
  EXPECT_EQ(dry.out,
            "email would be created\nreports.daily would be created\nplain would be created\n");
  EXPECT_EQ(Run({"queues", "list", "--no-stats"}).out, "QUEUE\tSTATUS\n");
  const Ran ran = Run({"queues", "create", "-f", path});
  EXPECT_EQ(ran.code, cli::kOk) << ran.err;
  EXPECT_EQ(ran.out, "email created\nreports.daily created\nplain created\n");
  EXPECT_THAT(Run({"queues", "get", "reports.daily"}).out, HasSubstr("run-limit\t30m0s\n"));

  const Ran again = Run({"queues", "create", "-f", path});
  EXPECT_EQ(again.code, cli::kRefused);
  EXPECT_THAT(again.err, HasSubstr("cannot create queue email (" + path + ", line 1)"));
  const Ran dry_again = Run({"queues", "create", "-f", path, "--dry-run"});
  EXPECT_EQ(dry_again.code, cli::kOk);
  EXPECT_THAT(dry_again.out, HasSubstr("email is there: it would be taken over if"));
}

TEST_F(LiveCliTest, UpdatesOnlyWhatTheFileNames) {
  EXPECT_EQ(Run({"queues", "create", "email", "--retry-max", "1h", "--max-jobs", "7"}).code, 0);
  const std::string path =
      WriteFile("queues.toml", "[queues.email]\nretry-initial = \"10s\"\nmax-attempts = 3\n");
  const Ran dry = Run({"queues", "update", "-f", path, "--dry-run"});
  EXPECT_EQ(dry.out, "email would be changed\n");
  const Ran ran = Run({"queues", "update", "-f", path});
  EXPECT_EQ(ran.code, cli::kOk) << ran.err;
  EXPECT_EQ(ran.out, "email changed\n");
  const std::string json = Run({"queues", "get", "email", "--json"}).out;
  EXPECT_THAT(json, HasSubstr("\"initial_delay\":\"10s\""));
  EXPECT_THAT(json, HasSubstr("\"max_delay\":\"3600s\""));
  EXPECT_THAT(json, HasSubstr("\"max_jobs\":\"7\""));
  EXPECT_EQ(Run({"queues", "update", "-f", path}).out, "email is so already\n");
  EXPECT_THAT(Run({"queues", "update", "-f", path, "--json"}).out, EndsWith("}\n"));
}

TEST_F(LiveCliTest, UpdatingAQueueThatIsNotThereIsRefused) {
  const std::string path = WriteFile("queues.toml", "[queues.none]\nmax-attempts = 3\n");
  const Ran ran = Run({"queues", "update", "-f", path});
  EXPECT_EQ(ran.code, cli::kNotFound);
  EXPECT_THAT(ran.err, HasSubstr("line 1"));
}

TEST_F(LiveCliTest, AFileAndAQueueExcludeEachOther) {
  const std::string path = WriteFile("queues.toml", kFile);
  EXPECT_EQ(Run({"queues", "create"}).code, cli::kUsage);
  EXPECT_EQ(Run({"queues", "create", "q", "-f", path}).code, cli::kUsage);
  EXPECT_EQ(Run({"queues", "update", "q", "--dry-run"}).code, cli::kUsage);
  const Ran ran = Run({"queues", "update", "-f", path, "--max-jobs", "5"});
  EXPECT_EQ(ran.code, cli::kUsage);
  EXPECT_THAT(ran.err, HasSubstr("--max-jobs goes with one queue"));
}

}  // namespace
}  // namespace stint::testing
