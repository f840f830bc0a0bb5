// The services without gRPC, over the real engine and a memory store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "server/api/edge.h"
#include "server/api/job_service.h"
#include "server/api/queue_service.h"
#include "server/api/worker_service.h"
#include "server/engine/error.h"
#include "storage/reader.h"
#include "tests/support/broker_harness.h"
#include "tests/support/edge_fixture.h"

namespace stint::api {
namespace {

using engine::Reason;
using testing::BrokerHarness;
using ::testing::ElementsAre;
using testing::FakeExchange;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

std::shared_ptr<FakeExchange> NewExchange(std::optional<int64_t> remaining_ms = std::nullopt) {
  return std::make_shared<FakeExchange>("me", remaining_ms);
}

// The real engine behind the services.
class BrokerTest : public ::testing::Test {
 protected:
  BrokerTest() { edge_.Open(&broker_.loop(), &reader_, RandomPageKey()); }

  // Calls and runs the broker until it has answered.
  template <typename Service, typename Request>
  std::shared_ptr<FakeExchange> Call(Service* service,
                                     void (Service::*method)(Request, ExchangePtr),
                                     const std::string& request) {
    auto exchange = NewExchange();
    (service->*method)(Parse<Request>(request), exchange);
    // A read runs on a thread of its own and may then ask the broker.
    while (!exchange->answered()) {
      broker_.Settle();
      std::this_thread::yield();
    }
    return exchange;
  }

  v1::ListJobsResponse List(const std::string& request) {
    return Call(&jobs_, &JobService::ListJobs, request)->response<v1::ListJobsResponse>();
  }

  BrokerHarness broker_;
  storage::Reader reader_{&broker_.store()};
  Edge edge_{EdgeOptions{}};
  JobService jobs_{&edge_};
  WorkerService workers_{&edge_};
  QueueService queues_{&edge_};
};

TEST_F(BrokerTest, AJobsLife) {
  const auto enqueued = Call(&jobs_, &JobService::EnqueueJob,
                             R"(queue: "email" job { kind: "k" payload: "p" content_type: "t"
                                headers { key: "h" value: "1" } labels { key: "l" value: "2" } })")
                            ->response<v1::EnqueueJobResponse>();
  EXPECT_EQ(enqueued.state(), v1::JOB_STATE_READY);
  const auto leased = Call(&workers_, &WorkerService::LeaseJobs, "queues: 'email' worker: 'w'")
                          ->response<v1::LeaseJobsResponse>();
  ASSERT_EQ(leased.leases_size(), 1);
  EXPECT_EQ(leased.leases(0).job(), enqueued.job());
  EXPECT_EQ(leased.leases(0).headers().at("h"), "1");
  const std::string get = absl::StrCat("job: '", enqueued.job(), "'");
  auto job = Call(&jobs_, &JobService::GetJob, get)->response<v1::GetJobResponse>().job();
  EXPECT_EQ(job.state(), v1::JOB_STATE_LEASED);
  EXPECT_EQ(job.holder().worker(), "w");
  EXPECT_EQ(job.holder().token(), leased.leases(0).token());

  const std::string settle = absl::StrCat(get, " token: ", leased.leases(0).token());
  EXPECT_EQ(Call(&workers_, &WorkerService::CompleteJob, settle + " result: 'r'")
                ->response<v1::CompleteJobResponse>()
                .state(),
            v1::JOB_STATE_COMPLETED);
  job = Call(&jobs_, &JobService::GetJob, get)->response<v1::GetJobResponse>().job();
  EXPECT_EQ(job.state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(job.result(), "r");
  EXPECT_EQ(job.spec().payload(), "p");
  EXPECT_EQ(job.spec().kind(), "k");
  EXPECT_EQ(job.spec().labels().at("l"), "2");
  EXPECT_TRUE(job.has_end_time());
  EXPECT_FALSE(job.has_holder());
  const auto waited =
      Call(&jobs_, &JobService::WaitJob, get)->response<v1::WaitJobResponse>().job();
  job.mutable_spec()->clear_payload();
  EXPECT_EQ(waited.SerializeAsString(), job.SerializeAsString());
  // The same token and another verb.
  EXPECT_EQ(engine::ReasonOf(Call(&workers_, &WorkerService::FailJob, settle)->status()),
            Reason::kLeaseLost);
}

TEST_F(BrokerTest, BudgetsInForceAreShownAlikeByEveryCall) {
  Call(&queues_, &QueueService::CreateQueue,
       "queue: 'q' settings { max_attempts: 7 loss_backoff { seconds: 9 } }");
  const auto name = Call(&jobs_, &JobService::EnqueueJob, "queue: 'q' job { max_losses: 4 }")
                        ->response<v1::EnqueueJobResponse>()
                        .job();
  const auto updated =
      Call(&jobs_, &JobService::UpdateJob, absl::StrCat("job: '", name, R"(' spec { priority: 8 }
                                          update_mask { paths: "priority" })"))
          ->response<v1::UpdateJobResponse>()
          .job();
  const auto got =
      Call(&jobs_, &JobService::GetJob, absl::StrCat("job: '", name, "' view: JOB_VIEW_BASIC"))
          ->response<v1::GetJobResponse>()
          .job();
  EXPECT_EQ(updated.SerializeAsString(), got.SerializeAsString());
  EXPECT_EQ(got.spec().max_attempts(), 7);
  EXPECT_EQ(got.spec().max_losses(), 4);
  EXPECT_EQ(got.spec().loss_backoff().seconds(), 9);
  EXPECT_EQ(got.spec().priority(), 8);
}

TEST_F(BrokerTest, ADelayIsShownAsADueTime) {
  const auto name =
      Call(&jobs_, &JobService::EnqueueJob, "queue: 'q' job { delay { seconds: 60 } }")
          ->response<v1::EnqueueJobResponse>()
          .job();
  const auto job = Call(&jobs_, &JobService::GetJob, absl::StrCat("job: '", name, "'"))
                       ->response<v1::GetJobResponse>()
                       .job();
  EXPECT_EQ(job.state(), v1::JOB_STATE_DELAYED);
  EXPECT_EQ(job.spec().due_time().seconds(), job.create_time().seconds() + 60);
}

TEST_F(BrokerTest, UnknownNamesAreNotFound) {
  auto exchange = Call(&jobs_, &JobService::GetJob, "job: 'queues/nowhere/jobs/j'");
  EXPECT_EQ(engine::ReasonOf(exchange->status()), Reason::kJobNotFound);
  EXPECT_EQ(engine::ReasonOf(Call(&jobs_, &JobService::ListJobs, "queue: 'nowhere'")->status()),
            Reason::kQueueNotFound);
  EXPECT_EQ(engine::ReasonOf(Call(&queues_, &QueueService::GetQueue, "queue: 'nowhere'")->status()),
            Reason::kQueueNotFound);
  EXPECT_EQ(
      engine::ReasonOf(Call(&queues_, &QueueService::GetQueueStats, "queue: 'nowhere'")->status()),
      Reason::kQueueNotFound);
}

// S94: every job that was there throughout is shown exactly once.
TEST_F(BrokerTest, PagesShowEachJobOnce) {
  std::set<std::string> expected;
  for (int i = 0; i < 25; ++i) {
    expected.insert("queues/q/jobs/" + broker_.Enqueue("q").jobs.front().job_id);
  }
  std::set<std::string> seen;
  std::string token;
  int pages = 0;
  do {
    const auto page = List(absl::StrCat("queue: 'q' page_size: 10 page_token: '", token, "'"));
    EXPECT_LE(page.jobs_size(), 10);
    for (const v1::Job& job : page.jobs()) EXPECT_TRUE(seen.insert(job.name()).second);
    token = page.next_page_token();
    // Others come while the caller turns the page.
    broker_.Enqueue("q");
    ASSERT_LT(++pages, 10);
  } while (!token.empty());
  for (const std::string& name : expected) EXPECT_TRUE(seen.contains(name)) << name;
}

TEST_F(BrokerTest, TokensBelongToTheirListing) {
  for (int i = 0; i < 3; ++i) broker_.Enqueue("q");
  broker_.Enqueue("p");
  const std::string token = List("queue: 'q' page_size: 1").next_page_token();
  ASSERT_FALSE(token.empty());
  const std::string with = absl::StrCat(" page_token: '", token, "' ");
  EXPECT_EQ(List("queue: 'q' page_size: 2" + with).jobs_size(), 2);
  for (const std::string other :
       {"queue: 'p'", "queue: 'q' kind: 'k'", "queue: 'q' states: JOB_STATE_READY",
        "queue: 'q' labels { key: 'a' value: 'b' }", "queue: 'q' created_after { seconds: 1 }"}) {
    const absl::Status status = Call(&jobs_, &JobService::ListJobs, other + with)->status();
    EXPECT_EQ(engine::ReasonOf(status), Reason::kInvalidRequest) << other;
    EXPECT_THAT(std::string(status.message()), HasSubstr("page_token")) << other;
  }
  EXPECT_EQ(engine::ReasonOf(
                Call(&jobs_, &JobService::ListJobs, "queue: 'q' page_token: 'rubbish'")->status()),
            Reason::kInvalidRequest);
}

TEST_F(BrokerTest, ListingsFilter) {
  const auto enqueue = [this](const std::string& job) {
    return Call(&jobs_, &JobService::EnqueueJob, absl::StrCat("queue: 'q' job { ", job, " }"))
        ->response<v1::EnqueueJobResponse>()
        .job();
  };
  const std::string a = enqueue("kind: 'a' labels { key: 'x' value: '1' }");
  broker_.Advance(10'000);
  const std::string b = enqueue("kind: 'b' labels { key: 'x' value: '2' } delay { seconds: 60 }");
  broker_.Advance(10'000);
  const std::string c = enqueue("labels { key: 'x' value: '1' } labels { key: 'y' value: '1' }");
  const auto names = [this](const std::string& filter) {
    std::vector<std::string> found;
    const auto page = List("queue: 'q' " + filter);
    for (const v1::Job& job : page.jobs()) found.push_back(job.name());
    return found;
  };
  EXPECT_THAT(names(""), ElementsAre(a, b, c));
  EXPECT_THAT(names("kind: 'a'"), ElementsAre(a));
  EXPECT_THAT(names("kind: ''"), ElementsAre(c));
  EXPECT_THAT(names("labels { key: 'x' value: '1' }"), ElementsAre(a, c));
  EXPECT_THAT(names("labels { key: 'x' value: '1' } labels { key: 'y' value: '1' }"),
              ElementsAre(c));
  EXPECT_THAT(names("states: JOB_STATE_DELAYED states: JOB_STATE_DEAD"), ElementsAre(b));
  const int64_t start = broker_.clock().wall_ms / 1000 - 20;
  EXPECT_THAT(names(absl::StrCat("created_after { seconds: ", start + 10, " }")),
              ElementsAre(b, c));
  EXPECT_THAT(names(absl::StrCat("created_before { seconds: ", start + 10, " }")), ElementsAre(a));
}

// No page is larger than an answer may be, and nothing is left out.
TEST_F(BrokerTest, FullPagesStayUnderTheCallLimit) {
  for (int i = 0; i < 8; ++i) {
    broker_.Enqueue("q", BrokerHarness::Job(std::string(1 << 20, static_cast<char>('a' + i))));
  }
  std::string payloads;
  std::string token;
  do {
    const auto page =
        List(absl::StrCat("queue: 'q' view: JOB_VIEW_FULL page_token: '", token, "'"));
    EXPECT_LE(page.ByteSizeLong(), edge_.limits().max_call_bytes);
    ASSERT_GT(page.jobs_size(), 0);
    for (const v1::Job& job : page.jobs()) payloads.push_back(job.spec().payload().front());
    token = page.next_page_token();
  } while (!token.empty());
  EXPECT_EQ(payloads, "abcdefgh");
  // Without payloads all fit.
  EXPECT_EQ(List("queue: 'q'").jobs_size(), 8);
  EXPECT_EQ(List("queue: 'q'").jobs(0).spec().payload(), "");
}

TEST_F(BrokerTest, APageLooksAtTenThousandJobsAtMost) {
  for (int i = 0; i < 11; ++i) {
    broker_.EnqueueMany("q", std::vector<engine::NewJob>(1000, BrokerHarness::Job()));
  }
  auto page = List("queue: 'q' kind: 'none'");
  EXPECT_THAT(page.jobs(), IsEmpty());
  ASSERT_FALSE(page.next_page_token().empty());
  page = List(absl::StrCat("queue: 'q' kind: 'none' page_token: '", page.next_page_token(), "'"));
  EXPECT_THAT(page.jobs(), IsEmpty());
  EXPECT_EQ(page.next_page_token(), "");
  EXPECT_EQ(List("queue: 'q' page_size: 5000").jobs_size(), 1000);
}

TEST_F(BrokerTest, QueuesAreConfiguredListedAndCounted) {
  for (const char* name : {"b", "a", "ab", "c"}) broker_.Enqueue(name);
  const auto names = [](const v1::ListQueuesResponse& page) {
    std::vector<std::string> found;
    for (const v1::Queue& queue : page.queues()) found.push_back(queue.name());
    return found;
  };
  auto page = Call(&queues_, &QueueService::ListQueues, "page_size: 3 with_stats: true")
                  ->response<v1::ListQueuesResponse>();
  EXPECT_THAT(names(page), ElementsAre("queues/a", "queues/ab", "queues/b"));
  ASSERT_EQ(page.stats_size(), 3);
  EXPECT_EQ(page.stats(0).ready(), 1);
  const std::string token = page.next_page_token();
  page = Call(&queues_, &QueueService::ListQueues, absl::StrCat("page_token: '", token, "'"))
             ->response<v1::ListQueuesResponse>();
  EXPECT_THAT(names(page), ElementsAre("queues/c"));
  EXPECT_EQ(page.next_page_token(), "");
  EXPECT_THAT(names(Call(&queues_, &QueueService::ListQueues, "prefix: 'a'")
                        ->response<v1::ListQueuesResponse>()),
              ElementsAre("queues/a", "queues/ab"));
  EXPECT_EQ(engine::ReasonOf(Call(&queues_, &QueueService::ListQueues,
                                  absl::StrCat("prefix: 'a' page_token: '", token, "'"))
                                 ->status()),
            Reason::kInvalidRequest);
  EXPECT_EQ(Call(&queues_, &QueueService::GetQueueStats, "queue: 'a'")
                ->response<v1::GetQueueStatsResponse>()
                .stats()
                .ready(),
            1);
}

TEST_F(BrokerTest, QueueUpdatesKeepToMaskAndEtag) {
  auto queue = Call(&queues_, &QueueService::CreateQueue,
                    "queue: 'q' settings { max_jobs: 5 max_losses: 2 }")
                   ->response<v1::CreateQueueResponse>()
                   .queue();
  EXPECT_EQ(engine::ReasonOf(Call(&queues_, &QueueService::CreateQueue, "queue: 'q'")->status()),
            Reason::kQueueExists);
  const std::string old_etag = queue.etag();
  const std::string update = absl::StrCat(
      "queue: 'q' draining: true settings { run_limit { seconds: 5 } } etag: '", old_etag,
      "' update_mask { paths: 'settings.run_limit' paths: 'settings.max_jobs' paths: 'draining' }");
  queue = Call(&queues_, &QueueService::UpdateQueue, update)
              ->response<v1::UpdateQueueResponse>()
              .queue();
  EXPECT_TRUE(queue.draining());
  EXPECT_EQ(queue.settings().run_limit().seconds(), 5);
  EXPECT_FALSE(queue.settings().has_max_jobs());
  EXPECT_EQ(queue.settings().max_losses(), 2);
  EXPECT_NE(queue.etag(), old_etag);
  EXPECT_EQ(engine::ReasonOf(Call(&queues_, &QueueService::UpdateQueue, update)->status()),
            Reason::kEtagMismatch);
  EXPECT_EQ(Call(&queues_, &QueueService::GetQueue, "queue: 'q'")
                ->response<v1::GetQueueResponse>()
                .queue()
                .SerializeAsString(),
            queue.SerializeAsString());
  EXPECT_EQ(engine::ReasonOf(Call(&jobs_, &JobService::EnqueueJob, "queue: 'q'")->status()),
            Reason::kQueueDraining);
}

// Each of these calls has an answer of a form of its own.
TEST_F(BrokerTest, OperatorsCallsAreAnswered) {
  const auto job = [this](const std::string& spec) {
    return Call(&jobs_, &JobService::EnqueueJob, "queue: 'q' job { " + spec + " }")
        ->response<v1::EnqueueJobResponse>()
        .job();
  };
  const std::string first = absl::StrCat("job: '", job(""), "'");
  EXPECT_EQ(Call(&jobs_, &JobService::CancelJob, first)->response<v1::CancelJobResponse>().state(),
            v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(
      Call(&jobs_, &JobService::RedriveJob, first)->response<v1::RedriveJobResponse>().state(),
      v1::JOB_STATE_READY);
  EXPECT_EQ(engine::ReasonOf(Call(&jobs_, &JobService::RedriveJob, first)->status()),
            Reason::kWrongState);
  Call(&jobs_, &JobService::DeleteJob, first)->response<v1::DeleteJobResponse>();
  EXPECT_EQ(engine::ReasonOf(Call(&jobs_, &JobService::DeleteJob, first)->status()),
            Reason::kJobNotFound);

  EXPECT_TRUE(Call(&queues_, &QueueService::PauseQueue, "queue: 'q'")
                  ->response<v1::PauseQueueResponse>()
                  .queue()
                  .paused());
  EXPECT_FALSE(Call(&queues_, &QueueService::ResumeQueue, "queue: 'q'")
                   ->response<v1::ResumeQueueResponse>()
                   .queue()
                   .paused());
  job("");
  job("delay { seconds: 60 }");
  EXPECT_EQ(Call(&queues_, &QueueService::PurgeQueue, "queue: 'q'")
                ->response<v1::PurgeQueueResponse>()
                .purged(),
            2);
  job("");
  EXPECT_EQ(engine::ReasonOf(Call(&queues_, &QueueService::DeleteQueue, "queue: 'q'")->status()),
            Reason::kWrongState);
  Call(&queues_, &QueueService::DeleteQueue, "queue: 'q' force: true")
      ->response<v1::DeleteQueueResponse>();
  EXPECT_EQ(engine::ReasonOf(Call(&queues_, &QueueService::GetQueue, "queue: 'q'")->status()),
            Reason::kQueueNotFound);

  const auto batch =
      Call(&jobs_, &JobService::BatchEnqueueJobs, "queue: 'q' items { } items { job_id: 'mine' }")
          ->response<v1::BatchEnqueueJobsResponse>();
  ASSERT_EQ(batch.results_size(), 2);
  EXPECT_EQ(batch.results(1).job(), "queues/q/jobs/mine");
  EXPECT_EQ(engine::ReasonOf(Call(&jobs_, &JobService::BatchEnqueueJobs,
                                  "queue: 'q' items { } items { job_id: 'mine' }")
                                 ->status()),
            Reason::kJobExists);
}

// S73.
TEST_F(BrokerTest, ARequestIdIsForOneContent) {
  const std::string first = "queue: 'q' request_id: 'r' job { payload: '1' }";
  const auto job =
      Call(&jobs_, &JobService::EnqueueJob, first)->response<v1::EnqueueJobResponse>().job();
  EXPECT_EQ(Call(&jobs_, &JobService::EnqueueJob, first)->response<v1::EnqueueJobResponse>().job(),
            job);
  EXPECT_EQ(engine::ReasonOf(Call(&jobs_, &JobService::EnqueueJob,
                                  "queue: 'q' request_id: 'r' job { payload: '2' }")
                                 ->status()),
            Reason::kRequestIdReused);
  EXPECT_EQ(engine::ReasonOf(Call(&jobs_, &JobService::EnqueueJob,
                                  "queue: 'p' request_id: 'r' job { payload: '1' }")
                                 ->status()),
            Reason::kRequestIdReused);
}

}  // namespace
}  // namespace stint::api
