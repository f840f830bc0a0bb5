// `stint jobs tail`, and the follower under it.
#include <algorithm>
#include <future>

#include "client/cli/job_follower.h"
#include "gmock/gmock.h"
#include "tests/support/fake_broker.h"
#include "tests/unit/cli_live_fixture.h"

namespace stint::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

class JobFollowerTest : public ::testing::Test {
 protected:
  JobFollowerTest() : follower_(Request()) {
    client::ConnectionOptions options;
    options.address = broker_.address();
    client_ = std::make_unique<client::Client>(*client::Connection::Open(options));
  }

  static v1::ListJobsRequest Request() {
    v1::ListJobsRequest request;
    request.set_queue("q");
    return request;
  }

  // What one poll tells: `ID STATE`.
  std::vector<std::string> Poll() {
    std::vector<std::string> told;
    const absl::Status status = follower_.Poll(*client_, {}, [&told](const v1::Job& job) {
      told.push_back(job.name().substr(job.name().rfind('/') + 1) + " " +
                     v1::JobState_Name(job.state()).substr(10));
    });
    EXPECT_TRUE(status.ok()) << status;
    return told;
  }

  void Complete(const std::string& job) {
    v1::LeaseJobsRequest lease;
    lease.add_queues("q");
    const auto leased = client_->LeaseJobs(lease);
    ASSERT_TRUE(leased.ok()) << leased.status();
    ASSERT_EQ(leased->leases(0).job(), job);
    v1::CompleteJobRequest complete;
    complete.set_job(job);
    complete.set_token(leased->leases(0).token());
    ASSERT_TRUE(client_->CompleteJob(complete).ok());
  }

  // Page tokens of the calls since the last time.
  std::vector<std::string> Tokens() {
    std::vector<std::string> tokens;
    const auto requests = broker_.Requests<v1::ListJobsRequest>("ListJobs");
    for (size_t i = seen_; i < requests.size(); ++i) tokens.push_back(requests[i].page_token());
    seen_ = requests.size();
    return tokens;
  }

  FakeBroker broker_;
  std::unique_ptr<client::Client> client_;
  cli::JobFollower follower_;
  size_t seen_ = 0;
};

TEST_F(JobFollowerTest, TellsWhatIsNewAndWhatChanged) {
  const std::string first = broker_.AddJob("q");
  EXPECT_THAT(Poll(), ElementsAre("j1 READY"));
  EXPECT_THAT(Poll(), IsEmpty());
  broker_.AddJob("q");
  Complete(first);
  EXPECT_THAT(Poll(), ElementsAre("j1 COMPLETED", "j2 READY"));
  EXPECT_THAT(Poll(), IsEmpty());
}

TEST_F(JobFollowerTest, DoesNotReadAgainWhatHasEnded) {
  const int count = 2 * cli::JobFollower::kPageSize + 1;
  for (int i = 1; i <= count; ++i) Complete(broker_.AddJob("q"));
  EXPECT_EQ(Poll().size(), static_cast<size_t>(count));
  EXPECT_THAT(Tokens(), ElementsAre("", "500", "1000"));
  broker_.AddJob("q");
  EXPECT_THAT(Poll(), ElementsAre("j1002 READY"));
  EXPECT_THAT(Tokens(), ElementsAre("1000"));
}

TEST_F(JobFollowerTest, KeepsThePlaceOfTheOldestOpenJob) {
  v1::JobSpec later;
  later.mutable_delay()->set_seconds(60);
  broker_.AddJob("q", later);
  for (int i = 0; i < cli::JobFollower::kPageSize; ++i) Complete(broker_.AddJob("q"));
  Poll();
  Tokens();
  EXPECT_THAT(Poll(), IsEmpty());
  EXPECT_THAT(Tokens(), ElementsAre("", "500"));
  EXPECT_EQ(follower_.unfollowed(), 0);
}

TEST_F(JobFollowerTest, GivesUpTheOldestOfTooMany) {
  const int count = (cli::JobFollower::kMaxPages + 1) * cli::JobFollower::kPageSize;
  for (int i = 0; i < count; ++i) broker_.AddJob("q");
  EXPECT_EQ(Poll().size(), static_cast<size_t>(count));
  EXPECT_EQ(follower_.unfollowed(), cli::JobFollower::kPageSize);
  Tokens();
  EXPECT_THAT(Poll(), IsEmpty());
  EXPECT_EQ(Tokens().size(), static_cast<size_t>(cli::JobFollower::kMaxPages));
}

TEST_F(LiveCliTest, TailShowsWhatIsThereAndWhatMatches) {
  EXPECT_EQ(Run({"enqueue", "q", "--id", "one", "--label", "a=1", "--label", "b=2"}).code, 0);
  EXPECT_EQ(Run({"enqueue", "q", "--id", "two", "--kind", "k", "--label", "a=1"}).code, 0);
  const std::vector<std::string> tail = {"jobs", "tail",      "q",        "--since",
                                         "1h",   "--columns", "id,state", "--limit"};
  const auto with = [&tail](std::vector<std::string> more) {
    more.insert(more.begin(), tail.begin(), tail.end());
    return more;
  };
  EXPECT_EQ(Run(with({"2"})).out, "one\tREADY\ntwo\tREADY\n");
  EXPECT_EQ(Run(with({"1", "--kind", "k"})).out, "two\tREADY\n");
  EXPECT_EQ(Run(with({"1", "--label", "a=1", "--label", "b=2"})).out, "one\tREADY\n");
  const Ran json = Run(with({"1", "--json"}));
  EXPECT_EQ(json.code, cli::kOk);
  EXPECT_THAT(json.out, MatchesRegex("\\{\"name\":\"queues/q/jobs/one\",.*\\}\n"));
}

TEST_F(LiveCliTest, TailSeesAJobEnd) {
  EXPECT_EQ(Run({"enqueue", "q", "--id", "before"}).code, 0);
  std::future<Ran> tail = std::async(std::launch::async, [this] {
    return Run({"jobs", "tail", "q", "--since", "1h", "--state", "completed", "--columns",
                "id,state", "--limit", "2", "--interval", "100ms"});
  });
  EXPECT_EQ(Run({"enqueue", "q", "--id", "later"}).code, 0);
  EXPECT_EQ(Run({"work", "q", "--exec", "cat", "--max-jobs", "2"}).code, 0);
  const Ran ran = tail.get();
  EXPECT_EQ(ran.code, cli::kOk);
  EXPECT_EQ(ran.out, "before\tCOMPLETED\nlater\tCOMPLETED\n");
  EXPECT_EQ(ran.err, "");
}

TEST_F(LiveCliTest, TailRefusesWhatItCannotDo) {
  EXPECT_EQ(Run({"jobs", "tail", "none"}).code, cli::kNotFound);
  EXPECT_EQ(Run({"jobs", "tail", "q", "--state", "asleep"}).code, cli::kUsage);
  EXPECT_EQ(Run({"jobs", "tail", "q", "--columns", "colour"}).code, cli::kUsage);
  EXPECT_EQ(Run({"jobs", "tail", "q", "--interval", "1ms"}).code, cli::kUsage);
  EXPECT_EQ(Run({"jobs", "tail", "q", "--since", "yesterday"}).code, cli::kUsage);
}

}  // namespace
}  // namespace stint::testing
