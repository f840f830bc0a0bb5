// What sessions and single calls see of each other.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "server/api/job_service.h"
#include "tests/support/edge_fixture.h"
#include "tests/support/stream_fixture.h"

namespace stint::testing {
namespace {

// Sessions, and somebody who calls.
class StreamAndCallsTest : public StreamTest {
 protected:
  template <typename Response, typename Request>
  Response Call(void (api::JobService::*method)(Request, api::ExchangePtr), Request request) {
    auto exchange = std::make_shared<FakeExchange>();
    (jobs_.*method)(std::move(request), exchange);
    // A read runs on a thread of its own and then gives its command to the broker.
    while (!exchange->answered()) {
      Settle();
      std::this_thread::yield();
    }
    Settle();
    return exchange->response<Response>();
  }
  std::string ProgressOf(const v1::Lease& lease) {
    v1::GetJobRequest request;
    request.set_job(lease.job());
    return Call<v1::GetJobResponse>(&api::JobService::GetJob, request).job().progress();
  }

  api::JobService jobs_{&edge_};
};

TEST_F(StreamAndCallsTest, ProgressIsReadWhileTheJobRuns) {
  broker_.Enqueue("q");
  StreamPeer* peer = Open("w", "q", 1);
  const v1::Lease lease = peer->TakeJobs().at(0).lease();
  const auto say = [&](std::optional<std::string> progress) {
    v1::StreamJobsRequest message;
    v1::HeartbeatItem* item = message.add_heartbeats()->add_leases();
    *item = Held(lease);
    if (progress.has_value()) item->set_progress(*progress);
    Say(peer, std::move(message));
  };
  say("40 %");
  EXPECT_EQ(ProgressOf(lease), "40 %");
  say(std::nullopt);
  EXPECT_EQ(ProgressOf(lease), "40 %");  // as it was
  say("");
  EXPECT_EQ(ProgressOf(lease), "");
  say("60 %");
  v1::StreamJobsRequest settle;
  *settle.add_settles() = Completion(2, lease);
  Say(peer, std::move(settle));
  EXPECT_EQ(ProgressOf(lease), "");  // it was the attempt's
}

TEST_F(StreamAndCallsTest, ACancelOfManyIsToldToEachSession) {
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  StreamPeer* first = Open("w1", "q", 2);
  StreamPeer* second = Open("w2", "q", 1);
  ASSERT_EQ(first->TakeJobs().size(), 2U);
  ASSERT_EQ(second->TakeJobs().size(), 1U);
  v1::BatchCancelJobsRequest cancel;
  cancel.set_queue("q");
  const auto response =
      Call<v1::BatchCancelJobsResponse>(&api::JobService::BatchCancelJobs, cancel);
  EXPECT_EQ(response.result().changed(), 3);
  EXPECT_EQ(first->TakeVerdicts().size(), 2U);
  const auto verdicts = second->TakeVerdicts();
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].status(), v1::LEASE_STATUS_CANCEL_REQUESTED);
}

}  // namespace
}  // namespace stint::testing
