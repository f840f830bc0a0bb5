// Which workers there are, and how they are asked to leave.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/api/admin_service.h"
#include "server/api/worker_service.h"
#include "tests/support/edge_fixture.h"
#include "tests/support/stream_fixture.h"

namespace stint::testing {
namespace {

class WorkersTest : public StreamTest {
 protected:
  template <typename Request>
  std::shared_ptr<FakeExchange> Ask(void (api::AdminService::*method)(Request, api::ExchangePtr),
                                    Request request) {
    auto exchange = std::make_shared<FakeExchange>();
    (admin_.*method)(std::move(request), exchange);
    Settle();
    return exchange;
  }
  v1::ListWorkersResponse List(v1::ListWorkersRequest request = {}) {
    return Ask(&api::AdminService::ListWorkers, std::move(request))
        ->response<v1::ListWorkersResponse>();
  }
  std::shared_ptr<FakeExchange> LeaseBy(const std::string& worker, int more_queues = 0) {
    v1::LeaseJobsRequest request;
    request.add_queues("q");
    for (int i = 0; i < more_queues; ++i) request.add_queues(LongName(i));
    request.set_worker(worker);
    request.mutable_wait();
    auto exchange = std::make_shared<FakeExchange>();
    workers_.LeaseJobs(std::move(request), exchange);
    Settle();
    return exchange;
  }
  std::shared_ptr<FakeExchange> Drain(const std::string& worker, const std::string& version = "") {
    v1::DrainWorkerRequest request;
    worker.empty() ? request.set_version(version) : request.set_worker(worker);
    return Ask(&api::AdminService::DrainWorker, std::move(request));
  }
  static std::string LongName(int number) { return absl::StrCat(std::string(100, 'q'), number); }
  StreamPeer* OpenWithVersion(const std::string& worker, const std::string& version) {
    v1::StreamJobsRequest hello = HelloOf(worker, "q", 1);
    hello.mutable_hello()->set_version(version);
    hello.mutable_hello()->add_kinds("mail");
    StreamPeer* peer = Connect();
    Say(peer, std::move(hello));
    return peer;
  }

  api::AdminService admin_{&edge_};
  api::WorkerService workers_{&edge_};
};

TEST_F(WorkersTest, ListsStreamsCallsAndHoldersOfLeases) {
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  broker_.Lease("q", 1, 15'000, "holder");  // past the edge, as before a restart
  OpenWithVersion("streams", "1.2");
  EXPECT_EQ(LeaseBy("calls")->response<v1::LeaseJobsResponse>().leases_size(), 1);
  Advance(3000);
  const auto listed = List();
  ASSERT_EQ(listed.workers_size(), 3);
  EXPECT_EQ(listed.workers(0).name(), "workers/calls");
  EXPECT_EQ(listed.workers(0).streams(), 0);
  EXPECT_EQ(listed.workers(0).leases(), 1);
  EXPECT_EQ(listed.workers(0).queues(0), "q");
  EXPECT_EQ(listed.workers(0).silence().seconds(), 3);
  EXPECT_EQ(listed.workers(1).name(), "workers/holder");
  EXPECT_EQ(listed.workers(1).leases(), 1);
  EXPECT_EQ(listed.workers(2).name(), "workers/streams");
  EXPECT_EQ(listed.workers(2).streams(), 1);
  EXPECT_EQ(listed.workers(2).version(), "1.2");
  EXPECT_EQ(listed.workers(2).kinds(0), "mail");
  EXPECT_EQ(listed.workers(2).leases(), 1);
}

TEST_F(WorkersTest, AWorkerThatSaysNothingMoreIsForgotten) {
  LeaseBy("calls");
  EXPECT_EQ(List().workers_size(), 1);
  Advance(91'000);
  EXPECT_EQ(List().workers_size(), 0);
}

TEST_F(WorkersTest, PagesAndPrefixes) {
  for (int i = 0; i < 7; ++i) LeaseBy("a" + std::to_string(i));
  LeaseBy("b");
  v1::ListWorkersRequest request;
  request.set_prefix("a");
  request.set_page_size(3);
  int count = 0;
  int pages = 0;
  do {
    const auto page = List(request);
    count += page.workers_size();
    ++pages;
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(count, 7);
  EXPECT_EQ(pages, 3);
  request.set_page_token("nonsense");
  EXPECT_EQ(ReasonOf(Ask(&api::AdminService::ListWorkers, request)->status()),
            Reason::kInvalidRequest);
}

TEST_F(WorkersTest, APageHoldsNoMoreThanAnAnswerMay) {
  for (int i = 0; i < 5; ++i) LeaseBy(absl::StrCat("w", i), 9'000);
  v1::ListWorkersRequest request;
  int count = 0;
  int pages = 0;
  do {
    const auto page = List(request);
    EXPECT_LE(page.ByteSizeLong(), edge_.limits().max_call_bytes);
    for (const v1::Worker& worker : page.workers()) EXPECT_EQ(worker.queues_size(), 9'001);
    count += page.workers_size();
    ++pages;
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(count, 5);
  EXPECT_EQ(pages, 2);
}

TEST_F(WorkersTest, NamesOfQueuesAreKeptForAsManyWorkersAsThereIsRoomFor) {
  constexpr int kMany = 9'000;
  const size_t each = kMany * (sizeof(std::string) + LongName(0).size());
  const int fit = static_cast<int>(engine::kMaxKnownQueueBytes / each);
  for (int i = 0; i < fit + 1; ++i) LeaseBy(absl::StrCat("w", i), kMany);
  v1::ListWorkersRequest last;
  last.set_prefix(absl::StrCat("w", fit));
  ASSERT_EQ(List(last).workers_size(), 1);
  EXPECT_EQ(List(last).workers(0).queues_size(), 0);
  // What is forgotten gives its room back.
  Advance(engine::kWorkerKnownMs + 1000);
  EXPECT_EQ(List().workers_size(), 0);
  LeaseBy("late", kMany);
  EXPECT_EQ(List().workers(0).queues_size(), kMany + 1);
}

TEST_F(WorkersTest, ADrainedWorkerGetsNoMoreJobs) {
  StreamPeer* peer = OpenWithVersion("w", "1.2");
  EXPECT_EQ(Drain("w")->response<v1::DrainWorkerResponse>().workers(), 1);
  Settle();
  EXPECT_EQ(peer->drained(), v1::DRAIN_REASON_WORKER);
  broker_.Enqueue("q");
  Settle();
  EXPECT_TRUE(peer->TakeJobs().empty());
  // Nor by another way.
  EXPECT_EQ(ReasonOf(LeaseBy("w")->status()), Reason::kWorkerDrained);
  StreamPeer* again = OpenWithVersion("w", "1.2");
  EXPECT_EQ(again->drained(), v1::DRAIN_REASON_WORKER);
  EXPECT_TRUE(List().workers(0).draining());
  EXPECT_EQ(LeaseBy("other")->response<v1::LeaseJobsResponse>().leases_size(), 1);
}

TEST_F(WorkersTest, ADrainedWorkerIsToldByItsHeartbeat) {
  LeaseBy("w");
  Drain("w");
  v1::HeartbeatRequest beat;
  beat.set_worker("w");
  auto exchange = std::make_shared<FakeExchange>();
  workers_.Heartbeat(beat, exchange);
  Settle();
  EXPECT_TRUE(exchange->response<v1::HeartbeatResponse>().draining());
}

TEST_F(WorkersTest, AllOfAReleaseCanBeDrained) {
  StreamPeer* old1 = OpenWithVersion("a", "1");
  StreamPeer* old2 = OpenWithVersion("b", "1");
  StreamPeer* fresh = OpenWithVersion("c", "2");
  EXPECT_EQ(Drain("", "1")->response<v1::DrainWorkerResponse>().workers(), 2);
  Settle();
  EXPECT_TRUE(old1->drained().has_value());
  EXPECT_TRUE(old2->drained().has_value());
  EXPECT_FALSE(fresh->drained().has_value());
}

TEST_F(WorkersTest, NobodyToDrainIsSaid) {
  EXPECT_EQ(ReasonOf(Drain("nobody")->status()), Reason::kWorkerNotFound);
  EXPECT_EQ(ReasonOf(Drain("", "9")->status()), Reason::kWorkerNotFound);
  EXPECT_EQ(ReasonOf(Ask(&api::AdminService::DrainWorker, v1::DrainWorkerRequest())->status()),
            Reason::kInvalidRequest);
}

TEST_F(WorkersTest, ADrainIsForgottenInTime) {
  LeaseBy("w");
  Drain("w");
  EXPECT_EQ(ReasonOf(LeaseBy("w")->status()), Reason::kWorkerDrained);
  Advance(engine::kDrainedWorkerMs + 1000);
  EXPECT_TRUE(LeaseBy("w")->status().ok());
}

}  // namespace
}  // namespace stint::testing
