// Changing many jobs by a filter, and the progress of leased jobs, through the services over
// the real engine and a memory store.
#include "server/api/job_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "server/api/edge.h"
#include "server/api/job_service.h"
#include "server/api/worker_service.h"
#include "server/engine/error.h"
#include "tests/support/case_fixture.h"
#include "tests/support/edge_fixture.h"

namespace stint::testing {
namespace {

using api::JobService;
using ::testing::HasSubstr;

class BatchTest : public CaseTest {
 protected:
  // Everything in front of the loop; made anew after a crash, with the same key for tokens.
  struct Front {
    Front(BrokerHarness* broker, std::string key) : reader(&broker->store()) {
      edge.Open(&broker->loop(), &reader, std::move(key));
    }
    storage::Reader reader;
    api::Edge edge{api::EdgeOptions{}};
    JobService jobs{&edge};
    api::WorkerService workers{&edge};
  };

  void Crash() {
    front_.reset();
    broker_.Crash();
    front_ = std::make_unique<Front>(&broker_, key_);
  }

  template <typename Service, typename Request>
  std::shared_ptr<FakeExchange> Call(Service* service,
                                     void (Service::*method)(Request, api::ExchangePtr),
                                     const std::string& text) {
    Request request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
    auto exchange = std::make_shared<FakeExchange>("me");
    (service->*method)(std::move(request), exchange);
    // The read runs on a thread of its own and then gives its command to the broker.
    while (!exchange->answered()) {
      broker_.Settle();
      std::this_thread::yield();
    }
    return exchange;
  }

  v1::BatchResult Cancel(const std::string& text) {
    return Call(&front_->jobs, &JobService::BatchCancelJobs, text)
        ->response<v1::BatchCancelJobsResponse>()
        .result();
  }
  v1::BatchResult Redrive(const std::string& text) {
    return Call(&front_->jobs, &JobService::BatchRedriveJobs, text)
        ->response<v1::BatchRedriveJobsResponse>()
        .result();
  }
  v1::BatchResult Delete(const std::string& text) {
    return Call(&front_->jobs, &JobService::BatchDeleteJobs, text)
        ->response<v1::BatchDeleteJobsResponse>()
        .result();
  }
  absl::Status RefusedCancel(const std::string& text) {
    return Call(&front_->jobs, &JobService::BatchCancelJobs, text)->status();
  }
  v1::Job GetJob(const std::string& name) {
    return Call(&front_->jobs, &JobService::GetJob, absl::StrCat("job: '", name, "'"))
        ->response<v1::GetJobResponse>()
        .job();
  }

  static std::string Token(const v1::BatchResult& result) {
    return absl::StrCat(" page_token: '", result.next_page_token(), "' ");
  }

  record::QueueCounters Counters(const std::string& queue = "q") {
    return broker_.Stats(queue).counters;
  }

  // `count` jobs that are dead after one failure.
  void EnqueueDead(int count) {
    auto job = BrokerHarness::Job();
    job.record.set_max_attempts(1);
    broker_.EnqueueMany("q", Jobs(count, job));
    for (const auto& lease : broker_.Lease("q", count)) broker_.Fail(lease);
  }

  const std::string key_ = api::RandomPageKey();
  std::unique_ptr<Front> front_ = std::make_unique<Front>(&broker_, key_);
};

TEST_F(BatchTest, CancelsWhatHasNotEnded) {
  EnqueueDead(2);
  auto delayed = BrokerHarness::Job();
  delayed.delay_ms = 60'000;
  broker_.EnqueueMany("q", Jobs(3, delayed));
  broker_.EnqueueMany("q", Jobs(5, BrokerHarness::Job()));
  const auto held = broker_.Lease("q", 1);
  auto result = Cancel("queue: 'q'");
  EXPECT_EQ(result.matched(), 8);
  EXPECT_EQ(result.changed(), 8);
  EXPECT_EQ(result.next_page_token(), "");
  EXPECT_EQ(Counters().cancelled(), 7);
  EXPECT_EQ(Counters().dead(), 2);
  EXPECT_EQ(broker_.Heartbeat(held[0]), LeaseStatus::kCancelRequested);
  // Only the leased one is still there, and its worker knows.
  result = Cancel("queue: 'q'");
  EXPECT_EQ(result.matched(), 1);
  EXPECT_EQ(result.changed(), 0);
  EXPECT_EQ(result.skipped_cancelling(), 1);
}

TEST_F(BatchTest, TheFilterIsThatOfListings) {
  const auto add = [this](const std::string& job) {
    Call(&front_->jobs, &JobService::EnqueueJob, absl::StrCat("queue: 'q' job { ", job, " }"));
  };
  const int64_t start = broker_.clock().wall_ms / 1000;
  add("kind: 'a' labels { key: 'x' value: '1' }");
  broker_.Advance(10'000);
  add("kind: 'b' labels { key: 'x' value: '2' } delay { seconds: 60 }");
  broker_.Advance(10'000);
  add("labels { key: 'x' value: '1' } labels { key: 'y' value: '1' }");
  const auto count = [this](const std::string& filter) {
    return Cancel(absl::StrCat("queue: 'q' dry_run: true filter { ", filter, " }")).changed();
  };
  EXPECT_EQ(count(""), 3);
  EXPECT_EQ(count("kind: 'a'"), 1);
  EXPECT_EQ(count("kind: ''"), 1);
  EXPECT_EQ(count("labels { key: 'x' value: '1' }"), 2);
  EXPECT_EQ(count("labels { key: 'x' value: '1' } labels { key: 'y' value: '1' }"), 1);
  EXPECT_EQ(count("states: JOB_STATE_DELAYED"), 1);
  EXPECT_EQ(count(absl::StrCat("created_after { seconds: ", start + 10, " }")), 2);
  EXPECT_EQ(count(absl::StrCat("created_before { seconds: ", start + 10, " }")), 1);
  EXPECT_EQ(Cancel("queue: 'q' filter { kind: 'a' }").changed(), 1);
  EXPECT_EQ(Counters().cancelled(), 1);
}

// S95 with the call for many: what dies again is not revived again.
TEST_F(BatchTest, S95_EachDeadJobRunsOnceMore) {
  EnqueueDead(51);
  std::map<std::string, int> runs;
  v1::BatchResult step;
  int64_t changed = 0;
  int64_t moved = 0;
  int steps = 0;
  do {
    step = Redrive(absl::StrCat("queue: 'q' limit: 10", Token(step)));
    changed += step.changed();
    moved += step.skipped_moved();
    EXPECT_LE(step.matched(), 10);
    for (const auto& lease : broker_.Lease("q", 100)) {
      ++runs[lease.job.job_id];
      broker_.Fail(lease);
    }
    ASSERT_LT(++steps, 20);
  } while (!step.next_page_token().empty());
  EXPECT_EQ(changed, 51);
  EXPECT_EQ(moved, 0);
  EXPECT_EQ(runs.size(), 51u);
  for (const auto& [id, count] : runs) EXPECT_EQ(count, 1) << id;
  EXPECT_EQ(Counters().dead(), 51);
}

TEST_F(BatchTest, WhatEnteredItsStateLaterIsPassedOver) {
  auto delayed = BrokerHarness::Job();
  delayed.delay_ms = 1'000;
  broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job()));
  broker_.EnqueueMany("q", Jobs(3, delayed));
  const auto first = Cancel("queue: 'q' limit: 1");
  ASSERT_EQ(first.changed(), 1);
  broker_.Advance(2'000);  // the delayed ones become ready
  broker_.EnqueueMany("q", Jobs(4, BrokerHarness::Job()));
  const auto rest = Cancel("queue: 'q'" + Token(first));
  EXPECT_EQ(rest.matched(), 4);
  EXPECT_EQ(rest.changed(), 1);
  EXPECT_EQ(rest.skipped_moved(), 3);
  EXPECT_EQ(rest.next_page_token(), "");
  EXPECT_EQ(Counters().ready(), 7);
  // A new run begins now.
  EXPECT_EQ(Cancel("queue: 'q'").changed(), 7);
}

TEST_F(BatchTest, WhatChangesBetweenReadAndApplyIsPassedOver) {
  const auto jobs = broker_.EnqueueMany("q", Jobs(4, BrokerHarness::Job()));
  v1::BatchCancelJobsRequest request;
  request.set_queue("q");
  const api::PageTokens tokens(key_);
  auto command = api::FindBatch(front_->reader, tokens, api::ToBatch(request, ""));
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->sequences.size(), 4u);
  const auto held = broker_.Lease("q", 1);
  broker_.Call(engine::DeleteJobCommand{{"q", jobs.jobs[1].job_id}, false, {}});
  // Released into the very state it was seen in: another stay all the same.
  broker_.Release(broker_.Lease("q", 1)[0]);
  const auto reply = Ask<engine::BatchReply>(*command);
  EXPECT_EQ(reply.changed, 1);
  EXPECT_EQ(reply.moved, 3);
  EXPECT_EQ(broker_.Heartbeat(held[0]), LeaseStatus::kRenewed);
}

TEST_F(BatchTest, OneCallHasItsBounds) {
  const int kJobs = 11'000;
  for (int i = 0; i < kJobs / 1'000; ++i) {
    broker_.EnqueueMany("q", Jobs(1'000, BrokerHarness::Job()));
  }
  // 10,000 rows examined.
  auto step = Cancel("queue: 'q' filter { kind: 'none' }");
  EXPECT_EQ(step.matched(), 0);
  ASSERT_NE(step.next_page_token(), "");
  step = Cancel("queue: 'q' filter { kind: 'none' }" + Token(step));
  EXPECT_EQ(step.next_page_token(), "");
  // 1,000 changed, whatever was asked for.
  step = Cancel("queue: 'q' limit: 5000");
  EXPECT_EQ(step.changed(), 1'000);
  EXPECT_NE(step.next_page_token(), "");
  EXPECT_EQ(Counters().cancelled(), 1'000);
  EXPECT_EQ(Counters().ready(), kJobs - 1'000);
}

TEST_F(BatchTest, ADryRunChangesNothing) {
  broker_.EnqueueMany("q", Jobs(25, BrokerHarness::Job()));
  v1::BatchResult step;
  int64_t counted = 0;
  do {
    step = Cancel(absl::StrCat("queue: 'q' dry_run: true limit: 10", Token(step)));
    counted += step.changed();
  } while (!step.next_page_token().empty());
  EXPECT_EQ(counted, 25);
  EXPECT_EQ(Counters().ready(), 25);
}

TEST_F(BatchTest, TokensBelongToTheirRun) {
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  broker_.Enqueue("p");
  const auto step = Cancel("queue: 'q' limit: 1 filter { kind: '' }");
  const std::string token = Token(step);
  for (const std::string other :
       {"queue: 'p' filter { kind: '' }", "queue: 'q'", "queue: 'q' filter { kind: 'k' }",
        "queue: 'q' filter { kind: '' } dry_run: true",
        "queue: 'q' filter { kind: '' states: JOB_STATE_READY }"}) {
    const absl::Status status = RefusedCancel(other + token);
    EXPECT_EQ(ReasonOf(status), Reason::kInvalidRequest) << other;
    EXPECT_THAT(std::string(status.message()), HasSubstr("page_token")) << other;
  }
  EXPECT_EQ(ReasonOf(Call(&front_->jobs, &JobService::BatchDeleteJobs,
                          "queue: 'q' filter { kind: '' }" + token)
                         ->status()),
            Reason::kInvalidRequest);
  EXPECT_EQ(ReasonOf(RefusedCancel("queue: 'q' page_token: 'rubbish'")), Reason::kInvalidRequest);
  const auto page = Call(&front_->jobs, &JobService::ListJobs, "queue: 'q' page_size: 1")
                        ->response<v1::ListJobsResponse>();
  EXPECT_EQ(ReasonOf(RefusedCancel(
                absl::StrCat("queue: 'q' page_token: '", page.next_page_token(), "'"))),
            Reason::kInvalidRequest);
  // The limit may be another in each step.
  EXPECT_EQ(Cancel("queue: 'q' limit: 2 filter { kind: '' }" + token).changed(), 2);
}

TEST_F(BatchTest, AQueueMadeAnewIsAnotherOne) {
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  const auto step = Cancel("queue: 'q' limit: 1");
  EXPECT_TRUE(broker_.Call(engine::DeleteQueueCommand{"q", true, {}}).status.ok());
  EXPECT_EQ(ReasonOf(RefusedCancel("queue: 'q'" + Token(step))), Reason::kQueueNotFound);
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  EXPECT_EQ(ReasonOf(RefusedCancel("queue: 'q'" + Token(step))), Reason::kQueueNotFound);
  EXPECT_EQ(ReasonOf(RefusedCancel("queue: 'nowhere'")), Reason::kQueueNotFound);
  EXPECT_EQ(Counters().ready(), 3);
}

TEST_F(BatchTest, ARepeatedCallHasTheSameAnswer) {
  broker_.EnqueueMany("q", Jobs(5, BrokerHarness::Job()));
  const auto first = Cancel("queue: 'q' limit: 2 request_id: 'a'");
  EXPECT_EQ(first.changed(), 2);
  Crash();
  EXPECT_EQ(Cancel("queue: 'q' limit: 2 request_id: 'a'").SerializeAsString(),
            first.SerializeAsString());
  const std::string next = "queue: 'q' limit: 2 request_id: 'b'" + Token(first);
  const auto second = Cancel(next);
  EXPECT_EQ(second.changed(), 2);
  EXPECT_EQ(Counters().cancelled(), 4);
  EXPECT_EQ(ReasonOf(RefusedCancel("queue: 'q' limit: 3 request_id: 'a'")),
            Reason::kRequestIdReused);
  EXPECT_EQ(ReasonOf(RefusedCancel("queue: 'q' page_token: 'rubbish' request_id: 'a'")),
            Reason::kRequestIdReused);
  // Even when nothing of it is left.
  EXPECT_TRUE(broker_.Call(engine::DeleteQueueCommand{"q", true, {}}).status.ok());
  EXPECT_EQ(Cancel(next).SerializeAsString(), second.SerializeAsString());
}

TEST_F(BatchTest, ARunGoesOnAfterACrash) {
  broker_.EnqueueMany("q", Jobs(30, BrokerHarness::Job()));
  auto step = Delete("queue: 'q' filter { states: JOB_STATE_READY } limit: 10");
  EXPECT_EQ(step.changed(), 10);
  Crash();
  EXPECT_EQ(Counters().ready(), 20);
  broker_.Enqueue("q");
  step = Delete("queue: 'q' filter { states: JOB_STATE_READY }" + Token(step));
  EXPECT_EQ(step.changed(), 20);
  EXPECT_EQ(step.next_page_token(), "");
  EXPECT_EQ(Counters().ready(), 1);
}

TEST_F(BatchTest, APurgeInBetweenLeavesNothingToDo) {
  broker_.EnqueueMany("q", Jobs(10, BrokerHarness::Job()));
  const auto step = Cancel("queue: 'q' limit: 4");
  Ask<engine::PurgeReply>(engine::PurgeQueueCommand{"q", false, {}});
  const auto rest = Cancel("queue: 'q'" + Token(step));
  EXPECT_EQ(rest.matched(), 0);
  EXPECT_EQ(rest.next_page_token(), "");
  EXPECT_EQ(Counters().cancelled(), 4);
}

TEST_F(BatchTest, DeletesEndedJobsAndLeasedOnesOnlyByForce) {
  EnqueueDead(2);
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  const auto held = broker_.Lease("q", 1);
  EXPECT_EQ(Delete("queue: 'q'").changed(), 2);
  const std::string all = "queue: 'q' filter { states: JOB_STATE_LEASED states: JOB_STATE_READY }";
  const absl::Status refused = Call(&front_->jobs, &JobService::BatchDeleteJobs, all)->status();
  EXPECT_EQ(ReasonOf(refused), Reason::kInvalidRequest);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("force"));
  EXPECT_EQ(broker_.Heartbeat(held[0]), LeaseStatus::kRenewed);
  EXPECT_EQ(Delete(all + " force: true").changed(), 3);
  EXPECT_EQ(broker_.Heartbeat(held[0]), LeaseStatus::kLost);
  EXPECT_EQ(ReasonOf(broker_.Complete(held[0]).status), Reason::kJobNotFound);
}

TEST_F(BatchTest, RedriveStopsWhereTheQueueIsFull) {
  record::QueueSettings settings;
  settings.set_max_jobs(5);
  EnqueueDead(8);
  Ask<engine::QueueReply>(engine::UpdateQueueCommand{"q", {"*"}, settings, std::nullopt, 0, {}});
  const auto step = Redrive("queue: 'q'");
  EXPECT_EQ(step.changed(), 5);
  ASSERT_NE(step.next_page_token(), "");
  const std::string next = "queue: 'q'" + Token(step);
  EXPECT_EQ(ReasonOf(Call(&front_->jobs, &JobService::BatchRedriveJobs, next)->status()),
            Reason::kQueueFull);
  EXPECT_EQ(Counters().dead(), 3);
  for (const auto& lease : broker_.Lease("q", 5)) broker_.Complete(lease);
  EXPECT_EQ(Redrive(next).changed(), 3);
}

TEST_F(BatchTest, InLowSpaceOnlyRedriveIsRefused) {
  EnqueueDead(2);
  broker_.Enqueue("q");
  broker_.loop().engine().set_low_space(true);
  EXPECT_EQ(ReasonOf(Call(&front_->jobs, &JobService::BatchRedriveJobs, "queue: 'q'")->status()),
            Reason::kStoreLowSpace);
  EXPECT_EQ(Redrive("queue: 'q' dry_run: true").changed(), 2);
  EXPECT_EQ(Cancel("queue: 'q'").changed(), 1);
  EXPECT_EQ(Delete("queue: 'q'").changed(), 3);
}

// S49: revived while the queue is paused.
TEST_F(BatchTest, S49_RevivingDeadJobsInAPausedQueue) {
  EnqueueDead(5);
  broker_.EnqueueMany("q", Jobs(10, BrokerHarness::Job()));
  Pause("q");
  EXPECT_EQ(Redrive("queue: 'q'").changed(), 5);
  EXPECT_TRUE(broker_.Lease("q", 20).empty());
  EXPECT_EQ(Counters().ready(), 15);
  Pause("q", false);
  EXPECT_EQ(broker_.Lease("q", 20).size(), 15u);
}

// S56: a useless command is harmless.
TEST_F(BatchTest, S56_CancelOfFinishedJobs) {
  broker_.EnqueueMany("q", Jobs(1'000, BrokerHarness::Job()));
  for (const auto& lease : broker_.Lease("q", 1'000)) broker_.Complete(lease);
  broker_.EnqueueMany("p", Jobs(100, BrokerHarness::Job()));
  for (int twice = 0; twice < 2; ++twice) EXPECT_EQ(Cancel("queue: 'q'").matched(), 0);
  EXPECT_EQ(Counters().completed(), 1'000);
  EXPECT_EQ(broker_.Lease("p", 100).size(), 100u);
}

class ProgressTest : public BatchTest {
 protected:
  LeaseStatus Report(const GrantedLease& lease, std::optional<std::string> progress) {
    engine::HeartbeatCommand beat;
    beat.worker = "w1";
    beat.items.push_back({BrokerHarness::Ref(lease), lease.token, std::move(progress)});
    return Ask<engine::HeartbeatReply>(std::move(beat)).statuses.at(0);
  }
  v1::Job Wait(const std::string& name) {
    return Call(&front_->jobs, &JobService::WaitJob, absl::StrCat("job: '", name, "' wait { }"))
        ->response<v1::WaitJobResponse>()
        .job();
  }
};

TEST_F(ProgressTest, IsShownWhileTheJobIsLeased) {
  broker_.Enqueue("q");
  const auto lease = broker_.Lease("q", 1).at(0);
  const std::string name = absl::StrCat("queues/q/jobs/", lease.job.job_id);
  EXPECT_FALSE(GetJob(name).has_progress());
  EXPECT_EQ(Report(lease, "10 %"), LeaseStatus::kRenewed);
  EXPECT_EQ(GetJob(name).progress(), "10 %");
  EXPECT_EQ(Wait(name).progress(), "10 %");
  // The newest wins; a heartbeat without any leaves it; an empty one takes it away.
  Report(lease, "20 %");
  Report(lease, std::nullopt);
  EXPECT_EQ(GetJob(name).progress(), "20 %");
  Report(lease, "");
  EXPECT_FALSE(GetJob(name).has_progress());
  Report(lease, "30 %");
  broker_.Complete(lease);
  EXPECT_FALSE(GetJob(name).has_progress());
  EXPECT_FALSE(Wait(name).has_progress());
}

TEST_F(ProgressTest, BelongsToItsLease) {
  broker_.Enqueue("q");
  const auto first = broker_.Lease("q", 1).at(0);
  const std::string name = absl::StrCat("queues/q/jobs/", first.job.job_id);
  Report(first, "mine");
  broker_.Advance(20'000);
  EXPECT_FALSE(GetJob(name).has_progress());
  const auto second = broker_.Lease("q", 1).at(0);
  EXPECT_FALSE(GetJob(name).has_progress());
  EXPECT_EQ(Report(first, "late"), LeaseStatus::kLost);
  EXPECT_FALSE(GetJob(name).has_progress());
  Report(second, "kept in memory");
  Crash();
  EXPECT_FALSE(GetJob(name).has_progress());
  Report(second, "again");
  EXPECT_EQ(GetJob(name).progress(), "again");
}

}  // namespace
}  // namespace stint::testing
