// `stint top` and --watch: readings, rates, what a terminal gets and what a program gets.
#include <algorithm>

#include "client/cli/top_reading.h"
#include "client/cli/watch.h"
#include "gmock/gmock.h"
#include "tests/unit/cli_fixture.h"

namespace stint::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

v1::QueueStats Stats(int64_t ready, int64_t completed) {
  v1::QueueStats stats;
  stats.set_ready(ready);
  stats.set_completed(completed);
  return stats;
}

cli::TopReading Reading(int64_t broker_time_ms, const v1::QueueStats& stats) {
  cli::TopReading reading;
  reading.server.set_broker_time_ms(broker_time_ms);
  reading.queues["q"].stats = stats;
  cli::AddTo(stats, &reading.totals);
  return reading;
}

TEST(TopReadingTest, RatesComeFromTwoReadingsByTheBrokersClock) {
  const cli::TopReading before = Reading(1000, Stats(10, 100));
  const cli::TopReading now = Reading(3000, Stats(7, 120));
  const auto rates = cli::RatesOf(&before, now, "q");
  ASSERT_TRUE(rates.has_value());
  EXPECT_DOUBLE_EQ(rates->entered, 8.5);
  EXPECT_DOUBLE_EQ(rates->ended, 10);
  EXPECT_DOUBLE_EQ(cli::RatesOf(&before, now, "")->ended, 10);
}

TEST(TopReadingTest, NoRatesWithoutAReadingBeforeOrWithoutTime) {
  const cli::TopReading now = Reading(1000, Stats(10, 100));
  EXPECT_FALSE(cli::RatesOf(nullptr, now, "q").has_value());
  EXPECT_FALSE(cli::RatesOf(&now, now, "q").has_value());
}

TEST(TopReadingTest, AQueueThatIsNewWasEmptyBefore) {
  cli::TopReading before = Reading(1000, Stats(1, 1));
  before.queues.clear();
  EXPECT_DOUBLE_EQ(cli::RatesOf(&before, Reading(2000, Stats(3, 0)), "q")->entered, 3);
}

TEST(TopReadingTest, TotalsHaveTheOldestAge) {
  v1::QueueStats totals;
  cli::AddTo(Stats(1, 2), &totals);
  EXPECT_FALSE(totals.has_oldest_ready_age());
  v1::QueueStats old = Stats(3, 4);
  old.mutable_oldest_ready_age()->set_seconds(9);
  cli::AddTo(old, &totals);
  old.mutable_oldest_ready_age()->set_seconds(5);
  cli::AddTo(old, &totals);
  EXPECT_EQ(totals.ready(), 7);
  EXPECT_EQ(totals.completed(), 10);
  EXPECT_EQ(totals.oldest_ready_age().seconds(), 9);
}

TEST_F(CliTest, TopOncePrintsOneTableWithRates) {
  broker_.AddJob("few");
  broker_.AddJob("many");
  broker_.AddJob("many");
  EXPECT_EQ(Run({"top", "--once", "--interval", "100ms"}), cli::kOk);
  EXPECT_EQ(broker_.Calls("GetServerInfo"), 2);
  EXPECT_THAT(out_, StartsWith("stintd 0.1.0 at "));
  EXPECT_THAT(out_, EndsWith("\n\n"
                             "QUEUE\tSTATUS\tREADY\tDELAYED\tHELD\tLEASED\tCOMPLETED\tCANCELLED\t"
                             "DEAD\tOLDEST\tIN/S\tENDED/S\n"
                             "many\topen\t2\t0\t0\t0\t0\t0\t0\t-\t0.0\t0.0\n"
                             "few\topen\t1\t0\t0\t0\t0\t0\t0\t-\t0.0\t0.0\n"
                             "total\t\t3\t0\t0\t0\t0\t0\t0\t-\t0.0\t0.0\n"));
}

TEST_F(CliTest, TopShowsWorkers) {
  broker_.AddJob("q");
  EXPECT_EQ(Run({"lease", "q", "--worker", "me"}), cli::kOk);
  EXPECT_EQ(Run({"top", "--count", "1"}), cli::kOk);
  EXPECT_THAT(out_, EndsWith("\n\n"
                             "WORKER\tVERSION\tLEASES\tSTREAMS\tHEARD\tSTATE\n"
                             "me\t\t1\t0\t0 ago\t\n"));
}

TEST_F(CliTest, TopSortsLimitsAndFilters) {
  broker_.AddJob("b");
  broker_.AddJob("b");
  broker_.AddJob("a");
  broker_.AddJob("other");
  EXPECT_EQ(Run({"top", "--count", "1", "--sort", "name", "--limit", "2"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("\na\topen\t1\t"));
  EXPECT_THAT(out_, HasSubstr("\ntotal (1 not shown)\t\t4\t"));
  EXPECT_LT(out_.find("\na\t"), out_.find("\nb\t"));
  EXPECT_EQ(Run({"top", "--count", "1", "--prefix", "a"}), cli::kOk);
  EXPECT_THAT(out_, Not(HasSubstr("other")));
}

TEST_F(CliTest, TopAsJsonIsOneObjectAReading) {
  broker_.AddJob("q");
  EXPECT_EQ(Run({"top", "--json", "--count", "2", "--interval", "100ms"}), cli::kOk);
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 2);
  const std::string first = out_.substr(0, out_.find('\n'));
  EXPECT_THAT(first, Not(HasSubstr("per_second")));
  EXPECT_THAT(out_, HasSubstr("\"ended_per_second\":0.0"));
}

TEST_F(CliTest, TopDrawsOverItselfOnATerminalOnly) {
  broker_.AddJob("q");
  EXPECT_EQ(Run({"top", "--count", "2", "--interval", "100ms"}, "", /*terminal=*/true), cli::kOk);
  EXPECT_THAT(out_, StartsWith("\x1b[2J\x1b[H\x1b[?7lstintd"));
  EXPECT_THAT(out_, HasSubstr("\x1b[J\x1b[?7h\x1b[H\x1b[?7lstintd"));
  EXPECT_THAT(out_, EndsWith("\x1b[K\n\x1b[J\x1b[?7h"));
  EXPECT_EQ(Run({"top", "--count", "2", "--interval", "100ms"}), cli::kOk);
  EXPECT_THAT(out_, Not(HasSubstr("\x1b")));
  EXPECT_THAT(out_, HasSubstr("\n\nstintd"));
}

TEST_F(CliTest, TopSaysWhatTheBrokerRefuses) {
  broker_.Refuse("ListQueues", {absl::StatusCode::kPermissionDenied, "FORBIDDEN", "no", {}, {}});
  EXPECT_EQ(Run({"top"}), cli::kRefused);
  EXPECT_THAT(err_, HasSubstr("cannot read the queues: no (FORBIDDEN)"));
  EXPECT_EQ(out_, "");
}

TEST_F(CliTest, WatchReadsAgainAndAgain) {
  broker_.AddJob("q");
  const std::vector<std::string> twice = {"--watch", "--count", "2", "--interval", "100ms"};
  const auto with = [&twice](std::vector<std::string> command) {
    command.insert(command.end(), twice.begin(), twice.end());
    return command;
  };
  EXPECT_EQ(Run(with({"queues", "list", "--no-stats"})), cli::kOk);
  EXPECT_EQ(out_, "QUEUE\tSTATUS\nq\topen\n\nQUEUE\tSTATUS\nq\topen\n");
  EXPECT_EQ(Run(with({"queues", "list", "--no-stats", "--json"})), cli::kOk);
  const std::string queues = "{\"queues\":[{\"name\":\"queues/q\",\"etag\":\"1\"}]}\n";
  EXPECT_EQ(out_, queues + queues);
  EXPECT_EQ(Run(with({"queues", "stats", "q", "--json"})), cli::kOk);
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 2);
  EXPECT_EQ(Run(with({"jobs", "list", "q", "--columns", "id,state"}), "", /*terminal=*/true),
            cli::kOk);
  EXPECT_THAT(out_, StartsWith("\x1b[2J\x1b[H"));
  EXPECT_EQ(Run(with({"jobs", "list", "q", "--json"})), cli::kOk);
  EXPECT_THAT(out_, StartsWith("{\"jobs\":[{\"name\":\"queues/q/jobs/j1\""));
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 2);
}

TEST_F(CliTest, WatchEndsWithTheFirstFailure) {
  EXPECT_EQ(Run({"queues", "stats", "none", "--watch"}), cli::kNotFound);
  EXPECT_THAT(err_, HasSubstr("none"));
}

TEST_F(CliTest, IntervalsAreNotTooShortAndNeedAWatch) {
  EXPECT_EQ(Run({"top", "--interval", "1ms"}), cli::kUsage);
  EXPECT_THAT(err_, HasSubstr("the shortest is 100ms"));
  EXPECT_EQ(Run({"queues", "list", "--interval", "1s"}), cli::kUsage);
  EXPECT_EQ(Run({"top", "--once", "--count", "3"}), cli::kUsage);
  EXPECT_EQ(Run({"top", "--sort", "colour"}), cli::kUsage);
}

}  // namespace
}  // namespace stint::testing
