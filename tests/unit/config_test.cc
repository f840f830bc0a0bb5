// Settings: where each comes from, what wins, and how a bad one is refused.
#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/config_values.h"
#include "tests/support/temp_folder.h"

namespace stint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string ErrorOf(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment = {}) {
  const auto loaded = LoadConfig(arguments, environment);
  EXPECT_FALSE(loaded.ok());
  return std::string(loaded.status().message());
}

Config Load(const std::vector<std::string>& arguments,
            const std::vector<std::string>& environment = {}) {
  const auto loaded = LoadConfig(arguments, environment);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.ok() ? loaded->config : Config();
}

std::string SourceOf(const LoadedConfig& loaded, const std::string& name) {
  for (const SettingInForce& setting : loaded.settings) {
    if (setting.name == name) return absl::StrCat(setting.value, " from ", setting.source);
  }
  return "none";
}

TEST(ConfigTest, DefaultsAreTheDesigns) {
  const Config config = Load({});
  EXPECT_EQ(config.listen, "127.0.0.1:7150");
  EXPECT_EQ(config.max_payload, 1 << 20);
  EXPECT_EQ(config.max_call, 3'670'016);
  EXPECT_EQ(config.request_window_ms, 3'600'000);
  EXPECT_EQ(config.restart_grace_ms, 30'000);
  EXPECT_FALSE(config.insecure);
}

TEST(ConfigTest, FlagBeatsVariableBeatsFileBeatsDefault) {
  const test::TempFolder folder;
  test::WriteFile(folder.File("c.toml"),
                  "# ours\ndata_dir = \"file\"\nread_threads = 3\ninsecure = true\n"
                  "max_payload = \"2KiB\"\n");
  const auto loaded = LoadConfig({"--config", folder.File("c.toml"), "--max-payload=4KiB"},
                                 {"STINT_MAX_PAYLOAD=3KiB", "STINT_READ_THREADS=5", "PATH=/bin"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.max_payload, 4096);
  EXPECT_EQ(loaded->config.read_threads, 5);
  EXPECT_TRUE(loaded->config.insecure);
  EXPECT_EQ(SourceOf(*loaded, "max_payload"), "4KiB from --max-payload");
  EXPECT_EQ(SourceOf(*loaded, "read_threads"), "5 from STINT_READ_THREADS");
  EXPECT_EQ(SourceOf(*loaded, "data_dir"), absl::StrCat("file from ", folder.File("c.toml"), ":2"));
  EXPECT_EQ(SourceOf(*loaded, "drain_timeout"), "5s from default");
}

TEST(ConfigTest, TheFileMayBeNamedByAVariable) {
  const test::TempFolder folder;
  test::WriteFile(folder.File("c.toml"), "listen = '127.0.0.1:1'\n");
  EXPECT_EQ(Load({}, {absl::StrCat("STINT_CONFIG=", folder.File("c.toml"))}).listen, "127.0.0.1:1");
}

TEST(ConfigTest, SwitchesMayBeTurnedOff) {
  EXPECT_TRUE(Load({"--memory"}).memory);
  EXPECT_FALSE(Load({"--memory=false"}, {"STINT_MEMORY=1"}).memory);
  EXPECT_TRUE(Load({}, {"STINT_MEMORY=1"}).memory);
  EXPECT_FALSE(Load({}, {"STINT_MEMORY=0"}).memory);
}

TEST(ConfigTest, BadValuesAreNamedWithTheirSourceAndRange) {
  EXPECT_EQ(ErrorOf({"--max-payload", "3x"}),
            "max_payload (--max-payload) must be a size from 1KiB to 63MiB; is \"3x\"");
  EXPECT_EQ(ErrorOf({}, {"STINT_REQUEST_WINDOW=25h"}),
            "request_window (STINT_REQUEST_WINDOW) must be a duration from 1m to 24h; is "
            "\"25h\"");
  EXPECT_THAT(ErrorOf({}, {"STINT_REQUEST_WINDOW=60"}), HasSubstr("must be a duration"));
  EXPECT_THAT(ErrorOf({}, {"STINT_MEMORY=maybe"}), HasSubstr("must be true or false"));
  EXPECT_THAT(ErrorOf({"--log-level", "loud"}),
              HasSubstr("must be one of debug, info, warning, error"));
  EXPECT_THAT(ErrorOf({"--read-threads", "-1"}), HasSubstr("read_threads"));
  EXPECT_THAT(ErrorOf({"--listen", "7150"}), HasSubstr("listen must be host:port"));
  EXPECT_THAT(ErrorOf({"--listen", "127.0.0.1:70000"}), HasSubstr("listen must be host:port"));
  EXPECT_THAT(ErrorOf({"--http-listen", "off"}), HasSubstr("http_listen must be host:port"));
  EXPECT_THAT(ErrorOf({"--metrics-queues", "0"}), HasSubstr("metrics_queues"));
}

TEST(ConfigTest, HttpCanBeTurnedOff) {
  EXPECT_EQ(Load({}).http_listen, "127.0.0.1:7151");
  EXPECT_EQ(Load({"--http-listen", "none"}).http_listen, "");
  EXPECT_EQ(Load({"--http-listen", ""}).http_listen, "");
  EXPECT_EQ(Load({}, {"STINT_HTTP_LISTEN=[::1]:0"}).http_listen, "[::1]:0");
  // It says nothing about jobs, so it asks for no credentials.
  EXPECT_TRUE(CheckListening(Load({"--http-listen", "0.0.0.0:7151"})).ok());
}

TEST(ConfigTest, UnknownThingsAreNamed) {
  EXPECT_THAT(ErrorOf({"--no-such"}), HasSubstr("--no-such"));
  EXPECT_THAT(ErrorOf({"stray"}), HasSubstr("stray"));
  EXPECT_THAT(ErrorOf({"--listen"}), HasSubstr("--listen"));
  EXPECT_THAT(ErrorOf({"--config", "/nowhere/c.toml"}), HasSubstr("/nowhere/c.toml"));
  const test::TempFolder folder;
  test::WriteFile(folder.File("c.toml"), "memory = true\nmax_paylod = 1\n");
  EXPECT_THAT(ErrorOf({"--config", folder.File("c.toml")}),
              AllOf(HasSubstr("line 2"), HasSubstr("max_paylod")));
  test::WriteFile(folder.File("c.toml"), "memory = true\nlisten = \n");
  EXPECT_THAT(ErrorOf({"--config", folder.File("c.toml")}), HasSubstr("line 2"));
  test::WriteFile(folder.File("c.toml"), "[listen]\nport = 1\n");
  EXPECT_THAT(ErrorOf({"--config", folder.File("c.toml")}), HasSubstr("listen must be a text"));
  test::WriteFile(folder.File("c.toml"), std::string(64 * 1024 + 1, '#'));
  EXPECT_THAT(ErrorOf({"--config", folder.File("c.toml")}), HasSubstr("larger than 64 KiB"));
  EXPECT_THAT(ErrorOf({"--config", "/dev/zero"}), HasSubstr("larger than 64 KiB"));
  std::string deep = "a";
  while (deep.size() < 64 * 1024 - 10) deep += ".a";
  test::WriteFile(folder.File("c.toml"), deep + " = 1\n");
  EXPECT_THAT(ErrorOf({"--config", folder.File("c.toml")}), HasSubstr("a must be a text"));
  EXPECT_THAT(ErrorOf({"--config", folder.path()}), HasSubstr("cannot be read"));

  const auto loaded = LoadConfig({}, {"STINT_LISTN=x", "STINT_TOKEN_FILE=client", "OTHER=1"});
  ASSERT_TRUE(loaded.ok());
  EXPECT_THAT(loaded->warnings, ElementsAre(HasSubstr("STINT_LISTN")));
}

TEST(ConfigTest, SettingsMustFitTogether) {
  EXPECT_THAT(ErrorOf({"--server-cert", "c"}), HasSubstr("server_key"));
  EXPECT_THAT(ErrorOf({"--client-ca", "c"}), HasSubstr("server_cert"));
  EXPECT_THAT(ErrorOf({"--require-tls"}), HasSubstr("server_cert"));
  EXPECT_THAT(ErrorOf({"--insecure", "--tokens-file", "t"}), HasSubstr("contradict"));
  EXPECT_THAT(ErrorOf({"--max-payload", "4MiB"}),
              HasSubstr("max_call must be at least 2 * max_payload + 128KiB = 8320KiB"));
  EXPECT_EQ(Load({"--max-payload", "4MiB", "--max-call", "8320KiB"}).max_payload, 4 << 20);
}

// Who names a folder expects to find the jobs there again; only a stronger word wins.
TEST(ConfigTest, MemoryAndAFolderContradictEachOther) {
  EXPECT_THAT(ErrorOf({"--memory", "--data-dir", "d"}), HasSubstr("contradict"));
  EXPECT_THAT(ErrorOf({"--data-dir", "d"}, {"STINT_MEMORY=1"}), HasSubstr("contradict"));
  EXPECT_THAT(ErrorOf({}, {"STINT_MEMORY=1", "STINT_DATA_DIR=d"}), HasSubstr("STINT_DATA_DIR"));
  const auto loaded = LoadConfig({"--memory"}, {"STINT_DATA_DIR=d"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->warnings, ElementsAre(HasSubstr("data_dir (STINT_DATA_DIR) is not used")));
  EXPECT_EQ(Load({"--memory=false", "--data-dir", "d"}).data_dir, "d");
}

TEST(ConfigTest, AHostThatIsNoneIsNamed) {
  for (const char* listen : {"127.0.0.1:7150", "0.0.0.0:1", "[::1]:7150", "localhost:0"}) {
    EXPECT_TRUE(CheckHost(listen).ok()) << listen;
  }
  EXPECT_THAT(std::string(CheckHost("no..host:7150").message()),
              AllOf(HasSubstr("\"no..host\" cannot be found"), HasSubstr("127.0.0.1")));
}

TEST(ConfigTest, BeyondLoopbackSomebodyMustDecide) {
  EXPECT_TRUE(CheckListening(Load({})).ok());
  EXPECT_TRUE(CheckListening(Load({"--listen", "[::1]:7150"})).ok());
  EXPECT_TRUE(CheckListening(Load({"--listen", "localhost:7150"})).ok());
  EXPECT_TRUE(CheckListening(Load({"--listen", "127.8.0.1:7150"})).ok());
  for (const char* listen : {"0.0.0.0:7150", "[::]:7150", "10.0.0.1:7150", "broker:7150",
                             "127.example.org:7150", "127.0.0.1.example.org:7150"}) {
    const absl::Status status = CheckListening(Load({"--listen", listen}));
    const std::string text(status.message());
    // What helps without a container comes first.
    EXPECT_LT(text.find("--tokens-file FILE"), text.find("docker")) << listen;
    EXPECT_THAT(text, AllOf(HasSubstr("docker run -e STINT_INSECURE=1 -p 127.0.0.1:7150:7150"),
                            HasSubstr("docker run -v ./tokens:/run/stint/tokens:ro -e "
                                      "STINT_TOKENS_FILE=/run/stint/tokens")))
        << listen;
    EXPECT_TRUE(CheckListening(Load({"--listen", listen, "--insecure"})).ok());
    EXPECT_TRUE(CheckListening(Load({"--listen", listen, "--tokens-file", "t"})).ok());
  }
}

TEST(ConfigTest, WhatIsPrintedCanBeReadAgain) {
  const auto loaded = LoadConfig({"--print-config", "--data-dir", "a \"b\"\\c"}, {});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->action, Action::kPrintConfig);
  const test::TempFolder folder;
  test::WriteFile(folder.File("c.toml"), FormatSettings(loaded->settings));
  EXPECT_EQ(Load({"--config", folder.File("c.toml")}).data_dir, "a \"b\"\\c");
}

// Flags, variables and defaults are an interface: compare by eye when they change.
TEST(ConfigTest, GoldenHelpAndSettings) {
  const auto help = LoadConfig({"--help"}, {});
  ASSERT_TRUE(help.ok());
  EXPECT_EQ(help->action, Action::kShowText);
  for (const absl::string_view row : absl::StrSplit(help->text, '\n')) {
    EXPECT_LE(row.size(), 100u) << row;
  }
  EXPECT_EQ(help->text, test::ReadFile("tests/golden/edge/stintd_help.txt")) << help->text;
  const auto defaults = LoadConfig({"--print-config"}, {});
  ASSERT_TRUE(defaults.ok());
  const std::string settings = FormatSettings(defaults->settings);
  EXPECT_EQ(settings, test::ReadFile("tests/golden/edge/stintd_settings.txt")) << settings;
  // Few enough to be read.
  EXPECT_LE(defaults->settings.size(), 30u);
}

TEST(ConfigValuesTest, SizesAndDurations) {
  EXPECT_EQ(ParseBytes("0"), 0);
  EXPECT_EQ(ParseBytes("12"), 12);
  EXPECT_EQ(ParseBytes("64MiB"), 64 << 20);
  EXPECT_EQ(ParseBytes("3 GiB"), int64_t{3} << 30);
  for (const char* text : {"", "MiB", "-1", "1.5MiB", "1MB", "1mib", "0x10", "9223372036854775808",
                           "9999999TiB", " 1"}) {
    EXPECT_FALSE(ParseBytes(text).has_value()) << text;
  }
  EXPECT_EQ(FormatBytes(3'670'016), "3584KiB");
  EXPECT_EQ(FormatBytes(1000), "1000");
  EXPECT_EQ(ParseMillis("1h30m"), 5'400'000);
  EXPECT_EQ(ParseMillis("250ms"), 250);
  EXPECT_EQ(ParseMillis("0"), 0);
  for (const char* text : {"", "10", "-1s", "inf", "1d", "s"}) {
    EXPECT_FALSE(ParseMillis(text).has_value()) << text;
  }
  EXPECT_EQ(FormatMillis(90'000), "1m30s");
}

}  // namespace
}  // namespace stint
