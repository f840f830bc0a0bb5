// How a session begins, ends, breaks and is continued, and what becomes of its leases.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/stream_fixture.h"

namespace stint::testing {
namespace {

TEST_F(StreamTest, AJobIsPushedSettledAndAnswered) {
  StreamPeer* peer = Open("w", "q", 1);
  EXPECT_TRUE(peer->TakeJobs().empty());
  broker_.Enqueue("q", BrokerHarness::Job("work"));
  Settle();
  const auto jobs = peer->TakeJobs();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].lease().payload(), "work");
  EXPECT_GT(jobs[0].credit_bytes(), 4);
  v1::StreamJobsRequest settle;
  *settle.add_settles() = Completion(7, jobs[0].lease());
  Say(peer, std::move(settle));
  const auto answers = peer->TakeAnswers();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].id(), 7);
  EXPECT_EQ(answers[0].settle().complete().state(), v1::JOB_STATE_COMPLETED);
  EXPECT_EQ(StateOf(JobOf(jobs[0].lease())), JobState::kCompleted);
}

TEST_F(StreamTest, JobsComeOnlyAsFarAsThereIsRoom) {
  broker_.EnqueueMany("q", Jobs(10, BrokerHarness::Job()));
  StreamPeer* peer = Open("w", "q");
  EXPECT_TRUE(peer->TakeJobs().empty());
  GiveCredit(peer, 3);
  EXPECT_EQ(peer->TakeJobs().size(), 3U);
  GiveCredit(peer, -2);  // below nothing: what comes next makes up for it
  GiveCredit(peer, 3);
  EXPECT_EQ(peer->TakeJobs().size(), 1U);
  Advance(1000);
  EXPECT_TRUE(peer->TakeJobs().empty());
}

TEST_F(StreamTest, BytesAreRoomToo) {
  broker_.EnqueueMany("q", Jobs(4, BrokerHarness::Job(std::string(3 << 20, 'x'))));
  StreamPeer* peer = Open("w", "q", 10);
  // 8 MiB: the third goes over, so the fourth waits.
  const auto jobs = peer->TakeJobs();
  ASSERT_EQ(jobs.size(), 3U);
  Advance(1000);
  EXPECT_TRUE(peer->TakeJobs().empty());
  GiveCredit(peer, 0, jobs[0].credit_bytes() + jobs[1].credit_bytes());
  EXPECT_EQ(peer->TakeJobs().size(), 1U);
}

TEST_F(StreamTest, OneMessageCarriesWhatGatheredDuringAWrite) {
  StreamPeer* peer = Open("w", "q");
  peer->Stall();
  for (int i = 0; i < 20; ++i) {
    v1::StreamJobsRequest message;
    v1::StreamEnqueue* enqueue = message.add_enqueues();
    enqueue->set_id(i);
    enqueue->mutable_request()->set_queue("q");
    Say(peer, std::move(message));
  }
  peer->TakeMessages();
  peer->Stall(false);
  Settle();
  const auto messages = peer->TakeMessages();
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].answers_size(), 1);
  EXPECT_EQ(messages[1].answers_size(), 19);
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 20);
}

TEST_F(StreamTest, AGoodbyeReleasesAtOnceAndAtNoCost) {
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  StreamPeer* peer = Open("w", "q", 3);
  const auto jobs = peer->TakeJobs();
  ASSERT_EQ(jobs.size(), 3U);
  v1::StreamJobsRequest bye;
  *bye.add_settles() = Completion(1, jobs[0].lease());
  bye.mutable_goodbye();
  Say(peer, std::move(bye));
  ASSERT_TRUE(peer->end().has_value());
  EXPECT_TRUE(peer->end()->ok());
  EXPECT_EQ(peer->TakeAnswers().size(), 1U);
  const auto again = broker_.Lease("q", 5);
  ASSERT_EQ(again.size(), 2U);
  for (const auto& lease : again) EXPECT_EQ(AttemptOf(lease), 1);
  EXPECT_EQ(edge_.sessions()->size(), 0U);
}

TEST_F(StreamTest, S85_AnOrderlyEndOfTheWorkersHalfReleasesToo) {
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  StreamPeer* peer = Open("w", "q", 3);
  ASSERT_EQ(peer->TakeJobs().size(), 3U);
  peer->EndReads();
  Advance(750);
  EXPECT_TRUE(peer->end().has_value() && peer->end()->ok());
  const auto again = broker_.Lease("q", 5);
  ASSERT_EQ(again.size(), 3U);
  for (const auto& lease : again) EXPECT_EQ(AttemptOf(lease), 1);
}

TEST_F(StreamTest, S16_ABrokenStreamIsTakenForADeadProcess) {
  broker_.Enqueue("q");
  StreamPeer* peer = Open("w", "q", 1);
  const auto jobs = peer->TakeJobs();
  Advance(2000);
  Beat(peer, {jobs[0].lease()});
  peer->Break();
  Advance(4750);
  EXPECT_TRUE(broker_.Lease("q").empty());
  Advance(500);
  const auto taken = broker_.Lease("q");
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(AttemptOf(taken[0]), 2);  // a loss was charged: the process may have died of it
}

// Of queue q, the only one.
class StreamLapseTest : public StreamTest {
 protected:
  int64_t Count(engine::JobEvent event) {
    for (const auto& queue : broker_.loop().metrics().Copy().queues) {
      if (queue.name == "q") return queue.counts.events[static_cast<size_t>(event)];
    }
    ADD_FAILURE() << "no figures";
    return -1;
  }
};

TEST_F(StreamLapseTest, IsCountedByWhatItCameOf) {
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  StreamPeer* lost = Open("w1", "q", 1);
  StreamPeer* mute = Open("w2", "q", 1);
  StreamPeer* back = Open("w3", "q", 1);
  const auto kept = back->TakeJobs();
  ASSERT_EQ(kept.size(), 1U);
  lost->Break();
  back->Break();
  Settle();
  Advance(2'000);  // within the grace
  StreamPeer* again = Connect();
  v1::StreamJobsRequest hello = HelloOf("w3", "q");
  *hello.mutable_hello()->add_held() = Held(kept[0].lease());
  Say(again, std::move(hello));
  Advance(5'000);
  EXPECT_EQ(Count(engine::JobEvent::kLapsedStreamLost), 1);
  EXPECT_EQ(Count(engine::JobEvent::kLapsed), 0);
  Advance(15'000);  // neither of the others has renewed
  EXPECT_EQ(Count(engine::JobEvent::kLapsedStreamLost), 1);
  EXPECT_EQ(Count(engine::JobEvent::kLapsed), 2);
  EXPECT_FALSE(mute->TakeJobs().empty());
}

TEST_F(StreamTest, AConnectionThatWasSilentForLongProvesNothing) {
  broker_.Enqueue("q");
  StreamPeer* peer = Open("w", "q", 1);
  const auto jobs = peer->TakeJobs();
  Advance(8500);
  peer->Break();
  Advance(6000);  // of 15 s 14.5 have passed
  EXPECT_TRUE(broker_.Lease("q").empty());
  Advance(1000);
  EXPECT_EQ(broker_.Lease("q").size(), 1U);
}

TEST_F(StreamTest, NoLeaseIsShortenedWithoutAGrace) {
  broker_.Enqueue("q");
  StreamPeer* peer = Connect();
  v1::StreamJobsRequest hello = HelloOf("w", "q", 1);
  hello.mutable_hello()->mutable_stream_loss_grace();
  Say(peer, std::move(hello));
  ASSERT_EQ(peer->TakeJobs().size(), 1U);
  peer->Break();
  Advance(14'000);
  EXPECT_TRUE(broker_.Lease("q").empty());
  Advance(1250);
  EXPECT_EQ(broker_.Lease("q").size(), 1U);
}

TEST_F(StreamTest, AnOldStreamThatDiesAfterTheNewOneTookOverTouchesNothing) {
  broker_.Enqueue("q");
  StreamPeer* old = Open("w", "q", 1);
  const auto jobs = old->TakeJobs();
  // The old connection is half open: the broker has not noticed, the worker has.
  StreamPeer* fresh = Connect();
  v1::StreamJobsRequest hello = HelloOf("w", "q");
  *hello.mutable_hello()->add_held() = Held(jobs[0].lease());
  Say(fresh, std::move(hello));
  ASSERT_EQ(fresh->welcome()->held_size(), 1);
  EXPECT_EQ(fresh->welcome()->held(0).status(), v1::LEASE_STATUS_RENEWED);
  old->Break();
  Advance(10'000);
  EXPECT_TRUE(broker_.Lease("q").empty());
  Beat(fresh, {jobs[0].lease()});
  Advance(10'000);
  EXPECT_TRUE(broker_.Lease("q").empty());
  EXPECT_EQ(JobOf(jobs[0].lease()).state.consecutive_losses(), 0);
}

TEST_F(StreamTest, JobsThatNeverArrivedAreReleasedAtNoCost) {
  broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job()));
  StreamPeer* old = Open("w", "q", 1);
  const auto jobs = old->TakeJobs();
  const int64_t session = old->welcome()->session();
  old->Stall();
  GiveCredit(old, 1);  // the second is pushed, and lost on the way
  StreamPeer* fresh = Connect();
  v1::StreamJobsRequest hello = HelloOf("w", "q");
  *hello.mutable_hello()->add_held() = Held(jobs[0].lease());
  hello.mutable_hello()->set_previous_session(session);
  Say(fresh, std::move(hello));
  const auto taken = broker_.Lease("q", 2);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(AttemptOf(taken[0]), 1);
  // The old one is told that another goes on.
  old->Stall(false);
  Settle();
  ASSERT_TRUE(old->end().has_value());
  EXPECT_TRUE(old->end()->ok());
  EXPECT_EQ(fresh->welcome()->held(0).status(), v1::LEASE_STATUS_RENEWED);
}

TEST_F(StreamTest, AHelloThatIsRefusedReleasesNothing) {
  broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job()));
  StreamPeer* old = Open("w", "q", 2);
  const auto jobs = old->TakeJobs();
  ASSERT_EQ(jobs.size(), 2U);
  // What the lane refuses is the long list of leases, not the short rest.
  gateway_.Refuse([](const runtime::Call& call) {
    return std::holds_alternative<engine::HeartbeatCommand>(call.command);
  });
  v1::StreamJobsRequest hello = HelloOf("w", "q");
  hello.mutable_hello()->set_previous_session(old->TakeMessages().front().welcome().session());
  for (const v1::PushedJob& job : jobs) *hello.mutable_hello()->add_held() = Held(job.lease());
  StreamPeer* refused = Connect();
  Say(refused, hello);
  ASSERT_TRUE(refused->end().has_value());
  EXPECT_EQ(ReasonOf(*refused->end()), Reason::kOverloaded);
  for (const v1::PushedJob& job : jobs) {
    EXPECT_EQ(JobOf(job.lease()).state.state(), static_cast<int>(engine::JobState::kLeased));
  }
  gateway_.Refuse(nullptr);
  StreamPeer* again = Connect();
  Say(again, hello);
  const std::optional<v1::Welcome> welcome = again->welcome();
  ASSERT_TRUE(welcome.has_value());
  ASSERT_EQ(welcome->held_size(), 2);
  for (const v1::HeartbeatResult& result : welcome->held()) {
    EXPECT_EQ(result.status(), v1::LEASE_STATUS_RENEWED);
  }
}

TEST_F(StreamTest, NobodyEndsTheSessionOfAnotherWorkerOrCaller) {
  broker_.Enqueue("q");
  StreamPeer* victim = Open("w", "q", 1);
  const auto jobs = victim->TakeJobs();
  StreamPeer* other = Connect();
  v1::StreamJobsRequest hello = HelloOf("x", "q");
  hello.mutable_hello()->set_previous_session(victim->welcome()->session());
  Say(other, std::move(hello));
  StreamPeer* stranger = Connect("somebody");
  hello = HelloOf("w", "q");
  hello.mutable_hello()->set_previous_session(victim->welcome()->session());
  Say(stranger, std::move(hello));
  EXPECT_FALSE(victim->end().has_value());
  EXPECT_TRUE(broker_.Lease("q").empty());
}

TEST_F(StreamTest, AUnaryHeartbeatTakesALeaseOutOfItsSession) {
  broker_.Enqueue("q");
  StreamPeer* peer = Open("w", "q", 1);
  const auto jobs = peer->TakeJobs();
  const auto ref = api::ParseJobName(jobs[0].lease().job());
  engine::HeartbeatCommand beat{"w", {{*ref, jobs[0].lease().token()}}};
  ASSERT_TRUE(broker_.Call(beat).status.ok());
  peer->Break();
  Advance(14'000);
  EXPECT_TRUE(broker_.Lease("q").empty());
}

TEST_F(StreamTest, AWorkerThatComesBackInTimeLosesNothing) {
  broker_.Enqueue("q");
  StreamPeer* peer = Open("w", "q", 1);
  const auto jobs = peer->TakeJobs();
  peer->Break();
  Advance(7000);  // lapsed, though nobody took it
  EXPECT_EQ(StateOf(JobOf(jobs[0].lease())), JobState::kReady);
  StreamPeer* again = Connect();
  v1::StreamJobsRequest hello = HelloOf("w", "q");
  *hello.mutable_hello()->add_held() = Held(jobs[0].lease());
  Say(again, std::move(hello));
  EXPECT_EQ(again->welcome()->held(0).status(), v1::LEASE_STATUS_RENEWED);
  const auto job = JobOf(jobs[0].lease());
  EXPECT_EQ(StateOf(job), JobState::kLeased);
  EXPECT_EQ(job.state.total_losses(), 0);
}

TEST_F(StreamTest, AWorkerThatComesBackTooLateIsTold) {
  broker_.Enqueue("q");
  StreamPeer* peer = Open("w", "q", 1);
  const auto jobs = peer->TakeJobs();
  peer->Break();
  Advance(7000);
  ASSERT_EQ(broker_.Lease("q").size(), 1U);
  StreamPeer* again = Connect();
  v1::StreamJobsRequest hello = HelloOf("w", "q");
  *hello.mutable_hello()->add_held() = Held(jobs[0].lease());
  Say(again, std::move(hello));
  EXPECT_EQ(again->welcome()->held(0).status(), v1::LEASE_STATUS_LOST);
  v1::StreamJobsRequest settle;
  *settle.add_settles() = Completion(1, jobs[0].lease());
  Say(again, std::move(settle));
  EXPECT_TRUE(again->TakeAnswers().at(0).settle().has_error());
}

TEST_F(StreamTest, LeasesOfASessionOutliveTheBroker) {
  broker_.Enqueue("q");
  StreamPeer* peer = Open("w", "q", 1);
  const auto jobs = peer->TakeJobs();
  broker_.Crash(60'000);
  StreamPeer* again = Connect();
  v1::StreamJobsRequest hello = HelloOf("w", "q");
  *hello.mutable_hello()->add_held() = Held(jobs[0].lease());
  hello.mutable_hello()->set_previous_session(peer->welcome()->session());
  Say(again, std::move(hello));
  EXPECT_EQ(again->welcome()->held(0).status(), v1::LEASE_STATUS_RENEWED);
  EXPECT_EQ(JobOf(jobs[0].lease()).state.total_losses(), 0);
}

TEST_F(StreamTest, WhatIsNotReadGoesBackAfterAThirdOfTheLease) {
  broker_.EnqueueMany("q", Jobs(3, BrokerHarness::Job()));
  StreamPeer* peer = Open("w", "q", 1);
  ASSERT_EQ(peer->TakeJobs().size(), 1U);
  peer->Stall();
  GiveCredit(peer, 1);  // on its way
  GiveCredit(peer, 1);  // behind it
  Advance(4750);
  EXPECT_TRUE(broker_.Lease("q").empty());
  Advance(500);
  const auto taken = broker_.Lease("q", 5);
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(AttemptOf(taken[0]), 1);
  EXPECT_FALSE(peer->cancelled());
  Advance(10'000);
  EXPECT_TRUE(peer->cancelled());
}

TEST_F(StreamTest, LittleWaitsBehindAWriteThatIsNotRead) {
  broker_.EnqueueMany("q", Jobs(10, BrokerHarness::Job(std::string(40 << 10, 'x'))));
  StreamPeer* peer = Open("w", "q");
  peer->Stall();
  GiveCredit(peer, 1);  // on its way
  GiveCredit(peer, 9);  // behind it
  EXPECT_EQ(broker_.Lease("q", 10).size(), 8U);
}

TEST_F(StreamTest, JobsGoToOthersWhileCallersLeaveTooMuchUnread) {
  broker_.Enqueue("q", BrokerHarness::Job(std::string(100 << 10, 'x')));
  ASSERT_TRUE(answers_->Take(kAnswerBytes));
  StreamPeer* peer = Open("w", "q", 1);  // a welcome is small
  EXPECT_TRUE(peer->TakeJobs().empty());
  const auto taken = broker_.Lease("q");
  ASSERT_EQ(taken.size(), 1U);
  EXPECT_EQ(AttemptOf(taken[0]), 1);
  answers_->Give(kAnswerBytes);
  broker_.Enqueue("q", BrokerHarness::Job(std::string(100 << 10, 'x')));
  Advance(500);  // it asks again at the next tick
  EXPECT_EQ(peer->TakeJobs().size(), 1U);
}

TEST_F(StreamTest, AReaderThatIsOnlySlowGetsItsJobsLater) {
  broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job()));
  StreamPeer* peer = Open("w", "q");
  peer->Stall();
  GiveCredit(peer, 1);
  GiveCredit(peer, 1);
  Advance(5250);
  peer->Stall(false);
  Settle();
  Advance(1500);  // what was taken back is offered again
  EXPECT_EQ(peer->TakeJobs().size(), 2U);
}

TEST_F(StreamTest, ADrainIsToldAndEverythingElseGoesOn) {
  broker_.EnqueueMany("q", Jobs(2, BrokerHarness::Job()));
  StreamPeer* peer = Open("w", "q", 1);
  const auto jobs = peer->TakeJobs();
  edge_.sessions()->DrainAll();
  GiveCredit(peer, 5);
  EXPECT_EQ(peer->drained(), v1::DRAIN_REASON_SERVER);
  EXPECT_TRUE(peer->TakeJobs().empty());
  v1::StreamJobsRequest more;
  *more.add_settles() = Completion(1, jobs[0].lease());
  more.add_enqueues()->mutable_request()->set_queue("q");
  more.add_heartbeats();
  Say(peer, std::move(more));
  const auto answers = peer->TakeAnswers();
  ASSERT_EQ(answers.size(), 3U);
  for (const auto& answer : answers) {
    EXPECT_FALSE(answer.has_error());
    if (answer.has_heartbeat()) {
      EXPECT_TRUE(answer.heartbeat().draining());
    }
  }
  edge_.sessions()->EndAll();
  ASSERT_TRUE(peer->end().has_value());
  EXPECT_EQ(ReasonOf(*peer->end()), Reason::kDraining);
  EXPECT_EQ(ReasonOf(*Connect()->end()), Reason::kDraining);
}

TEST_F(StreamTest, AnEndByTheBrokerShortensNoLease) {
  broker_.Enqueue("q");
  StreamPeer* peer = Open("w", "q", 1);
  ASSERT_EQ(peer->TakeJobs().size(), 1U);
  edge_.sessions()->EndAll();
  Advance(14'000);
  EXPECT_TRUE(broker_.Lease("q").empty());
}

TEST_F(StreamTest, ASilentSessionIsServedLast) {
  StreamPeer* silent = Open("w1", "q", 1);
  Advance(10'000);
  StreamPeer* awake = Open("w2", "q", 1);
  for (int i = 0; i < 2; ++i) {
    Advance(10'000);
    Say(awake, {});
  }
  broker_.Enqueue("q");
  Settle();
  EXPECT_EQ(awake->TakeJobs().size(), 1U);
  broker_.Enqueue("q");
  Settle();
  EXPECT_EQ(silent->TakeJobs().size(), 1U);  // better than nobody
}

TEST_F(StreamTest, ASessionThatSpeaksAgainHasItsPlaceAgain) {
  StreamPeer* first = Open("w1", "q", 1);
  Advance(26'000);
  Say(first, {});
  Advance(1'500);
  StreamPeer* second = Open("w2", "q", 1);
  broker_.Enqueue("q");
  Settle();
  EXPECT_EQ(first->TakeJobs().size(), 1U);
  EXPECT_TRUE(second->TakeJobs().empty());
}

TEST_F(StreamTest, ACancelIsToldAtOnce) {
  broker_.Enqueue("q");
  StreamPeer* peer = Open("w", "q", 1);
  const auto jobs = peer->TakeJobs();
  ASSERT_TRUE(broker_.Call(engine::CancelCommand{*api::ParseJobName(jobs[0].lease().job()), {}})
                  .status.ok());
  Settle();
  auto verdicts = peer->TakeVerdicts();
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].job(), jobs[0].lease().job());
  EXPECT_EQ(verdicts[0].token(), jobs[0].lease().token());
  EXPECT_EQ(verdicts[0].status(), v1::LEASE_STATUS_CANCEL_REQUESTED);
  Advance(10'250);  // the grace
  verdicts = peer->TakeVerdicts();
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].status(), v1::LEASE_STATUS_LOST);
}

TEST_F(StreamTest, S102_ThePassingOfTheRunLimitIsToldAtOnce) {
  engine::NewJob job = BrokerHarness::Job();
  job.record.set_run_limit_ms(3000);
  broker_.Enqueue("q", job);
  StreamPeer* peer = Open("w", "q", 1);
  ASSERT_EQ(peer->TakeJobs().size(), 1U);
  Advance(3250);
  const auto verdicts = peer->TakeVerdicts();
  ASSERT_EQ(verdicts.size(), 1U);
  EXPECT_EQ(verdicts[0].status(), v1::LEASE_STATUS_RUN_LIMIT);
}

TEST_F(StreamTest, ManySessionsShareAQueueInTurn) {
  constexpr int kWorkers = 50;
  std::vector<StreamPeer*> peers;
  for (int i = 0; i < kWorkers; ++i) peers.push_back(Open("w" + std::to_string(i), "q", 1));
  broker_.EnqueueMany("q", Jobs(kWorkers, BrokerHarness::Job()));
  Settle();
  for (StreamPeer* peer : peers) EXPECT_EQ(peer->TakeJobs().size(), 1U);
}

}  // namespace
}  // namespace stint::testing
