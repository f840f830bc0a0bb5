// Every command but `work`: what it sends, prints and exits with.
#include <algorithm>
#include <sstream>

#include "client/cli/arguments.h"
#include "client/cli/queue_settings.h"
#include "client/cpp/proto_time.h"
#include "gmock/gmock.h"
#include "server/engine/limits.h"
#include "tests/unit/cli_fixture.h"

namespace stint::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(CliTest, EnqueuePrintsTheJobsName) {
  EXPECT_EQ(Run({"enqueue", "email", "--payload", "hi", "--kind", "welcome", "--label", "a=b=c",
                 "--header", "h=", "--priority", "9", "--delay", "1m30s", "--id", "o1"}),
            cli::kOk);
  EXPECT_EQ(out_, "queues/email/jobs/o1\n");
  const auto request = broker_.Requests<v1::EnqueueJobRequest>("EnqueueJob")[0];
  EXPECT_EQ(request.job().payload(), "hi");
  EXPECT_EQ(request.job().kind(), "welcome");
  EXPECT_EQ(request.job().labels().at("a"), "b=c");
  EXPECT_EQ(request.job().headers().at("h"), "");
  EXPECT_EQ(request.job().priority(), 9);
  EXPECT_EQ(request.job().delay().seconds(), 90);
}

TEST_F(CliTest, FlagsMayStandBeforeTheQueue) {
  EXPECT_EQ(Run({"enqueue", "--label", "a=b", "--header", "c=d", "email"}), cli::kOk);
  EXPECT_EQ(Run({"jobs", "list", "--state", "ready", "--label", "a=b", "email"}), cli::kOk);
}

TEST_F(CliTest, EnqueueTakesPayloadsFromFilesAndStandardInput) {
  const std::string bytes("\0\xFF@", 3);
  EXPECT_EQ(Run({"enqueue", "q", "--payload", "@" + WriteFile("payload", bytes)}), cli::kOk);
  EXPECT_EQ(Run({"enqueue", "q", "--payload", "-"}, bytes), cli::kOk);
  EXPECT_EQ(Run({"enqueue", "q", "--payload", "@@home"}), cli::kOk);
  const auto requests = broker_.Requests<v1::EnqueueJobRequest>("EnqueueJob");
  EXPECT_EQ(requests[0].job().payload(), bytes);
  EXPECT_EQ(requests[1].job().payload(), bytes);
  EXPECT_EQ(requests[2].job().payload(), "@home");
  EXPECT_EQ(Run({"enqueue", "q", "--payload", "@/no/such/file"}), cli::kUsage);
  EXPECT_THAT(err_, HasSubstr("/no/such/file"));
}

TEST_F(CliTest, EnqueueFromLinesMakesBatchesThatAreSafeToRepeat) {
  std::string lines;
  for (int i = 1; i <= 2500; ++i) lines += "line" + std::to_string(i) + "\n";
  const std::vector<std::string> command = {
      "enqueue",     "q",   "--from-lines", WriteFile("lines", lines + "\nlast"),
      "--id-prefix", "job", "--request-id", "run1"};
  EXPECT_EQ(Run(command), cli::kOk);
  EXPECT_THAT(out_, StartsWith("queues/q/jobs/job1\nqueues/q/jobs/job2\n"));
  EXPECT_THAT(out_, EndsWith("queues/q/jobs/job2501\n"));
  EXPECT_EQ(Run(command), cli::kOk);
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_READY), 2501);
  const auto batches = broker_.Requests<v1::BatchEnqueueJobsRequest>("BatchEnqueueJobs");
  ASSERT_EQ(batches.size(), 6U);
  EXPECT_EQ(batches[0].items_size(), 1000);
  EXPECT_EQ(batches[2].items_size(), 501);
  EXPECT_EQ(batches[2].items(500).job().payload(), "last");
}

// One call is at most 3.5 MiB.
TEST_F(CliTest, EnqueueFromLinesKeepsBatchesUnderTheCallLimit) {
  std::string lines;
  for (int i = 0; i < 9; ++i) lines += std::string(900 * 1024, 'x') + "\n";
  EXPECT_EQ(Run({"enqueue", "q", "--from-lines", "-", "--quiet"}, lines), cli::kOk);
  EXPECT_EQ(out_, "");
  EXPECT_THAT(err_, HasSubstr("enqueued 9 jobs to q"));
  for (const auto& batch : broker_.Requests<v1::BatchEnqueueJobsRequest>("BatchEnqueueJobs")) {
    EXPECT_LE(batch.ByteSizeLong(), 3'500'000U);
  }
}

TEST_F(CliTest, EnqueueShowsProgressOnATerminal) {
  EXPECT_EQ(Run({"enqueue", "q", "--count", "2000", "--quiet"}, "", /*terminal=*/true), cli::kOk);
  EXPECT_THAT(err_, HasSubstr("\r[###############...............] 1000/2000"));
  EXPECT_THAT(err_, HasSubstr("] 2000/2000\n"));
}

TEST_F(CliTest, WrongCommandLinesExitWithTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"nonsense"},
      {"enqueue"},
      {"enqueue", "q", "--priority", "10"},
      {"enqueue", "q", "--delay", "10"},
      {"enqueue", "q", "--due", "tomorrow"},
      {"enqueue", "q", "--delay", "1s", "--due", "2026-05-01T00:00:00Z"},
      {"enqueue", "q", "--label", "novalue"},
      {"enqueue", "q", "--label", "a=1", "--label", "a=2"},
      {"enqueue", "q", "--kind", "\xFF"},
      {"enqueue", "q", "--id", "x", "--count", "2"},
      {"enqueue", "q", "--timeout", "soon"},
      {"jobs"},
      {"jobs", "get", "no-slash"},
      {"jobs", "list", "q", "--state", "sleeping"},
      {"jobs", "list", "q", "--columns", "colour"},
      {"jobs", "list", "q", "--view", "full"},
      {"jobs", "update", "q/1"},
      {"queues", "update", "q"},
      {"queues", "update", "q", "--reset", "nothing"},
      {"queues", "create", "q", "--max-attempts", "many"},
      {"queues", "create", "q", "--run-limit", "1"},
      {"complete", "q/1", "token"},
      {"complete", "q/1", "99999999999999999999"},
      {"complete", "q/1", "-1"},
      {"fail", "q/1", "1", "--no-retry", "--retry-after", "1s"},
      {"token", "create", "bad name"},
      {"token", "create", "name", "--role", "god"},
      {"work", "q", "--exec", " "},
      {"work", "q", "--exec", "no-such-command --at-all"},
      {"work", "q", "--exec", "true", "--lease", "1"},
      {"work", "q", "--exec", "true", "--lease", "1ms"},
      {"health", "--token-file", "/no/such/token"},
  };
  for (const auto& arguments : wrong) {
    EXPECT_EQ(RunPlain(arguments), cli::kUsage) << ::testing::PrintToString(arguments);
    EXPECT_NE(err_, "") << ::testing::PrintToString(arguments);
    EXPECT_EQ(out_, "") << ::testing::PrintToString(arguments);
  }
}

TEST_F(CliTest, APayloadOnItsWayIsNotDropped) {
  const auto run = [this](const std::vector<std::string>& arguments, bool redirected) {
    std::istringstream in("hi\n");
    std::ostringstream out;
    std::ostringstream err;
    std::vector<std::string> all = {"enqueue", "q", "--address", broker_.address()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    cli::Streams streams{in, out, err};
    streams.in_is_redirected = redirected;
    const int code = cli::Run(all, streams);
    err_ = err.str();
    return code;
  };
  EXPECT_EQ(run({}, /*redirected=*/true), cli::kUsage);
  EXPECT_THAT(err_, HasSubstr("--payload -"));
  EXPECT_EQ(broker_.Calls("EnqueueJob"), 0);
  EXPECT_EQ(run({}, /*redirected=*/false), cli::kOk);
  EXPECT_EQ(run({"--payload", ""}, /*redirected=*/true), cli::kOk);
  EXPECT_EQ(run({"--payload", "-"}, /*redirected=*/true), cli::kOk);
  const auto requests = broker_.Requests<v1::EnqueueJobRequest>("EnqueueJob");
  ASSERT_EQ(requests.size(), 3U);
  EXPECT_EQ(requests[0].job().payload(), "");
  EXPECT_EQ(requests[1].job().payload(), "");
  EXPECT_EQ(requests[2].job().payload(), "hi\n");
}

TEST_F(CliTest, AtMostOnceIsBothBudgetsAtOne) {
  EXPECT_EQ(
      Run({"enqueue", "payouts", "--payload", "42", "--max-attempts", "1", "--max-losses", "1"}),
      cli::kOk);
  const auto request = broker_.Requests<v1::EnqueueJobRequest>("EnqueueJob")[0];
  EXPECT_EQ(request.job().max_attempts(), 1);
  EXPECT_EQ(request.job().max_losses(), 1);
}

TEST_F(CliTest, ARefusalSaysWhatWhyAndWhatToDo) {
  broker_.Refuse("EnqueueJob", {absl::StatusCode::kInvalidArgument,
                                "INVALID_REQUEST",
                                "one field is wrong",
                                {},
                                {{"job.kind", "is 200 bytes,\nthe limit is 128"}}});
  EXPECT_EQ(Run({"enqueue", "q"}), cli::kRefused);
  EXPECT_EQ(err_,
            "stint: cannot enqueue to q: one field is wrong (INVALID_REQUEST)\n"
            "  job.kind: is 200 bytes,\\nthe limit is 128\n"
            "  What to do: correct the fields above and try again\n");
}

TEST_F(CliTest, ARefusalAsJson) {
  broker_.Refuse("EnqueueJob",
                 {absl::StatusCode::kResourceExhausted, "QUEUE_FULL", "full", {}, {}});
  EXPECT_EQ(Run({"enqueue", "q", "--json"}), cli::kRefused);
  EXPECT_THAT(err_, HasSubstr("\"reason\":\"QUEUE_FULL\""));
  EXPECT_THAT(err_, HasSubstr("\"code\":\"RESOURCE_EXHAUSTED\""));
}

TEST_F(CliTest, EachKindOfFailureHasItsExitCode) {
  EXPECT_EQ(Run({"jobs", "get", "q/none"}), cli::kNotFound);
  EXPECT_EQ(Run({"queues", "stats", "none"}), cli::kNotFound);
  broker_.Refuse("CancelJob", {absl::StatusCode::kFailedPrecondition, "WRONG_STATE", "", {}, {}});
  EXPECT_EQ(Run({"jobs", "cancel", "q/1"}), cli::kWrongState);
  broker_.Refuse("UpdateQueue", {absl::StatusCode::kAborted, "ETAG_MISMATCH", "", {}, {}});
  EXPECT_EQ(Run({"queues", "update", "q", "--draining", "true"}), cli::kWrongState);
  broker_.Refuse("EnqueueJob",
                 {absl::StatusCode::kFailedPrecondition, "QUEUE_DRAINING", "", {}, {}});
  EXPECT_EQ(Run({"enqueue", "q"}), cli::kWrongState);
  EXPECT_EQ(cli::ExitCodeFor(absl::CancelledError("")), cli::kUnreachable);
  broker_.RequireToken("secret");
  EXPECT_EQ(Run({"server", "info"}), cli::kRefused);
  EXPECT_THAT(err_, HasSubstr("--token-file"));
}

// What the broker's message says already is not said twice.
TEST_F(CliTest, FieldsAreNamedOnce) {
  broker_.Refuse("EnqueueJob", {absl::StatusCode::kInvalidArgument,
                                "INVALID_REQUEST",
                                "queue is required",
                                {},
                                {{"queue", "is required"}}});
  EXPECT_EQ(Run({"enqueue", "q"}), cli::kRefused);
  EXPECT_THAT(err_, StartsWith("stint: cannot enqueue to q (INVALID_REQUEST)\n"
                               "  queue: is required\n"));
}

TEST_F(CliTest, AnAddressIsAHostAndAPort) {
  for (const char* const address : {"7150", "localhost:22x", "localhost:", ":7150", "localhost:0",
                                    "localhost:70000", "localhost"}) {
    EXPECT_EQ(RunPlain({"health", "--address", address}), cli::kUsage) << address;
    EXPECT_THAT(err_, HasSubstr("HOST:PORT")) << address;
  }
}

TEST_F(CliTest, NoBrokerExitsWithThreeAndSaysWhereItLooked) {
  EXPECT_EQ(RunPlain({"jobs", "wait", "q/1", "--address", "127.0.0.1:1", "--timeout", "0s"}),
            cli::kUnreachable);
  EXPECT_EQ(RunPlain({"server", "info", "--address", "127.0.0.1:1", "--timeout", "0s"}),
            cli::kUnreachable);
  EXPECT_THAT(err_, HasSubstr("is a broker running at 127.0.0.1:1?"));
}

TEST_F(CliTest, ListsJobsForProgramsAndForPeople) {
  broker_.AddJob("q", "a\tb\x1b[31m");
  broker_.AddJob("q", "second");
  EXPECT_EQ(Run({"jobs", "list", "q", "--columns", "id,state,payload"}), cli::kOk);
  EXPECT_EQ(out_, "ID\tSTATE\tPAYLOAD\nj1\tREADY\ta\\tb\\x1b[31m\nj2\tREADY\tsecond\n");
  EXPECT_EQ(Run({"jobs", "list", "q", "--columns", "id", "--no-header"}), cli::kOk);
  EXPECT_EQ(out_, "j1\nj2\n");
  EXPECT_EQ(Run({"jobs", "list", "q", "--columns", "state,id"}, "", /*terminal=*/true), cli::kOk);
  EXPECT_EQ(out_, "\x1b[90mSTATE\x1b[0m  \x1b[90mID\x1b[0m\nREADY  j1\nREADY  j2\n");
  EXPECT_EQ(Run({"jobs", "list", "q", "--json"}), cli::kOk);
  EXPECT_THAT(out_, StartsWith("{\"name\":\"queues/q/jobs/j1\""));
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 2);
}

TEST_F(CliTest, ListsFilterAndGoThroughAllPages) {
  for (int i = 0; i < 25; ++i) broker_.AddJob("q");
  EXPECT_EQ(Run({"jobs", "list", "q", "--all", "--no-header", "--columns", "id"}), cli::kOk);
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 25);
  EXPECT_EQ(Run({"jobs", "list", "q", "--limit", "7", "--no-header"}), cli::kOk);
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 7);
  EXPECT_EQ(Run({"jobs", "list", "q", "--state", "dead", "--state", "READY", "--kind", "k",
                 "--label", "a=b", "--created-after", "2026-01-01T00:00:00Z"}),
            cli::kOk);
  const auto request = broker_.Requests<v1::ListJobsRequest>("ListJobs").back();
  EXPECT_THAT(request.states(), ::testing::ElementsAre(v1::JOB_STATE_DEAD, v1::JOB_STATE_READY));
  EXPECT_EQ(request.kind(), "k");
  EXPECT_EQ(request.labels().at("a"), "b");
  EXPECT_EQ(request.created_after().seconds(), 1767225600);
}

TEST_F(CliTest, GetsAJobItsPayloadAndItsResult) {
  broker_.AddJob("q", "line\n");
  EXPECT_EQ(Run({"jobs", "get", "q/j1"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("job\tqueues/q/jobs/j1\nstate\tREADY\n"));
  EXPECT_EQ(Run({"jobs", "get", "queues/q/jobs/j1", "--payload"}), cli::kOk);
  EXPECT_EQ(out_, "line\n");
  EXPECT_EQ(Run({"jobs", "get", "q/j1", "--json"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("\"payload\":\"bGluZQo=\""));
}

TEST_F(CliTest, AWorkerByHand) {
  broker_.AddJob("q", "work");
  EXPECT_EQ(Run({"lease", "q", "--worker", "me", "--lease", "10m"}), cli::kOk);
  EXPECT_EQ(out_, "queues/q/jobs/j1\t1000000\t1\t\twork\n");
  EXPECT_EQ(Run({"heartbeat", "q/j1", "1000000"}), cli::kOk);
  EXPECT_EQ(out_, "RENEWED\n");
  EXPECT_EQ(Run({"release", "q/j1", "1000000"}), cli::kOk);
  EXPECT_EQ(out_, "queues/q/jobs/j1 READY\n");
  EXPECT_EQ(Run({"heartbeat", "q/j1", "1000000"}), cli::kWrongState);
  EXPECT_EQ(out_, "LOST\n");
  EXPECT_EQ(Run({"complete", "q/j1", "7"}), cli::kWrongState);
  EXPECT_EQ(Run({"lease", "q"}), cli::kOk);
  EXPECT_EQ(Run({"fail", "q/j1", "1000001", "--error", "no", "--retry-after", "5s"}), cli::kOk);
  EXPECT_EQ(out_, "queues/q/jobs/j1 DELAYED\n");
  broker_.AddJob("q");
  EXPECT_EQ(Run({"lease", "q", "--json"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("\"token\":\"1000002\""));
  EXPECT_EQ(Run({"complete", "q/j2", "1000002", "--result", "-"}, "r"), cli::kOk);
  EXPECT_EQ(broker_.GetJob("queues/q/jobs/j2").result(), "r");
  EXPECT_EQ(Run({"lease", "q", "--wait", "0s"}), cli::kNotFound);
  EXPECT_EQ(out_, "");
  EXPECT_THAT(err_, HasSubstr("none came within 0s"));
}

TEST_F(CliTest, WaitsForAJob) {
  broker_.AddJob("q");
  EXPECT_EQ(Run({"jobs", "wait", "q/j1", "--for", "0s"}), cli::kStillRunning);
  EXPECT_THAT(err_, HasSubstr("has not ended within 0: it is READY"));
  EXPECT_THAT(err_, HasSubstr("What to do: wait longer with --for"));
  EXPECT_THAT(err_, Not(HasSubstr("stintd")));
  EXPECT_EQ(Run({"lease", "q"}), cli::kOk);
  EXPECT_EQ(Run({"complete", "q/j1", "1000000", "--result", "bytes"}), cli::kOk);
  EXPECT_EQ(Run({"jobs", "wait", "q/j1", "--result"}), cli::kOk);
  EXPECT_EQ(out_, "bytes");
  broker_.AddJob("q");
  EXPECT_EQ(Run({"jobs", "cancel", "q/j2"}), cli::kOk);
  EXPECT_EQ(Run({"jobs", "wait", "q/j2"}), cli::kNotCompleted);
}

TEST_F(CliTest, ChangesSeveralJobsAndReportsTheFirstRefusal) {
  broker_.AddJob("q");
  broker_.AddJob("q");
  EXPECT_EQ(Run({"jobs", "cancel", "q/j1", "q/none", "q/j2"}), cli::kNotFound);
  EXPECT_EQ(out_, "queues/q/jobs/j1 CANCELLED\nqueues/q/jobs/j2 CANCELLED\n");
  EXPECT_EQ(Run({"jobs", "redrive", "q/j1"}), cli::kWrongState);
  EXPECT_EQ(Run({"jobs", "delete", "q/j1", "--force"}), cli::kOk);
  EXPECT_TRUE(broker_.Requests<v1::DeleteJobRequest>("DeleteJob")[0].force());
  EXPECT_EQ(Run({"jobs", "cancel", "q/j2", "q/j1", "--request-id", "r"}), cli::kUsage);
}

TEST_F(CliTest, UpdatesAJobByMask) {
  broker_.AddJob("q");
  EXPECT_EQ(Run({"jobs", "update", "q/j1", "--priority", "0", "--delay", "0s"}), cli::kOk);
  const auto request = broker_.Requests<v1::UpdateJobRequest>("UpdateJob")[0];
  EXPECT_THAT(request.update_mask().paths(), ::testing::ElementsAre("priority", "delay"));
  EXPECT_TRUE(request.spec().has_priority());
  EXPECT_TRUE(request.spec().has_delay());
}

TEST_F(CliTest, QueuesFromCreateToDelete) {
  EXPECT_EQ(Run({"queues", "create", "q", "--max-attempts", "5", "--retry-initial", "10s",
                 "--finished-age", "2d", "--retry-multiplier", "1.5"}),
            cli::kOk);
  EXPECT_THAT(out_, HasSubstr("\nretry-initial\t10s\nretry-multiplier\t1.5\n"));
  EXPECT_EQ(Run({"queues", "get", "q"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("max-attempts\t5\nmax-losses\t3\tdefault\n"));
  EXPECT_THAT(out_, HasSubstr("retry-max\t24h\tdefault\n"));
  EXPECT_THAT(out_, HasSubstr("finished-age\t2d0h\n"));
  EXPECT_THAT(out_, HasSubstr("run-limit\tno limit\tdefault\n"));
  EXPECT_EQ(Run({"queues", "pause", "q"}), cli::kOk);
  EXPECT_EQ(Run({"queues", "list"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("q\tpaused\t0\t"));
  EXPECT_EQ(Run({"queues", "resume", "q"}), cli::kOk);
  broker_.AddJob("q");
  EXPECT_EQ(Run({"queues", "stats", "q", "--json"}), cli::kOk);
  EXPECT_THAT(out_, StartsWith("{\"ready\":\"1\","));
  EXPECT_THAT(out_, HasSubstr("\"dead\":\"0\""));
  EXPECT_EQ(Run({"queues", "list", "--json"}), cli::kOk);
  EXPECT_THAT(out_, StartsWith("{\"name\":\"queues/q\","));
  EXPECT_THAT(out_, HasSubstr(",\"stats\":{\"ready\":\"1\",\"delayed\":\"0\","));
  EXPECT_EQ(Run({"queues", "list", "--json", "--no-stats"}), cli::kOk);
  EXPECT_THAT(out_, Not(HasSubstr("stats")));
  EXPECT_EQ(Run({"queues", "purge", "q"}), cli::kOk);
  EXPECT_EQ(out_, "1 job removed\n");
  broker_.Refuse("DeleteQueue",
                 {absl::StatusCode::kFailedPrecondition, "WRONG_STATE", "it holds jobs", {}, {}});
  EXPECT_EQ(Run({"queues", "delete", "q"}), cli::kWrongState);
  EXPECT_THAT(err_, HasSubstr("stint queues delete q --force"));
  EXPECT_EQ(Run({"queues", "delete", "q", "--force"}), cli::kOk);
  EXPECT_EQ(Run({"queues", "get", "q"}), cli::kNotFound);
}

// A part of `retry` replaces the whole field at the broker, so the rest is read first, and
// the etag keeps somebody else's change from being lost.
TEST_F(CliTest, UpdatingAPartOfTheRetryPolicyKeepsTheRest) {
  EXPECT_EQ(Run({"queues", "create", "q", "--retry-initial", "10s", "--retry-max", "1h"}),
            cli::kOk);
  EXPECT_EQ(Run({"queues", "update", "q", "--retry-initial", "20s", "--max-jobs", "7"}), cli::kOk);
  const auto request = broker_.Requests<v1::UpdateQueueRequest>("UpdateQueue")[0];
  EXPECT_THAT(request.update_mask().paths(),
              ::testing::ElementsAre("settings.retry", "settings.max_jobs"));
  EXPECT_EQ(request.settings().retry().initial_delay().seconds(), 20);
  EXPECT_EQ(request.settings().retry().max_delay().seconds(), 3600);
  EXPECT_EQ(request.etag(), "1");
  EXPECT_EQ(Run({"queues", "update", "q", "--reset", "retry", "--draining=false"}), cli::kOk);
  const auto reset = broker_.Requests<v1::UpdateQueueRequest>("UpdateQueue")[1];
  EXPECT_THAT(reset.update_mask().paths(), ::testing::ElementsAre("settings.retry", "draining"));
  EXPECT_FALSE(reset.settings().has_retry());
}

// The defaults that are shown are those of the broker.
TEST(QueueSettingsTest, DefaultsAreTheBrokers) {
  std::map<std::string, std::string> shown;
  for (const cli::SettingText& setting : cli::DescribeSettings({})) {
    EXPECT_TRUE(setting.is_default) << setting.name;
    shown[setting.name] = setting.value;
  }
  const auto ms = [&shown](const char* name) {
    return absl::ToInt64Milliseconds(*cli::ParseDuration(shown.at(name)));
  };
  EXPECT_EQ(shown.at("max-attempts"), std::to_string(engine::kDefaultMaxAttempts));
  EXPECT_EQ(shown.at("max-losses"), std::to_string(engine::kDefaultMaxLosses));
  EXPECT_EQ(ms("retry-initial"), engine::kDefaultInitialRetryMs);
  EXPECT_EQ(std::stod(shown.at("retry-multiplier")), engine::kDefaultRetryMultiplier);
  EXPECT_EQ(ms("retry-max"), engine::kDefaultMaxRetryMs);
  EXPECT_EQ(std::stod(shown.at("retry-jitter")), engine::kDefaultRetryJitter);
  EXPECT_EQ(ms("loss-backoff"), engine::kDefaultLossBackoffMs);
  EXPECT_EQ(ms("cancel-grace"), engine::kDefaultCancelGraceMs);
  EXPECT_EQ(ms("finished-age"), engine::kDefaultFinishedAgeMs);
  EXPECT_EQ(shown.at("finished-count"), std::to_string(engine::kDefaultFinishedCount));
  EXPECT_EQ(shown.at("finished-bytes"), std::to_string(engine::kDefaultFinishedBytes));
  EXPECT_EQ(ms("dead-age"), engine::kDefaultDeadAgeMs);
  EXPECT_EQ(shown.at("dead-count"), std::to_string(engine::kDefaultDeadCount));
  EXPECT_EQ(shown.at("dead-bytes"), std::to_string(engine::kDefaultDeadBytes));
}

TEST_F(CliTest, ServerInfoDrainAndHealth) {
  EXPECT_EQ(Run({"server", "info"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("max payload\t1048576 bytes\n"));
  EXPECT_EQ(Run({"server", "drain"}), cli::kOk);
  EXPECT_EQ(broker_.Calls("DrainServer"), 1);
  EXPECT_EQ(Run({"health"}), cli::kOk);
  EXPECT_EQ(out_, "SERVING\n");
}

TEST_F(CliTest, MakesCredentials) {
  EXPECT_EQ(RunPlain({"token", "create", "mailer"}), cli::kOk);
  EXPECT_THAT(out_, MatchesRegex("stint_[A-Za-z0-9_-]{43}\nmailer all sha256:[0-9a-f]{64}\n"));
  const std::string first = out_;
  EXPECT_EQ(RunPlain({"token", "create", "mailer", "--json"}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("\"secret\":\"stint_"));
  EXPECT_THAT(first, Not(HasSubstr(out_)));
}

}  // namespace
}  // namespace stint::testing
