// Which workers there are, and how they are asked to leave.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

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
  std::shared_ptr<FakeExchange> LeaseBy(const std::string& worker) {
    v1::LeaseJobsRequest request;
    request.add_queues("q");
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

TEST_F(WorkersTest, EachIsCountedOnce) {
  Open("both", "q");
  Open("both", "q");
  LeaseBy("both");
  Open("streams", "q");
  LeaseBy("calls");
  runtime::WorkerCount count = edge_.workers()->Count(*edge_.sessions());
  EXPECT_EQ(count.by_stream, 2U);
  EXPECT_EQ(count.by_calls, 1U);
  Advance(91'000);
  count = edge_.workers()->Count(*edge_.sessions());
  EXPECT_EQ(count.by_stream, 2U);  // they are silent, and there
  EXPECT_EQ(count.by_calls, 0U);
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

// Names as long as they may be.
std::string LongName(int number) {
  std::string name = std::to_string(number);
  return name + std::string(engine::kMaxNameBytes - name.size(), 'q');
}

TEST_F(WorkersTest, AnAnswerHoldsNoMoreThanACallMay) {
  constexpr int kWorkers = 500;
  for (int i = 0; i < kWorkers; ++i) {
    v1::StreamJobsRequest hello = HelloOf(LongName(i), "q");
    for (size_t k = 0; k < engine::kMaxWorkerKinds; ++k) {
      hello.mutable_hello()->add_kinds(std::string(engine::kMaxKindBytes, 'k'));
    }
    Connect()->Send(std::move(hello));
  }
  Settle();
  v1::ListWorkersRequest request;
  request.set_page_size(1000);
  std::set<std::string> names;
  do {
    const auto page = List(request);
    EXPECT_LE(page.ByteSizeLong(), edge_.limits().max_call_bytes);
    ASSERT_GT(page.workers_size(), 0);
    for (const v1::Worker& worker : page.workers()) names.insert(worker.name());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(names.size(), kWorkers);
}

TEST_F(WorkersTest, OfManyQueuesTheFirstAreShown) {
  v1::StreamJobsRequest hello = HelloOf("stream", LongName(0));
  v1::LeaseJobsRequest lease;
  lease.set_worker("calls");
  lease.mutable_wait();
  for (int i = 0; i < 1000; ++i) {
    if (i > 0) hello.mutable_hello()->add_queues(LongName(i));
    lease.add_queues(LongName(i));
  }
  Say(Connect(), std::move(hello));
  workers_.LeaseJobs(std::move(lease), std::make_shared<FakeExchange>());
  Settle();
  const auto listed = List();
  ASSERT_EQ(listed.workers_size(), 2);
  for (const v1::Worker& worker : listed.workers()) {
    ASSERT_EQ(worker.queues_size(), static_cast<int>(engine::kMaxShownQueues)) << worker.name();
    EXPECT_EQ(worker.queues(99), LongName(99));
  }
}

TEST_F(WorkersTest, WhatAllHellosNameHasALimit) {
  v1::StreamJobsRequest hello = HelloOf("w", LongName(0));
  for (size_t i = 1; i < engine::kMaxLeaseQueues; ++i) {
    hello.mutable_hello()->add_queues(LongName(static_cast<int>(i)));
  }
  std::vector<StreamPeer*> accepted;
  StreamPeer* last = nullptr;
  for (int i = 0; i < 100 && (last == nullptr || !last->end().has_value()); ++i) {
    if (last != nullptr) accepted.push_back(last);
    last = Connect();
    Say(last, hello);
  }
  ASSERT_TRUE(last->end().has_value()) << "100 hellos with 1.3 MB of names each";
  EXPECT_EQ(ReasonOf(*last->end()), Reason::kOverloaded);
  EXPECT_GE(accepted.size(), 30U);
  Open("small", "q");
  // Room for another one when one is over.
  accepted.front()->Break();
  Settle();
  StreamPeer* again = Connect();
  Say(again, hello);
  EXPECT_TRUE(again->welcome().has_value());
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
