// The page of metrics: names, types and help as they are promised, and what is on it while the
// loop answers and while it does not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/error.h"
#include "server/ops/metrics.h"
#include "tests/support/broker_harness.h"
#include "tests/support/temp_folder.h"

namespace stint::ops {
namespace {

using testing::BrokerHarness;
using ::testing::HasSubstr;
using ::testing::Not;

// Names, types, labels and help are an interface: compare by eye when they change.
TEST(MetricsTest, GoldenNamesTypesLabelsAndHelp) {
  EXPECT_EQ(Metrics::Describe(), test::ReadFile("tests/golden/metrics.txt")) << Metrics::Describe();
}

class MetricsPageTest : public ::testing::Test {
 protected:
  void Open() {
    runtime::Loop* const loop = &broker_.loop();
    metrics_.Open({loop, [loop] { return loop->metrics().Copy(); },
                   [loop] { return loop->inbox().Fill(); },
                   [this] { return broker_.store().Figures(); }, [] { return size_t{2}; },
                   [] {
                     return runtime::WorkerCount{1, 3};
                   }});
  }
  std::string Page() {
    int ready = 0;
    const auto text = metrics_.Gather([&ready] { ++ready; });
    broker_.Settle();
    EXPECT_EQ(ready, 1);
    return text();
  }

  BrokerHarness broker_;
  RpcCounts counts_;
  Metrics metrics_{{"1.2.3", "memory"}, &counts_};
};

TEST_F(MetricsPageTest, QueuesAreThereBeforeAnyCall) {
  broker_.Enqueue("email");
  broker_.Crash();
  Open();
  broker_.Advance(2'500);
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("stint_jobs{queue=\"email\",state=\"ready\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("stint_jobs{queue=\"(other)\",state=\"ready\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("stint_jobs_enqueued_total{queue=\"email\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("stint_oldest_ready_age_seconds{queue=\"email\"} 2.5\n"));
  EXPECT_THAT(page, HasSubstr("stint_request_window_seconds 3600\n"));
  EXPECT_THAT(page, HasSubstr("stint_workers{via=\"stream\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("stint_workers{via=\"calls\"} 3\n"));
  EXPECT_THAT(page, HasSubstr("stint_sessions 2\n"));
  EXPECT_THAT(page, HasSubstr("stint_build_info{version=\"1.2.3\",store=\"memory\"} 1\n"));
}

TEST_F(MetricsPageTest, HistogramsAddUp) {
  Open();
  broker_.Enqueue("email");
  broker_.Advance(7'000);
  broker_.Lease("email");
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("stint_job_wait_seconds_bucket{queue=\"email\",le=\"5\"} 0\n"));
  EXPECT_THAT(page, HasSubstr("stint_job_wait_seconds_bucket{queue=\"email\",le=\"10\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("stint_job_wait_seconds_bucket{queue=\"email\",le=\"+Inf\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("stint_job_wait_seconds_count{queue=\"email\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("stint_job_wait_seconds_sum{queue=\"email\"} 7\n"));
}

TEST_F(MetricsPageTest, WhileTheLoopStandsStillOnlyWhatItIsAskedForIsMissing) {
  broker_.Enqueue("email");
  Open();
  bool ready = false;
  const auto text = metrics_.Gather([&ready] { ready = true; });
  EXPECT_FALSE(ready);
  const std::string page = text();
  EXPECT_THAT(page, HasSubstr("stint_jobs{queue=\"email\",state=\"ready\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("stint_inbox_operations{lane=\"other\"} 2\n"));
  EXPECT_THAT(page, Not(HasSubstr("stint_oldest_ready_age_seconds{")));
  EXPECT_THAT(page, Not(HasSubstr("\nstint_parked_calls ")));
}

TEST_F(MetricsPageTest, AReadingThatNobodyWaitsForIsDropped) {
  Open();
  metrics_.Gather([] {});
  broker_.Settle();
  EXPECT_THAT(Page(), HasSubstr("stint_parked_calls 0\n"));
}

TEST_F(MetricsPageTest, BeforeTheStoreIsOpenAndAfterTheEndTheProcessIsThere) {
  const auto early = Page();
  EXPECT_THAT(early, HasSubstr("\nstint_process_resident_memory_bytes "));
  EXPECT_THAT(early, Not(HasSubstr("\nstint_jobs{")));
  Open();
  EXPECT_THAT(Page(), HasSubstr("\nstint_queues 0\n"));
  metrics_.Close();
  EXPECT_THAT(Page(), Not(HasSubstr("\nstint_queues 0\n")));
}

TEST_F(MetricsPageTest, CallsByMethodAndCodeAndRefusalsByReason) {
  const size_t enqueue = RpcCounts::MethodNumber("EnqueueJob");
  EXPECT_EQ(RpcCounts::MethodNumber("EnqueueJob"), enqueue);
  counts_.CountCall(enqueue, absl::OkStatus(), 300);
  counts_.CountCall(enqueue, engine::MakeError(engine::Reason::kQueueFull, "full"), 3'000'000);
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("stint_rpc_requests_total{method=\"EnqueueJob\",code=\"OK\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("{method=\"EnqueueJob\",code=\"RESOURCE_EXHAUSTED\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("stint_rpc_seconds_bucket{method=\"EnqueueJob\",le=\"0.0005\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("stint_rpc_seconds_count{method=\"EnqueueJob\"} 2\n"));
  EXPECT_THAT(page, HasSubstr("stint_refusals_total{reason=\"QUEUE_FULL\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("stint_refusals_total{reason=\"OVERLOADED\"} 0\n"));
}

TEST(RpcCountsTest, EveryReasonThereIsHasACounter) {
  RpcCounts counts;
  const size_t method = RpcCounts::MethodNumber("EnqueueJob");
  for (size_t reason = 1; reason < engine::kReasons; ++reason) {
    counts.CountCall(method, engine::MakeError(static_cast<engine::Reason>(reason), "no"), 1);
    EXPECT_NE(engine::ReasonName(static_cast<engine::Reason>(reason)), "");
  }
  const auto refusals = counts.Refusals();
  ASSERT_EQ(refusals.size(), engine::kReasons);
  for (size_t reason = 1; reason < refusals.size(); ++reason) EXPECT_EQ(refusals[reason], 1U);
}

}  // namespace
}  // namespace stint::ops
