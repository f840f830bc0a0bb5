// What tests of sessions share: a whole broker without threads (broker_harness), and a worker's
// stream to it whose other side is the test. Used by one thread.
#ifndef STINT_TESTS_SUPPORT_STREAM_FIXTURE_H_
#define STINT_TESTS_SUPPORT_STREAM_FIXTURE_H_

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/api/names.h"
#include "server/api/worker_stream.h"
#include "server/engine/error.h"
#include "storage/reader.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {

// The other end of one stream.
class StreamPeer final : public api::StreamTransport {
 public:
  StreamPeer(api::Edge* edge, std::shared_ptr<api::AnswerBudget> answers, std::string identity)
      : stream_(std::make_shared<api::WorkerStream>(
            api::WorkerStreamContext{edge, std::make_shared<api::CallsUnderWay>(),
                                     std::move(answers), std::move(identity)},
            this)) {
    stream_->Begin();
  }
  ~StreamPeer() override { stream_->Detach(); }

  // StreamTransport.
  void Read() override { reading_ = true; }
  void Write(const v1::StreamJobsResponse& message) override {
    EXPECT_FALSE(writing_) << "two writes at a time";
    EXPECT_FALSE(end_.has_value()) << "a write after the end";
    writing_ = true;
    on_the_way_ = message;
  }
  void Finish(const absl::Status& status) override {
    EXPECT_FALSE(writing_) << "the end during a write";
    EXPECT_FALSE(end_.has_value()) << "ended twice";
    end_ = status;
  }
  void Cancel() override { cancelled_ = true; }

  // The worker sends; the server must be reading.
  void Send(v1::StreamJobsRequest message) {
    ASSERT_TRUE(reading_) << "the server does not read";
    reading_ = false;
    stream_->OnMessage(std::move(message));
  }
  // Takes in what is on its way; false: nothing was.
  bool Receive() {
    if (!writing_ || stalled_) return false;
    writing_ = false;
    received_.push_back(std::move(on_the_way_));
    stream_->OnWritten(true);
    return true;
  }
  // Reads no more: what is written stays on its way.
  void Stall(bool stalled = true) { stalled_ = stalled; }
  // The connection breaks.
  void Break() {
    if (std::exchange(writing_, false)) stream_->OnWritten(false);
    stream_->OnBroken();
  }
  // The worker's half ends in order.
  void EndReads() {
    reading_ = false;
    stream_->OnReadsEnded();
  }

  bool reading() const { return reading_; }
  bool cancelled() const { return cancelled_; }
  const std::optional<absl::Status>& end() const { return end_; }
  api::WorkerStream& stream() { return *stream_; }

  // All that came of a kind since the last call.
  std::vector<v1::StreamJobsResponse> TakeMessages() { return std::exchange(received_, {}); }
  std::vector<v1::PushedJob> TakeJobs() { return TakeAll(&v1::StreamJobsResponse::mutable_jobs); }
  std::vector<v1::StreamAnswer> TakeAnswers() {
    return TakeAll(&v1::StreamJobsResponse::mutable_answers);
  }
  std::vector<v1::HeartbeatResult> TakeVerdicts() {
    return TakeAll(&v1::StreamJobsResponse::mutable_verdicts);
  }
  std::optional<v1::Welcome> welcome() const {
    for (const auto& message : received_) {
      if (message.has_welcome()) return message.welcome();
    }
    return std::nullopt;
  }
  std::optional<v1::DrainReason> drained() const {
    for (const auto& message : received_) {
      if (message.has_drain()) return message.drain().reason();
    }
    return std::nullopt;
  }

 private:
  template <typename Part>
  std::vector<Part> TakeAll(
      google::protobuf::RepeatedPtrField<Part>* (v1::StreamJobsResponse::*parts)()) {
    std::vector<Part> all;
    for (v1::StreamJobsResponse& message : received_) {
      for (Part& part : *(message.*parts)()) all.push_back(std::move(part));
      (message.*parts)()->Clear();
    }
    return all;
  }

  bool reading_ = false;
  bool writing_ = false;
  bool stalled_ = false;
  bool cancelled_ = false;
  v1::StreamJobsResponse on_the_way_;
  std::vector<v1::StreamJobsResponse> received_;
  std::optional<absl::Status> end_;
  const std::shared_ptr<api::WorkerStream> stream_;
};

class StreamTest : public CaseTest {
 protected:
  StreamTest() {
    edge_.Open(&gateway_, &reader_, std::string(32, 'k'));
    broker_.set_on_verdict(
        [this](const engine::SessionVerdict& verdict) { edge_.sessions()->Tell(verdict); });
  }
  void TearDown() override {
    for (const auto& peer : peers_) {
      if (!peer->end().has_value()) peer->Break();
    }
    peers_.clear();
    Settle();
    CaseTest::TearDown();
  }

  // Runs broker and streams until nothing more happens without time.
  void Settle() {
    bool moved = true;
    while (moved) {
      broker_.Settle();
      moved = false;
      for (const auto& peer : peers_) moved = peer->Receive() || moved;
    }
  }
  // Time passes for the broker and the sessions.
  void Advance(int64_t ms) {
    while (ms > 0) {
      const int64_t step = std::min<int64_t>(ms, 250);
      broker_.Advance(step);
      edge_.sessions()->Tick();
      Settle();
      ms -= step;
    }
  }

  StreamPeer* Connect(std::string identity = "") {
    peers_.push_back(std::make_unique<StreamPeer>(&edge_, answers_, std::move(identity)));
    return peers_.back().get();
  }
  static v1::StreamJobsRequest HelloOf(const std::string& worker, const std::string& queue,
                                       int credit = 0) {
    v1::StreamJobsRequest message;
    message.mutable_hello()->set_worker(worker);
    message.mutable_hello()->add_queues(queue);
    message.mutable_credit()->set_jobs(credit);
    return message;
  }
  // A session of `worker` with room for so many jobs.
  StreamPeer* Open(const std::string& worker, const std::string& queue, int credit = 0) {
    StreamPeer* peer = Connect();
    Say(peer, HelloOf(worker, queue, credit));
    EXPECT_TRUE(peer->welcome().has_value());
    return peer;
  }
  void Say(StreamPeer* peer, v1::StreamJobsRequest message) {
    peer->Send(std::move(message));
    Settle();
  }
  void GiveCredit(StreamPeer* peer, int jobs, int64_t bytes = 0) {
    v1::StreamJobsRequest message;
    message.mutable_credit()->set_jobs(jobs);
    message.mutable_credit()->set_bytes(bytes);
    Say(peer, std::move(message));
  }
  static v1::StreamSettle Completion(int64_t id, const v1::Lease& lease) {
    v1::StreamSettle settle;
    settle.set_id(id);
    settle.mutable_item()->mutable_complete()->set_job(lease.job());
    settle.mutable_item()->mutable_complete()->set_token(lease.token());
    return settle;
  }
  static v1::HeartbeatItem Held(const v1::Lease& lease) {
    v1::HeartbeatItem item;
    item.set_job(lease.job());
    item.set_token(lease.token());
    return item;
  }
  void Beat(StreamPeer* peer, const std::vector<v1::Lease>& leases) {
    v1::StreamJobsRequest message;
    v1::StreamHeartbeat* beat = message.add_heartbeats();
    for (const v1::Lease& lease : leases) *beat->add_leases() = Held(lease);
    Say(peer, std::move(message));
  }
  engine::JobSnapshot JobOf(const v1::Lease& lease) {
    const auto ref = api::ParseJobName(lease.job());
    return broker_.Get(ref->queue, ref->job_id);
  }

  // The loop changes with each crash of the broker.
  class HarnessGateway final : public runtime::Gateway {
   public:
    explicit HarnessGateway(BrokerHarness* broker) : broker_(broker) {}
    absl::Status Submit(runtime::Call call) override {
      if (refuse_ && refuse_(call)) {
        engine::ErrorDetails details;
        details.reason = engine::Reason::kOverloaded;
        return engine::MakeError(std::move(details), "full");
      }
      return broker_->loop().Submit(std::move(call));
    }
    void BeginDrain() override { broker_->loop().BeginDrain(); }
    // Calls that find their lane full.
    void Refuse(std::function<bool(const runtime::Call&)> refuse) { refuse_ = std::move(refuse); }

   private:
    BrokerHarness* const broker_;
    std::function<bool(const runtime::Call&)> refuse_;
  };

  HarnessGateway gateway_{&broker_};
  storage::Reader reader_{&broker_.store()};
  api::Edge edge_{MakeOptions(&broker_.clock())};
  static constexpr size_t kAnswerBytes = 64 << 20;
  const std::shared_ptr<api::AnswerBudget> answers_ =
      std::make_shared<api::AnswerBudget>(kAnswerBytes);
  std::vector<std::unique_ptr<StreamPeer>> peers_;

 private:
  static api::EdgeOptions MakeOptions(const runtime::Clock* clock) {
    api::EdgeOptions options;
    options.clock = clock;
    return options;
  }
};

}  // namespace stint::testing

#endif  // STINT_TESTS_SUPPORT_STREAM_FIXTURE_H_
