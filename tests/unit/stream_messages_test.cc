// What a session says to messages that are wrong, too many, or come at the wrong time.
#include <gtest/gtest.h>

#include <string>

#include "tests/support/stream_fixture.h"

namespace stint::testing {
namespace {

class StreamMessagesTest : public StreamTest {
 protected:
  // How a stream ends that begins with this.
  Reason EndOfFirst(v1::StreamJobsRequest message) {
    StreamPeer* peer = Connect();
    Say(peer, std::move(message));
    return EndOf(peer);
  }
  Reason EndOfSecond(v1::StreamJobsRequest message) {
    StreamPeer* peer = Open("w", "q");
    Say(peer, std::move(message));
    return EndOf(peer);
  }
  static Reason EndOf(StreamPeer* peer) {
    return peer->end().has_value() ? ReasonOf(*peer->end()) : Reason::kNone;
  }
};

TEST_F(StreamMessagesTest, TheFirstMessageHasAHelloAndNoOther) {
  EXPECT_EQ(EndOfFirst({}), Reason::kInvalidRequest);
  v1::StreamJobsRequest bye;
  bye.mutable_goodbye();
  EXPECT_EQ(EndOfFirst(bye), Reason::kInvalidRequest);
  EXPECT_EQ(EndOfSecond(HelloOf("w", "q")), Reason::kInvalidRequest);
}

TEST_F(StreamMessagesTest, WrongHellosNameTheField) {
  const auto refused = [this](const char* field, auto change) {
    v1::StreamJobsRequest message = HelloOf("w", "q");
    change(message.mutable_hello());
    StreamPeer* peer = Connect();
    Say(peer, std::move(message));
    ASSERT_TRUE(peer->end().has_value()) << field;
    EXPECT_EQ(ReasonOf(*peer->end()), Reason::kInvalidRequest) << field;
    EXPECT_NE(peer->end()->message().find(field), absl::string_view::npos) << *peer->end();
  };
  refused("hello.worker", [](v1::Hello* hello) { hello->clear_worker(); });
  refused("hello.queues[0]", [](v1::Hello* hello) { hello->set_queues(0, "a/b"); });
  refused("hello.queues", [](v1::Hello* hello) {
    for (int i = 0; i < 10'001; ++i) hello->add_queues("q");
  });
  refused("hello.lease_duration",
          [](v1::Hello* hello) { hello->mutable_lease_duration()->set_nanos(1); });
  refused("hello.stream_loss_grace",
          [](v1::Hello* hello) { hello->mutable_stream_loss_grace()->set_seconds(3601); });
  refused("hello.version", [](v1::Hello* hello) { hello->set_version(std::string(129, 'v')); });
  refused("hello.kinds[0]", [](v1::Hello* hello) { hello->add_kinds(std::string(129, 'k')); });
  refused("hello.held[0].token",
          [](v1::Hello* hello) { hello->add_held()->set_job("queues/q/jobs/x"); });
  refused("hello.previous_session", [](v1::Hello* hello) { hello->set_previous_session(-1); });
  refused("hello.max_reply_bytes", [](v1::Hello* hello) { hello->set_max_reply_bytes(1); });
}

TEST_F(StreamMessagesTest, TooMuchAtOnceEndsTheStream) {
  v1::StreamJobsRequest many;
  for (int i = 0; i < 1001; ++i) many.add_heartbeats();
  EXPECT_EQ(EndOfSecond(std::move(many)), Reason::kInvalidRequest);
  v1::StreamJobsRequest credit;
  credit.mutable_credit()->set_jobs(10'001);
  EXPECT_EQ(EndOfSecond(credit), Reason::kInvalidRequest);
  StreamPeer* peer = Open("w", "q", 10'000);
  GiveCredit(peer, 1);
  EXPECT_EQ(EndOf(peer), Reason::kInvalidRequest);
}

TEST_F(StreamMessagesTest, RoomThatIsTakenAwayOverAndOverHasALimit) {
  StreamPeer* peer = Open("w", "q");
  for (int i = 0; i < 3; ++i) {
    GiveCredit(peer, -static_cast<int>(engine::kMaxCreditJobs), -engine::kMaxCreditBytes);
  }
  broker_.Enqueue("q");
  GiveCredit(peer, static_cast<int>(engine::kMaxCreditJobs), engine::kMaxCreditBytes);
  EXPECT_TRUE(peer->TakeJobs().empty());
  GiveCredit(peer, 1, 1);
  EXPECT_EQ(peer->TakeJobs().size(), 1U);
}

TEST_F(StreamMessagesTest, OneWrongOperationIsRefusedAlone) {
  broker_.Enqueue("q");
  StreamPeer* peer = Open("w", "q", 1);
  const auto jobs = peer->TakeJobs();
  v1::StreamJobsRequest message;
  message.add_enqueues()->set_id(1);  // no queue
  message.add_settles()->set_id(2);   // no settle
  *message.add_settles() = Completion(3, jobs.at(0).lease());
  v1::StreamSettle stale = Completion(4, jobs.at(0).lease());
  stale.mutable_item()->mutable_complete()->set_token(1);
  *message.add_settles() = stale;
  v1::StreamHeartbeat* beat = message.add_heartbeats();
  beat->set_id(5);
  beat->add_leases()->set_job("nonsense");
  v1::StreamEnqueue* good = message.add_enqueues();
  good->set_id(6);
  good->mutable_request()->set_queue("q");
  Say(peer, std::move(message));
  std::map<int64_t, v1::StreamAnswer> answers;
  for (const auto& answer : peer->TakeAnswers()) answers[answer.id()] = answer;
  ASSERT_EQ(answers.size(), 6U);
  EXPECT_TRUE(answers[1].has_error());
  EXPECT_TRUE(answers[2].has_error());
  EXPECT_TRUE(answers[3].settle().has_complete());
  EXPECT_TRUE(answers[4].settle().has_error());
  EXPECT_TRUE(answers[5].has_error());
  EXPECT_TRUE(answers[6].has_enqueue());
  EXPECT_FALSE(peer->end().has_value());
}

TEST_F(StreamMessagesTest, AStreamWithoutAHelloIsEnded) {
  StreamPeer* mute = Connect();
  Advance(10'500);
  EXPECT_EQ(EndOf(mute), Reason::kInvalidRequest);
  StreamPeer* brief = Connect();
  brief->EndReads();
  EXPECT_EQ(EndOf(brief), Reason::kInvalidRequest);
  EXPECT_EQ(edge_.sessions()->size(), 0U);
}

TEST_F(StreamMessagesTest, AWorkerThatDoesNotReadIsNotReadEither) {
  StreamPeer* peer = Open("w", "q");
  peer->Stall();
  int messages = 0;
  while (peer->reading() && messages < 1'000'000) {
    v1::StreamJobsRequest message;
    for (int i = 0; i < 1000; ++i) {
      // Refusals are the largest answers.
      message.add_settles()->set_id(++messages);
    }
    Say(peer, std::move(message));
  }
  EXPECT_LT(messages, 1'000'000);
  EXPECT_FALSE(peer->reading());
  peer->Stall(false);
  Settle();
  EXPECT_TRUE(peer->reading());
  EXPECT_EQ(peer->TakeAnswers().size(), static_cast<size_t>(messages));
}

TEST_F(StreamMessagesTest, MessagesStayWithinTheLimitThatIsAsked) {
  broker_.EnqueueMany("q", Jobs(20, BrokerHarness::Job(std::string(1500, 'x'))));
  StreamPeer* peer = Connect();
  v1::StreamJobsRequest hello = HelloOf("w", "q", 20);
  hello.mutable_hello()->set_max_reply_bytes(4096);
  Say(peer, std::move(hello));
  size_t jobs = 0;
  for (const auto& message : peer->TakeMessages()) {
    EXPECT_LE(message.ByteSizeLong(), 4096U);
    jobs += static_cast<size_t>(message.jobs_size());
  }
  EXPECT_EQ(jobs, 20U);
}

TEST_F(StreamMessagesTest, ARefusedEnqueueIsAnAnswer) {
  StreamPeer* peer = Open("w", "q");
  record::QueueSettings settings;
  settings.set_max_jobs(1);
  Configure("full", settings);
  broker_.Enqueue("full");
  v1::StreamJobsRequest message;
  v1::StreamEnqueue* enqueue = message.add_enqueues();
  enqueue->set_id(9);
  enqueue->mutable_request()->set_queue("full");
  Say(peer, std::move(message));
  const auto answers = peer->TakeAnswers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].id(), 9);
  EXPECT_TRUE(answers[0].has_error());
}

}  // namespace
}  // namespace stint::testing
