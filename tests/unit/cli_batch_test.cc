// `stint jobs cancel|redrive|delete` with a filter: what is sent, asked, printed.
#include "gmock/gmock.h"
#include "tests/support/temp_folder.h"
#include "tests/unit/cli_fixture.h"

namespace stint::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class CliBatchTest : public CliTest {
 protected:
  void AddJobs(int count) {
    for (int i = 0; i < count; ++i) broker_.AddJob("q");
  }
};

TEST_F(CliBatchTest, GoesOnUntilAllHaveBeenLookedAt) {
  AddJobs(2500);
  EXPECT_EQ(Run({"jobs", "cancel", "--queue", "q", "--yes"}), cli::kOk);
  EXPECT_EQ(out_, "cancelled 2500 jobs\n");
  EXPECT_EQ(err_, "");
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_CANCELLED), 2500);
  const auto calls = broker_.Requests<v1::BatchCancelJobsRequest>("BatchCancelJobs");
  ASSERT_EQ(calls.size(), 3U);
  EXPECT_NE(calls[0].request_id(), calls[1].request_id());
  EXPECT_EQ(calls[1].page_token(), "1000");
}

TEST_F(CliBatchTest, SendsTheFilter) {
  AddJobs(1);
  EXPECT_EQ(Run({"jobs",
                 "delete",
                 "--queue",
                 "q",
                 "--state",
                 "dead",
                 "--state",
                 "leased",
                 "--kind",
                 "k",
                 "--label",
                 "a=1",
                 "--label",
                 "b=",
                 "--created-after",
                 "2026-05-01T00:00:00Z",
                 "--created-before",
                 "2026-06-01T00:00:00Z",
                 "--force",
                 "--yes"}),
            cli::kOk);
  EXPECT_EQ(out_, "deleted 0 jobs\n");
  const auto request = broker_.Requests<v1::BatchDeleteJobsRequest>("BatchDeleteJobs")[0];
  EXPECT_EQ(request.queue(), "q");
  EXPECT_TRUE(request.force());
  EXPECT_THAT(request.filter().states(), ElementsAre(v1::JOB_STATE_DEAD, v1::JOB_STATE_LEASED));
  EXPECT_EQ(request.filter().kind(), "k");
  EXPECT_EQ(request.filter().labels_size(), 2);
  EXPECT_EQ(
      request.filter().created_before().seconds() - request.filter().created_after().seconds(),
      31 * 86'400);
}

TEST_F(CliBatchTest, ADryRunCounts) {
  AddJobs(1200);
  EXPECT_EQ(Run({"jobs", "cancel", "--queue", "q", "--dry-run"}), cli::kOk);
  EXPECT_EQ(out_, "would have cancelled 1200 jobs\n");
  EXPECT_EQ(Run({"jobs", "cancel", "--queue", "q", "--dry-run", "--json"}), cli::kOk);
  EXPECT_EQ(out_, test::ReadFile("tests/golden/cli/jobs_cancel_dry_run.json"));
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_READY), 1200);
}

TEST_F(CliBatchTest, AsksWhereSomebodyCanAnswer) {
  AddJobs(1500);
  const std::vector<std::string> command = {"jobs", "cancel", "--queue", "q"};
  for (const char* const no : {"n\n", "\n", "", "yesterday\n"}) {
    EXPECT_EQ(Run(command, no, /*terminal=*/true), cli::kRefused) << no;
    EXPECT_THAT(err_, HasSubstr("stint: cancel 1500 jobs of queue q? [y/N]"));
    EXPECT_THAT(err_, HasSubstr("nothing was changed"));
  }
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_READY), 1500);
  EXPECT_EQ(Run(command, "y\n", /*terminal=*/true), cli::kOk);
  EXPECT_EQ(out_, "cancelled 1500 jobs\n");
  EXPECT_THAT(err_, HasSubstr("\r[####################..........] 1000/1500"));
  EXPECT_THAT(err_, HasSubstr("] 1500/1500\n"));
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_CANCELLED), 1500);
  // Nothing to do is nothing to ask.
  EXPECT_EQ(Run(command, "", /*terminal=*/true), cli::kOk);
  EXPECT_THAT(err_, Not(HasSubstr("[y/N]")));
}

TEST_F(CliBatchTest, RedrivesDeadJobs) {
  AddJobs(3);
  EXPECT_EQ(Run({"jobs", "redrive", "--queue", "q", "--state", "ready", "--yes"}), cli::kOk);
  EXPECT_EQ(out_, "redriven 3 jobs\n");
}

TEST_F(CliBatchTest, AFailureSaysHowFarItCame) {
  AddJobs(1500);
  EXPECT_EQ(Run({"jobs", "cancel", "--queue", "none", "--yes"}), cli::kNotFound);
  EXPECT_EQ(out_, "");
  EXPECT_THAT(err_, HasSubstr("cannot cancel jobs of none"));
}

TEST_F(CliBatchTest, WrongCommandLinesChangeNothing) {
  AddJobs(1);
  const std::vector<std::vector<std::string>> wrong = {
      {"jobs", "cancel"},
      {"jobs", "cancel", "q/1", "--queue", "q", "--yes"},
      {"jobs", "cancel", "--queue", "q"},
      {"jobs", "cancel", "q/1", "--kind", "k"},
      {"jobs", "cancel", "q/1", "--yes"},
      {"jobs", "redrive", "q/1", "--dry-run"},
      {"jobs", "delete", "--queue", "q", "--yes", "--request-id", "r"},
      {"jobs", "delete", "--queue", "q", "--yes", "--state", "sleeping"},
      {"jobs", "delete", "--queue", "q", "--yes", "--created-after", "yesterday"},
      {"jobs", "delete", "--queue", "q", "--yes", "--label", "novalue"},
  };
  for (const auto& arguments : wrong) {
    EXPECT_EQ(Run(arguments), cli::kUsage) << ::testing::PrintToString(arguments);
    EXPECT_NE(err_, "") << ::testing::PrintToString(arguments);
    EXPECT_EQ(out_, "") << ::testing::PrintToString(arguments);
  }
  EXPECT_EQ(broker_.Count("q", v1::JOB_STATE_READY), 1);
}

TEST_F(CliBatchTest, HelpIsAsWritten) {
  std::string all;
  for (const char* const verb : {"cancel", "redrive", "delete"}) {
    EXPECT_EQ(RunPlain({"jobs", verb, "--help"}), cli::kOk);
    all += out_;
  }
  EXPECT_EQ(all, test::ReadFile("tests/golden/cli/jobs_batch_help.txt")) << all;
}

TEST_F(CliBatchTest, ProgressIsReportedAndShown) {
  const std::string job = broker_.AddJob("q");
  ASSERT_EQ(Run({"lease", "q", "--json"}), cli::kOk);
  const std::string token = std::to_string(broker_.GetJob(job).holder().token());
  EXPECT_EQ(Run({"heartbeat", job, token, "--progress", "40 %\x1b[2J"}), cli::kOk);
  EXPECT_EQ(Run({"jobs", "get", job}), cli::kOk);
  EXPECT_THAT(out_, HasSubstr("progress\t40 %\\x1b[2J\n"));
  EXPECT_EQ(Run({"heartbeat", job, token}), cli::kOk);
  EXPECT_FALSE(broker_.Requests<v1::HeartbeatRequest>("Heartbeat")[1].leases(0).has_progress());
}

}  // namespace
}  // namespace stint::testing
