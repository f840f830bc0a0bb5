#include <sstream>

#include "client/cli/arguments.h"
#include "client/cli/output.h"
#include "gtest/gtest.h"

namespace stint::cli {
namespace {

TEST(ArgumentsTest, Durations) {
  const std::pair<const char*, absl::Duration> good[] = {
      {"0", absl::ZeroDuration()},        {"0s", absl::ZeroDuration()},
      {"250ms", absl::Milliseconds(250)}, {"1.5s", absl::Milliseconds(1500)},
      {"1h30m", absl::Minutes(90)},       {"2d", absl::Hours(48)},
      {"1d12h", absl::Hours(36)},         {"0.5d", absl::Hours(12)},
      {"3650d", absl::Hours(24) * 3650}};
  for (const auto& [text, duration] : good) {
    const auto parsed = ParseDuration(text);
    ASSERT_TRUE(parsed.ok()) << text;
    EXPECT_EQ(*parsed, duration) << text;
  }
  for (const char* const bad : {"", "10", "-5s", "5 s", "five", "inf", "d", "-1d", "nand", "1d-1s",
                                "1e99d", "1w", "10s "}) {
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
  }
}

TEST(ArgumentsTest, Times) {
  EXPECT_EQ(*ParseTime("2026-05-01T10:00:00Z"), absl::FromUnixSeconds(1777629600));
  EXPECT_EQ(*ParseTime("2026-05-01T12:00:00.5+02:00"),
            absl::FromUnixSeconds(1777629600) + absl::Milliseconds(500));
  for (const char* const bad :
       {"", "2026-05-01", "10:00", "2026-13-01T00:00:00Z", "2026-05-01T10:00:00"}) {
    EXPECT_FALSE(ParseTime(bad).ok()) << bad;
  }
}

TEST(ArgumentsTest, JobNames) {
  EXPECT_EQ(*ParseJobName("q/1"), "queues/q/jobs/1");
  EXPECT_EQ(*ParseJobName("queues/q/jobs/1"), "queues/q/jobs/1");
  for (const char* const bad :
       {"", "1", "/1", "q/", "q/1/2", "queues/q/jobs/", "queues//jobs/1", "jobs/q/queues/1"}) {
    EXPECT_FALSE(ParseJobName(bad).ok()) << bad;
  }
}

TEST(ArgumentsTest, States) {
  EXPECT_EQ(*ParseState("dead"), v1::JOB_STATE_DEAD);
  EXPECT_EQ(*ParseState("READY"), v1::JOB_STATE_READY);
  EXPECT_FALSE(ParseState("unspecified").ok());
  EXPECT_FALSE(ParseState("").ok());
}

TEST(OutputTest, NothingFromAJobReachesTheTerminalAsControl) {
  EXPECT_EQ(Printable("plain \xC3\xA4"), "plain \xC3\xA4");
  EXPECT_EQ(Printable("a\nb\tc\r\x1b[2J\x7f"), "a\\nb\\tc\\x0d\\x1b[2J\\x7f");
  EXPECT_EQ(Printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m");
  EXPECT_EQ(Printable(absl::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(Printable("\xFF"), "\xEF\xBF\xBD");
}

TEST(OutputTest, AlignsByCharacters) {
  Table table({"A", "B"}, /*aligned=*/true, /*coloured=*/false);
  table.AddRow({Cell("\xC3\xA4\xC3\xB6"), Cell("x")});
  table.AddRow({Cell("wide"), Cell("y")});
  std::ostringstream out;
  table.Print(out);
  EXPECT_EQ(out.str(), "A     B\n\xC3\xA4\xC3\xB6    x\nwide  y\n");
}

TEST(OutputTest, ShortDurations) {
  EXPECT_EQ(ShortDuration(absl::Milliseconds(3)), "3ms");
  EXPECT_EQ(ShortDuration(absl::Milliseconds(1234)), "1.234s");
  EXPECT_EQ(ShortDuration(absl::Seconds(59)), "59s");
  EXPECT_EQ(ShortDuration(absl::Seconds(192)), "3m12s");
  EXPECT_EQ(ShortDuration(absl::Hours(52)), "2d4h");
}

}  // namespace
}  // namespace stint::cli
