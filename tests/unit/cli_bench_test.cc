// `stint bench`: what it measures, what it leaves behind.
#include "client/cli/latencies.h"
#include "gmock/gmock.h"
#include "tests/unit/cli_fixture.h"
#include "tests/unit/cli_live_fixture.h"

namespace stint::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(LatenciesTest, QuantilesAreWithinTwoPercent) {
  cli::Latencies latencies;
  EXPECT_EQ(latencies.Quantile(0.5), absl::ZeroDuration());
  for (int i = 1; i <= 1000; ++i) latencies.Add(absl::Microseconds(i * 100));
  EXPECT_EQ(latencies.count(), 1000);
  EXPECT_EQ(latencies.max(), absl::Milliseconds(100));
  EXPECT_GE(latencies.Quantile(0.5), absl::Milliseconds(50));
  EXPECT_LE(latencies.Quantile(0.5), absl::Milliseconds(51));
  EXPECT_GE(latencies.Quantile(0.99), absl::Milliseconds(99));
  EXPECT_EQ(latencies.Quantile(1), absl::Milliseconds(100));
}

TEST(LatenciesTest, ManyAreOneAndLongOnesFit) {
  cli::Latencies one;
  one.Add(absl::Hours(5));
  cli::Latencies other;
  other.Add(absl::ZeroDuration());
  one.Add(other);
  EXPECT_EQ(one.count(), 2);
  EXPECT_EQ(one.max(), absl::Hours(5));
  EXPECT_LE(one.Quantile(0.5), absl::Microseconds(1));
}

TEST_F(LiveCliTest, BenchMeasuresAndLeavesNothing) {
  const Ran ran = Run({"bench", "--for", "300ms", "-c", "2", "--batch", "3", "--payload", "10"});
  EXPECT_EQ(ran.code, cli::kOk) << ran.err;
  EXPECT_THAT(ran.out,
              MatchesRegex("[1-9][0-9]*\\.[0-9] lifecycles/s \\([0-9]+ in [0-9]+\\.[0-9] s\\)\n\n"
                           "CALL\tCOUNT\tERRORS\tP50 MS\tP99 MS\tMAX MS\n"
                           "enqueue\t[0-9]+\t0\t[0-9.\t]+\n"
                           "lease\t[0-9]+\t0\t[0-9.\t]+\n"
                           "complete\t[0-9]+\t0\t[0-9.\t]+\n"));
  EXPECT_THAT(ran.err, HasSubstr("2 threads, batches of 3, payloads of 10 bytes, streams\n"));
  EXPECT_EQ(Run({"queues", "list", "--no-stats"}).out, "QUEUE\tSTATUS\n");
}

TEST_F(LiveCliTest, BenchByUnaryCallsAsJson) {
  const Ran ran = Run({"bench", "--for", "200ms", "-c", "1", "--unary", "--json"});
  EXPECT_EQ(ran.code, cli::kOk) << ran.err;
  EXPECT_THAT(ran.out, MatchesRegex("\\{\"seconds\":[0-9]+\\.[0-9]+,\"lifecycles\":\"[1-9][0-9]*\","
                                    "\"lifecycles_per_second\":[0-9.]+,\"calls\":\\{"
                                    "\"enqueue\":\\{\"count\":\"[0-9]+\",\"errors\":\"0\","
                                    "\"p50_ms\":[0-9.]+,\"p99_ms\":[0-9.]+,\"max_ms\":[0-9.]+\\},"
                                    "\"lease\":.*\"complete\":.*\\}\\}\n"));
  EXPECT_EQ(Run({"queues", "list", "--no-stats"}).out, "QUEUE\tSTATUS\n");
}

TEST_F(LiveCliTest, BenchShowsProgressOnATerminal) {
  const Ran ran = Run({"bench", "--for", "600ms", "-c", "1"}, "", /*terminal=*/true);
  EXPECT_EQ(ran.code, cli::kOk);
  EXPECT_THAT(ran.err, HasSubstr(" of 600ms, "));
}

TEST_F(LiveCliTest, BenchDoesNotTouchAQueueThatExists) {
  EXPECT_EQ(Run({"enqueue", "mine", "--id", "one"}).code, cli::kOk);
  const Ran ran = Run({"bench", "--queue", "mine"});
  EXPECT_EQ(ran.code, cli::kRefused);
  EXPECT_THAT(ran.err, HasSubstr("cannot make a queue of its own, mine"));
  EXPECT_EQ(Run({"jobs", "get", "mine/one"}).code, cli::kOk);
}

TEST_F(CliTest, BenchCountsRefusalsAndStillDeletesItsQueue) {
  broker_.Refuse("EnqueueJob",
                 {absl::StatusCode::kResourceExhausted, "OVERLOADED", "busy", {}, {}});
  EXPECT_EQ(Run({"bench", "--for", "500ms", "-c", "1", "--unary"}), cli::kRefused);
  EXPECT_THAT(out_, HasSubstr("\nenqueue\t"));
  EXPECT_THAT(err_, HasSubstr("stint: enqueue: 1 call failed, the first with: busy\n"));
  EXPECT_EQ(broker_.Calls("DeleteQueue"), 1);
}

TEST_F(CliTest, BenchRefusesWhatCannotBeMeasured) {
  EXPECT_EQ(Run({"bench", "--for", "1ms"}), cli::kUsage);
  EXPECT_EQ(Run({"bench", "--batch", "1000", "--payload", "10000"}), cli::kUsage);
  EXPECT_THAT(err_, HasSubstr("3 MiB"));
  EXPECT_EQ(Run({"bench", "-c", "0"}), cli::kUsage);
  EXPECT_EQ(broker_.Calls("CreateQueue"), 0);
}

}  // namespace
}  // namespace stint::testing
