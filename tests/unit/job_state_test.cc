// Every state and every event: which are allowed, compared with a list written from the design,
// and what a whole broker does with them.
#include "server/engine/job_state.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

using engine::Event;

constexpr JobState kStates[] = {JobState::kDelayed, JobState::kHeld,      JobState::kReady,
                                JobState::kLeased,  JobState::kCompleted, JobState::kCancelled,
                                JobState::kDead};
constexpr Event kEvents[] = {Event::kDue,     Event::kExpire, Event::kGrant,  Event::kSettle,
                             Event::kRenew,   Event::kLapse,  Event::kRevoke, Event::kCancel,
                             Event::kRedrive, Event::kUpdate, Event::kMove};

TEST(JobStateTableTest, AllowsExactlyWhatTheDesignSays) {
  const std::map<JobState, std::set<Event>> allowed = {
      // A lapsed lease leaves its holder's token in force while the job waits, so it can still
      // be settled and renewed.
      {JobState::kDelayed,
       {Event::kDue, Event::kExpire, Event::kSettle, Event::kRenew, Event::kCancel, Event::kUpdate,
        Event::kMove}},
      {JobState::kHeld, {Event::kExpire, Event::kCancel, Event::kUpdate}},
      {JobState::kReady,
       {Event::kExpire, Event::kGrant, Event::kSettle, Event::kRenew, Event::kCancel,
        Event::kUpdate, Event::kMove}},
      {JobState::kLeased,
       {Event::kSettle, Event::kRenew, Event::kLapse, Event::kRevoke, Event::kCancel,
        Event::kUpdate}},
      {JobState::kCompleted, {}},
      {JobState::kCancelled, {Event::kRedrive}},
      {JobState::kDead, {Event::kRedrive}},
  };
  for (const JobState state : kStates) {
    for (const Event event : kEvents) {
      EXPECT_EQ(engine::Allows(state, event), allowed.at(state).count(event) == 1)
          << engine::JobStateName(state) << " event " << static_cast<int>(event);
    }
  }
}

TEST(JobStateTableTest, AllowsNothingInAStateThatDoesNotExist) {
  for (const Event event : kEvents) {
    EXPECT_FALSE(engine::Allows(static_cast<JobState>(0), event));
    EXPECT_FALSE(engine::Allows(static_cast<JobState>(8), event));
  }
}

// The ways a job can be at rest, and the token that owns or owned it (0: none ever did).
enum class At {
  kDelayed,
  kReady,
  kLeased,
  kLapsedReady,    // lapsed once, ready at once
  kLapsedDelayed,  // lapsed twice, waiting for the loss back-off
  kRetrying,       // failed, waiting for its retry
  kCompleted,
  kCancelled,
  kDead,
  kGone
};
constexpr At kPlaces[] = {At::kDelayed,       At::kReady,    At::kLeased,    At::kLapsedReady,
                          At::kLapsedDelayed, At::kRetrying, At::kCompleted, At::kCancelled,
                          At::kDead,          At::kGone};

class JobStateCallsTest : public CaseTest {
 protected:
  // Puts a job there and returns the last lease it had, or a lease with its name and token 0.
  GrantedLease Put(At place) {
    const std::string queue = absl::StrCat("q", ++queues_);
    record::QueueSettings settings;
    settings.set_loss_backoff_ms(600'000);
    settings.set_max_losses(5);
    Configure(queue, settings);
    auto job = BrokerHarness::Job();
    if (place == At::kDelayed) job.delay_ms = 3'600'000;
    GrantedLease lease;
    lease.job.queue = queue;
    lease.job.job_id = broker_.Enqueue(queue, job).jobs.at(0).job_id;
    if (place == At::kDelayed || place == At::kReady) return lease;
    lease = broker_.Lease(queue).at(0);
    switch (place) {
      case At::kLapsedReady:
        broker_.Advance(15'000);
        break;
      case At::kLapsedDelayed:
        broker_.Advance(15'000);
        lease = broker_.Lease(queue).at(0);
        broker_.Advance(15'000);
        break;
      case At::kRetrying:
        broker_.Fail(lease, 3'600'000);
        break;
      case At::kCompleted:
        broker_.Complete(lease);
        break;
      case At::kCancelled:
        broker_.Release(lease);
        broker_.Call(engine::CancelCommand{BrokerHarness::Ref(lease), {}});
        break;
      case At::kDead:
        broker_.Fail(lease, {}, true);
        break;
      case At::kGone:
        broker_.Complete(lease);
        broker_.Call(engine::DeleteJobCommand{BrokerHarness::Ref(lease), false, {}});
        break;
      default:
        break;
    }
    return lease;
  }

  std::optional<JobState> StateNow(const GrantedLease& lease) {
    const engine::Outcome outcome =
        broker_.Call(engine::WaitJobCommand{BrokerHarness::Ref(lease), 0});
    if (!outcome.status.ok()) return std::nullopt;
    return StateOf(std::get<engine::JobReply>(outcome.body).job);
  }

  // What a call comes to, for each place: the reason of the refusal and the state after it.
  using Call = std::function<absl::Status(const GrantedLease&)>;
  using Expected = std::map<At, std::pair<Reason, std::optional<JobState>>>;
  void ExpectAll(const Call& call, const Expected& expected) {
    for (const At place : kPlaces) {
      const GrantedLease lease = Put(place);
      const auto [reason, state] = expected.at(place);
      const std::optional<JobState> before = StateNow(lease);
      const absl::Status status = call(lease);
      EXPECT_EQ(ReasonOf(status), reason) << "place " << static_cast<int>(place) << ": " << status;
      EXPECT_EQ(StateNow(lease), state) << "place " << static_cast<int>(place);
      if (reason != Reason::kNone) {
        EXPECT_EQ(StateNow(lease), before);
      }
    }
  }

  static constexpr std::optional<JobState> kNoJob = std::nullopt;
  int queues_ = 0;
};

TEST_F(JobStateCallsTest, Complete) {
  const auto refused = [](JobState state) {
    return std::pair(Reason::kLeaseLost, std::optional(state));
  };
  const auto done = std::pair(Reason::kNone, std::optional(JobState::kCompleted));
  ExpectAll([this](const GrantedLease& lease) { return broker_.Complete(lease).status; },
            {{At::kDelayed, refused(JobState::kDelayed)},
             {At::kReady, refused(JobState::kReady)},
             {At::kLeased, done},
             {At::kLapsedReady, done},
             {At::kLapsedDelayed, done},
             {At::kRetrying, refused(JobState::kDelayed)},
             {At::kCompleted, done},  // a repeat
             {At::kCancelled, refused(JobState::kCancelled)},
             {At::kDead, refused(JobState::kDead)},
             {At::kGone, {Reason::kNone, kNoJob}}});  // a repeat of what is remembered
}

TEST_F(JobStateCallsTest, CompleteByAnotherToken) {
  const auto refused = [](JobState state) {
    return std::pair(Reason::kLeaseLost, std::optional(state));
  };
  ExpectAll(
      [this](GrantedLease lease) {
        lease.token += 1;
        return broker_.Complete(lease).status;
      },
      {{At::kDelayed, refused(JobState::kDelayed)},
       {At::kReady, refused(JobState::kReady)},
       {At::kLeased, refused(JobState::kLeased)},
       {At::kLapsedReady, refused(JobState::kReady)},
       {At::kLapsedDelayed, refused(JobState::kDelayed)},
       {At::kRetrying, refused(JobState::kDelayed)},
       {At::kCompleted, refused(JobState::kCompleted)},
       {At::kCancelled, refused(JobState::kCancelled)},
       {At::kDead, refused(JobState::kDead)},
       {At::kGone, {Reason::kJobNotFound, kNoJob}}});
}

TEST_F(JobStateCallsTest, Fail) {
  const auto refused = [](JobState state) {
    return std::pair(Reason::kLeaseLost, std::optional(state));
  };
  const auto again = std::pair(Reason::kNone, std::optional(JobState::kDelayed));
  ExpectAll([this](const GrantedLease& lease) { return broker_.Fail(lease, 60'000).status; },
            {{At::kDelayed, refused(JobState::kDelayed)},
             {At::kReady, refused(JobState::kReady)},
             {At::kLeased, again},
             {At::kLapsedReady, again},
             {At::kLapsedDelayed, again},
             {At::kRetrying, again},  // a repeat
             {At::kCompleted, refused(JobState::kCompleted)},
             {At::kCancelled, refused(JobState::kCancelled)},
             {At::kDead, {Reason::kNone, JobState::kDead}},  // a repeat
             {At::kGone, {Reason::kJobNotFound, kNoJob}}});
}

TEST_F(JobStateCallsTest, Release) {
  const auto refused = [](JobState state) {
    return std::pair(Reason::kLeaseLost, std::optional(state));
  };
  const auto ready = std::pair(Reason::kNone, std::optional(JobState::kReady));
  ExpectAll([this](const GrantedLease& lease) { return broker_.Release(lease).status; },
            {{At::kDelayed, refused(JobState::kDelayed)},
             {At::kReady, refused(JobState::kReady)},
             {At::kLeased, ready},
             {At::kLapsedReady, ready},
             {At::kLapsedDelayed, ready},
             {At::kRetrying, refused(JobState::kDelayed)},
             {At::kCompleted, refused(JobState::kCompleted)},
             {At::kCancelled, {Reason::kNone, JobState::kCancelled}},  // a repeat
             {At::kDead, refused(JobState::kDead)},
             {At::kGone, {Reason::kJobNotFound, kNoJob}}});
}

TEST_F(JobStateCallsTest, Heartbeat) {
  for (const At place : kPlaces) {
    const GrantedLease lease = Put(place);
    const std::optional<JobState> before = StateNow(lease);
    const bool owned =
        place == At::kLeased || place == At::kLapsedReady || place == At::kLapsedDelayed;
    EXPECT_EQ(broker_.Heartbeat(lease), owned ? LeaseStatus::kRenewed : LeaseStatus::kLost);
    EXPECT_EQ(StateNow(lease), owned ? JobState::kLeased : before);
  }
}

TEST_F(JobStateCallsTest, Cancel) {
  const auto done = std::pair(Reason::kNone, std::optional(JobState::kCancelled));
  ExpectAll(
      [this](const GrantedLease& lease) {
        return broker_.Call(engine::CancelCommand{BrokerHarness::Ref(lease), {}}).status;
      },
      {{At::kDelayed, done},
       {At::kReady, done},
       {At::kLeased, {Reason::kNone, JobState::kLeased}},  // its worker is told
       {At::kLapsedReady, done},
       {At::kLapsedDelayed, done},
       {At::kRetrying, done},
       {At::kCompleted, {Reason::kWrongState, JobState::kCompleted}},
       {At::kCancelled, done},
       {At::kDead, {Reason::kWrongState, JobState::kDead}},
       {At::kGone, {Reason::kJobNotFound, kNoJob}}});
}

TEST_F(JobStateCallsTest, Redrive) {
  const auto refused = [](JobState state) {
    return std::pair(Reason::kWrongState, std::optional(state));
  };
  ExpectAll(
      [this](const GrantedLease& lease) {
        return broker_.Call(engine::RedriveCommand{BrokerHarness::Ref(lease), {}}).status;
      },
      {{At::kDelayed, refused(JobState::kDelayed)},
       {At::kReady, refused(JobState::kReady)},
       {At::kLeased, refused(JobState::kLeased)},
       {At::kLapsedReady, refused(JobState::kReady)},
       {At::kLapsedDelayed, refused(JobState::kDelayed)},
       {At::kRetrying, refused(JobState::kDelayed)},
       {At::kCompleted, refused(JobState::kCompleted)},
       {At::kCancelled, {Reason::kNone, JobState::kReady}},
       {At::kDead, {Reason::kNone, JobState::kReady}},
       {At::kGone, {Reason::kJobNotFound, kNoJob}}});
}

TEST_F(JobStateCallsTest, DeleteWithoutForce) {
  const auto gone = std::pair(Reason::kNone, kNoJob);
  ExpectAll(
      [this](const GrantedLease& lease) {
        return broker_.Call(engine::DeleteJobCommand{BrokerHarness::Ref(lease), false, {}}).status;
      },
      {{At::kDelayed, gone},
       {At::kReady, gone},
       {At::kLeased, {Reason::kWrongState, JobState::kLeased}},
       {At::kLapsedReady, gone},
       {At::kLapsedDelayed, gone},
       {At::kRetrying, gone},
       {At::kCompleted, gone},
       {At::kCancelled, gone},
       {At::kDead, gone},
       {At::kGone, {Reason::kJobNotFound, kNoJob}}});
}

TEST_F(JobStateCallsTest, UpdateOfPriorityAndBudgets) {
  const auto kept = [](JobState state) { return std::pair(Reason::kNone, std::optional(state)); };
  const auto refused = [](JobState state) {
    return std::pair(Reason::kWrongState, std::optional(state));
  };
  ExpectAll(
      [this](const GrantedLease& lease) {
        return broker_
            .Call(engine::UpdateJobCommand{BrokerHarness::Ref(lease), 9, {}, {}, 7, 8, {}})
            .status;
      },
      {{At::kDelayed, kept(JobState::kDelayed)},
       {At::kReady, kept(JobState::kReady)},
       {At::kLeased, kept(JobState::kLeased)},
       {At::kLapsedReady, kept(JobState::kReady)},
       {At::kLapsedDelayed, kept(JobState::kDelayed)},
       {At::kRetrying, kept(JobState::kDelayed)},
       {At::kCompleted, refused(JobState::kCompleted)},
       {At::kCancelled, refused(JobState::kCancelled)},
       {At::kDead, refused(JobState::kDead)},
       {At::kGone, {Reason::kJobNotFound, kNoJob}}});
}

TEST_F(JobStateCallsTest, UpdateOfTheDueTime) {
  const auto delayed = std::pair(Reason::kNone, std::optional(JobState::kDelayed));
  const auto refused = [](JobState state) {
    return std::pair(Reason::kWrongState, std::optional(state));
  };
  ExpectAll(
      [this](const GrantedLease& lease) {
        return broker_
            .Call(engine::UpdateJobCommand{BrokerHarness::Ref(lease), {}, 60'000, {}, {}, {}, {}})
            .status;
      },
      {{At::kDelayed, delayed},
       {At::kReady, delayed},
       {At::kLeased, refused(JobState::kLeased)},
       {At::kLapsedReady, delayed},
       {At::kLapsedDelayed, delayed},
       {At::kRetrying, delayed},
       {At::kCompleted, refused(JobState::kCompleted)},
       {At::kCancelled, refused(JobState::kCancelled)},
       {At::kDead, refused(JobState::kDead)},
       {At::kGone, {Reason::kJobNotFound, kNoJob}}});
}

TEST_F(JobStateCallsTest, AZombieAfterARedriveChangesNothing) {
  const GrantedLease lease = Put(At::kDead);
  broker_.Call(engine::RedriveCommand{BrokerHarness::Ref(lease), {}});
  EXPECT_EQ(ReasonOf(broker_.Complete(lease).status), Reason::kLeaseLost);
  EXPECT_EQ(ReasonOf(broker_.Release(lease).status), Reason::kLeaseLost);
  EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kLost);
  EXPECT_EQ(StateNow(lease), JobState::kReady);
}

TEST_F(JobStateCallsTest, ARevokedLeaseIsNotSettledAnyMore) {
  auto job = BrokerHarness::Job();
  job.record.set_run_limit_ms(10'000);
  broker_.Enqueue("limited", job);
  const auto lease = broker_.Lease("limited", 1, 60'000).at(0);
  EXPECT_EQ(lease.run_limit_ms, 10'000);
  broker_.Advance(9'999, 3'333);
  EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kRenewed);
  broker_.Advance(1);
  EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kRunLimit);
  EXPECT_EQ(ReasonOf(broker_.Complete(lease).status), Reason::kLeaseLost);
  const auto after = broker_.Get("limited", lease.job.job_id);
  EXPECT_EQ(after.state.total_failures(), 1);
  EXPECT_EQ(after.state.attempts(0).outcome(),
            static_cast<int32_t>(engine::AttemptOutcome::kRunLimit));
}

TEST_F(JobStateCallsTest, TheRunLimitGoesOnAcrossARestart) {
  auto job = BrokerHarness::Job();
  job.record.set_run_limit_ms(60'000);
  broker_.Enqueue("limited", job);
  const auto lease = broker_.Lease("limited", 1, 3'600'000).at(0);
  broker_.Advance(20'000);
  broker_.Crash(39'000);
  EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kRenewed);
  broker_.Advance(1'000);
  EXPECT_EQ(broker_.Heartbeat(lease), LeaseStatus::kRunLimit);
}

}  // namespace
}  // namespace stint::testing
