// Field cases S64 to S73: names, batches, repeated calls. What the edge refuses is tested there.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/reader.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

class CallCases : public CaseTest {
 protected:
  static engine::EnqueueCommand Enqueue(const std::string& queue, const std::string& payload,
                                        const std::string& request_id, uint64_t fingerprint = 1) {
    return {queue, {BrokerHarness::Job(payload)}, {"", request_id, fingerprint}};
  }
};

TEST_F(CallCases, S64_PayloadsOfEverySizeGoThroughEveryStep) {
  // The limit itself is checked at the edge; here are sizes around it, around the one at which
  // a payload gets a row of its own, and the largest call.
  for (const size_t size : {size_t{0}, storage::kInlinePayloadBytes - 1,
                            storage::kInlinePayloadBytes, storage::kInlinePayloadBytes + 1,
                            engine::kDefaultMaxPayloadBytes - 1, engine::kDefaultMaxPayloadBytes,
                            engine::kDefaultMaxPayloadBytes + 1, engine::kDefaultMaxCallBytes}) {
    const std::string payload(size, 'p');
    const std::string id = broker_.Enqueue("q", BrokerHarness::Job(payload)).jobs.at(0).job_id;
    auto lease = broker_.Lease("q").at(0);
    EXPECT_EQ(lease.job.record.payload(), payload);
    engine::SettleItem failure;
    failure.job = BrokerHarness::Ref(lease);
    failure.token = lease.token;
    failure.kind = engine::SettleKind::kFail;
    failure.error = std::string(engine::kMaxErrorBytes, 'e');
    failure.delay_ms = 0;
    EXPECT_TRUE(broker_.Settle(failure).status.ok());
    lease = broker_.Lease("q").at(0);
    EXPECT_EQ(lease.job.record.payload(), payload);
    EXPECT_EQ(lease.job.state.last_error().size(), engine::kMaxErrorBytes);
    EXPECT_TRUE(broker_.Complete(lease, std::string(size, 'r')).status.ok());
    EXPECT_EQ(broker_.Get("q", id).result.size(), size);
    broker_.Call(engine::DeleteJobCommand{{"q", id}, false, {}});
  }
  EXPECT_EQ(RowsIn(storage::Family::kPayload) + RowsIn(storage::Family::kResult), 0u);
}

TEST_F(CallCases, S65_TheErrorOfAnAttemptIsShortenedBetweenCharacters) {
  const std::string id = broker_.Enqueue("q").jobs.at(0).job_id;
  const auto lease = broker_.Lease("q").at(0);
  engine::SettleItem failure;
  failure.job = BrokerHarness::Ref(lease);
  failure.token = lease.token;
  failure.kind = engine::SettleKind::kFail;
  failure.error = "x";
  while (failure.error.size() < 8'000) failure.error += "\xe9\x98\x9f";  // three bytes each
  EXPECT_TRUE(broker_.Settle(failure).status.ok());
  const auto job = broker_.Get("q", id);
  EXPECT_EQ(job.state.last_error(), failure.error);
  const std::string kept = job.state.attempts(0).error();
  EXPECT_LE(kept.size(), engine::kMaxAttemptErrorBytes);
  EXPECT_EQ(kept.size() % 3, 1u);
}

TEST_F(CallCases, S66_NamesThatContainTheSeparators) {
  // `/` and `|` are refused at the edge; the engine takes any bytes and keeps them apart.
  const std::vector<std::string> queues = {"a",     "a:b", "a/b", "a|b", std::string("a\0b", 3),
                                           "a%3Ab", "a.b", "ab",  "A"};
  for (const std::string& queue : queues) {
    auto job = BrokerHarness::Job(queue);
    job.record.set_job_id("b:c");
    broker_.Enqueue(queue, job);
    broker_.Enqueue(queue, BrokerHarness::Job("second"));
  }
  for (size_t i = 0; i < queues.size(); ++i) {
    const auto leases = broker_.Lease(queues[i], 10);
    ASSERT_EQ(leases.size(), 2u);
    EXPECT_EQ(leases[0].job.record.payload(), queues[i]);
    EXPECT_TRUE(broker_.Release(leases[0]).status.ok());
    EXPECT_TRUE(broker_.Release(leases[1]).status.ok());
    Pause(queues[i]);
    for (size_t other = i + 1; other < queues.size(); ++other) {
      EXPECT_EQ(broker_.Stats(queues[other]).counters.ready(), 2) << queues[other];
    }
    EXPECT_EQ(Ask<engine::PurgeReply>(engine::PurgeQueueCommand{queues[i], false, {}}).purged, 2);
  }
}

TEST_F(CallCases, S69_ABatchIsStoredWhollyOrNotAtAll) {
  std::vector<engine::NewJob> jobs;
  for (int i = 0; i < 1'000; ++i) {
    jobs.push_back(BrokerHarness::Job(std::string(100, 'x')));
    jobs.back().record.set_job_id(absl::StrCat("job-", i));
  }
  const auto reply = broker_.EnqueueMany("q", jobs);
  ASSERT_EQ(reply.jobs.size(), 1'000u);
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_EQ(reply.jobs[static_cast<size_t>(i)].job_id, absl::StrCat("job-", i));
  }
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 1'000);
  // One bad item, at the end of the batch, and nothing of it is stored.
  for (auto& job : jobs) job.record.set_job_id("new-" + job.record.job_id());
  jobs.back().record.set_job_id("job-7");
  EXPECT_EQ(Refusal(engine::EnqueueCommand{"q", jobs, {}}), Reason::kJobExists);
  jobs.back().record.set_job_id("new-job-3");  // twice in the batch
  EXPECT_EQ(Refusal(engine::EnqueueCommand{"q", jobs, {}}), Reason::kJobExists);
  EXPECT_EQ(Refusal(engine::EnqueueCommand{"fresh", jobs, {}}), Reason::kJobExists);
  EXPECT_EQ(Refusal(engine::QueueStatsCommand{"fresh"}), Reason::kQueueNotFound);
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 1'000);
  EXPECT_EQ(RowsIn(storage::Family::kJob), 1'000u);
}

TEST_F(CallCases, S69_AQueueThatCannotTakeTheWholeBatchTakesNoneOfIt) {
  record::QueueSettings settings;
  settings.set_max_jobs(10);
  settings.set_max_bytes(10'000);
  Configure("q", settings);
  EXPECT_EQ(Refusal(engine::EnqueueCommand{"q", Jobs(11, BrokerHarness::Job()), {}}),
            Reason::kQueueFull);
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 0);
  broker_.EnqueueMany("q", Jobs(10, BrokerHarness::Job()));
  const engine::Outcome full =
      broker_.Call(engine::EnqueueCommand{"q", {BrokerHarness::Job()}, {}});
  EXPECT_EQ(ReasonOf(full.status), Reason::kQueueFull);
  EXPECT_GT(engine::DetailsOf(full.status)->retry_after_ms, 0);
  // A leased job still counts; one that has ended does not.
  const auto lease = broker_.Lease("q").at(0);
  EXPECT_EQ(Refusal(engine::EnqueueCommand{"q", {BrokerHarness::Job()}, {}}), Reason::kQueueFull);
  broker_.Fail(lease, {}, true);
  EXPECT_EQ(Refusal(engine::EnqueueCommand{"q", {BrokerHarness::Job(std::string(9'000, 'x'))}, {}}),
            Reason::kNone);
  EXPECT_EQ(Refusal(engine::RedriveCommand{BrokerHarness::Ref(lease), {}}), Reason::kQueueFull);
}

TEST_F(CallCases, S71_CrashBetweenRememberingTheRequestAndStoringTheJob) {
  // Both are one commit, so the write points of a call are: taken, applied, committed, synced.
  int kept = 0;
  for (int round = 0; round < 100; ++round) {
    for (int point = 0; point < 4; ++point) {
      const std::string request = absl::StrCat("r-", round, "-", point);
      const auto unanswered = broker_.Submit(Enqueue("q", request, request));
      if (point >= 1) broker_.loop().Step();
      if (point == 3) broker_.executor().RunOne();
      broker_.Crash(10, point == 2 && round % 2 == 0 ? 1 : 0);
      kept = point == 2 && round % 2 == 0 ? 1 : point == 3 ? 1 : 0;
      EXPECT_EQ(RowsIn(storage::Family::kRequest), static_cast<size_t>(4 * round + point + kept));
      const auto reply = Ask<engine::EnqueueReply>(Enqueue("q", request, request));
      EXPECT_EQ(Ask<engine::EnqueueReply>(Enqueue("q", request, request)).jobs.at(0).job_id,
                reply.jobs.at(0).job_id);
      const auto leases = broker_.Lease("q", 10);
      ASSERT_EQ(leases.size(), 1u) << request;
      EXPECT_EQ(leases[0].job.job_id, reply.jobs.at(0).job_id);
      EXPECT_EQ(leases[0].job.record.payload(), request);
      EXPECT_TRUE(broker_.Complete(leases[0]).status.ok());
    }
  }
}

TEST_F(CallCases, S72_OriginalArrivesAfterItsRetry) {
  const auto retry = Ask<engine::EnqueueReply>(Enqueue("q", "p", "R"));
  broker_.Complete(broker_.Lease("q").at(0));
  broker_.Advance(1'000);
  const auto original = Ask<engine::EnqueueReply>(Enqueue("q", "p", "R"));
  EXPECT_EQ(original.jobs.at(0).job_id, retry.jobs.at(0).job_id);
  // The same answer to the letter, though the job has moved on.
  EXPECT_EQ(original.jobs.at(0).state, JobState::kReady);
  EXPECT_TRUE(broker_.Lease("q").empty());
  EXPECT_EQ(broker_.Stats("q").counters.completed(), 1);
}

TEST_F(CallCases, S73_SameRequestIdDifferentContents) {
  // The edge hashes the contents (equal for equal fields, whatever their order as bytes).
  Ask<engine::EnqueueReply>(Enqueue("q", "{a:1}", "R", 1));
  const engine::Outcome other = broker_.Call(Enqueue("q", "{a:2}", "R", 2));
  EXPECT_EQ(ReasonOf(other.status), Reason::kRequestIdReused);
  EXPECT_NE(other.status.message().find("\"R\""), absl::string_view::npos);
  EXPECT_EQ(Refusal(Enqueue("p", "{a:1}", "R", 3)), Reason::kRequestIdReused);
  EXPECT_EQ(Refusal(engine::PurgeQueueCommand{"q", true, {"", "R", 4}}), Reason::kRequestIdReused);
  EXPECT_EQ(Refusal(engine::QueueStatsCommand{"p"}), Reason::kQueueNotFound);
  EXPECT_EQ(broker_.Stats("q").counters.ready(), 1);
}

TEST_F(CallCases, EveryCallThatTakesARequestIdRepeatsItsAnswer) {
  broker_.EnqueueMany("q", Jobs(4, BrokerHarness::Job()));
  const auto leases = broker_.Lease("q", 3);
  broker_.Fail(leases[0], {}, true);
  const std::vector<engine::Command> commands = {
      engine::CancelCommand{BrokerHarness::Ref(leases[1]), {"", "cancel", 1}},
      engine::RedriveCommand{BrokerHarness::Ref(leases[0]), {"", "redrive", 1}},
      engine::UpdateJobCommand{BrokerHarness::Ref(leases[2]), 9, {}, {}, {}, {}, {"", "up", 1}},
      engine::DeleteJobCommand{BrokerHarness::Ref(leases[2]), true, {"", "delete", 1}},
      engine::CreateQueueCommand{"new", {}, {"", "create", 1}},
      engine::UpdateQueueCommand{"new", {}, {}, true, 0, {"", "update queue", 1}},
      engine::PauseQueueCommand{"new", true, {"", "pause", 1}},
      engine::PurgeQueueCommand{"q", true, {"", "purge", 1}},
      engine::DeleteQueueCommand{"new", false, {"", "delete queue", 1}},
  };
  std::vector<size_t> kinds;
  for (const engine::Command& command : commands) {
    const engine::Outcome first = broker_.Call(command);
    EXPECT_TRUE(first.status.ok()) << first.status;
    kinds.push_back(first.body.index());
  }
  broker_.Crash();
  // Most of these would be refused if they were carried out again.
  for (size_t i = 0; i < commands.size(); ++i) {
    const engine::Outcome again = broker_.Call(commands[i]);
    EXPECT_TRUE(again.status.ok()) << i << ": " << again.status;
    EXPECT_EQ(again.body.index(), kinds[i]) << i;
  }
  EXPECT_EQ(Refusal(engine::QueueStatsCommand{"new"}), Reason::kQueueNotFound);
}

TEST_F(CallCases, ARefusalIsNotRemembered) {
  broker_.Enqueue("q");
  Ask<engine::QueueReply>(engine::UpdateQueueCommand{"q", {}, {}, true, 0, {}});
  EXPECT_EQ(Refusal(Enqueue("q", "p", "R")), Reason::kQueueDraining);
  Ask<engine::QueueReply>(engine::UpdateQueueCommand{"q", {}, {}, false, 0, {}});
  EXPECT_EQ(Refusal(Enqueue("q", "p", "R")), Reason::kNone);
}

TEST_F(CallCases, ALeaseCallRepeatsByWorkerAndRequestWhileItsLeasesLive) {
  broker_.EnqueueMany("q", Jobs(5, BrokerHarness::Job(std::string(5'000, 'x'))));
  auto call = BrokerHarness::LeaseCall("q", 0, "w1");
  call.max_jobs = 2;
  call.request_id = "R";
  const auto first = Ask<engine::LeaseReply>(call).leases;
  const auto again = Ask<engine::LeaseReply>(call).leases;
  ASSERT_EQ(again.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(again[i].token, first[i].token);
    EXPECT_EQ(again[i].job.record.payload().size(), 5'000u);
  }
  call.worker = "w2";
  EXPECT_NE(Ask<engine::LeaseReply>(call).leases.at(0).token, first[0].token);
  call.worker = "w1";
  broker_.Complete(first[0]);
  EXPECT_EQ(Ask<engine::LeaseReply>(call).leases.size(), 1u);
  broker_.Complete(first[1]);
  const auto next = Ask<engine::LeaseReply>(call).leases;
  ASSERT_EQ(next.size(), 1u);
  EXPECT_NE(next[0].token, first[1].token);
}

TEST_F(CallCases, QueueSettingsChangeByFieldAndByEtag) {
  record::QueueSettings settings;
  settings.set_max_attempts(5);
  settings.set_max_losses(6);
  Configure("q", settings);
  EXPECT_EQ(Refusal(engine::CreateQueueCommand{"q", settings, {}}), Reason::kQueueExists);
  record::QueueSettings change;
  change.set_max_attempts(7);
  const auto reply =
      Ask<engine::QueueReply>(engine::UpdateQueueCommand{"q", {"max_attempts"}, change, {}, 0, {}});
  EXPECT_EQ(reply.queue.settings().max_attempts(), 7);
  EXPECT_EQ(reply.queue.settings().max_losses(), 6);
  EXPECT_EQ(Refusal(engine::UpdateQueueCommand{
                "q", {"max_losses"}, change, {}, reply.queue.version() - 1, {}}),
            Reason::kEtagMismatch);
  const auto back = Ask<engine::QueueReply>(
      engine::UpdateQueueCommand{"q", {"max_losses"}, change, {}, reply.queue.version(), {}});
  EXPECT_FALSE(back.queue.settings().has_max_losses());  // unset: the default again
  const auto all = Ask<engine::QueueReply>(engine::UpdateQueueCommand{"q", {"*"}, {}, {}, 0, {}});
  EXPECT_FALSE(all.queue.settings().has_max_attempts());
}

}  // namespace
}  // namespace stint::testing
