// What the tests of rules and of field cases share: a broker that is checked when the test has
// ended, and short ways to say what is looked at. Used by one thread.
#ifndef STINT_TESTS_SUPPORT_CASE_FIXTURE_H_
#define STINT_TESTS_SUPPORT_CASE_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/limits.h"
#include "storage/keys.h"
#include "tests/support/broker_harness.h"

namespace stint::testing {

using engine::EndReason;
using engine::GrantedLease;
using engine::JobState;
using engine::kMinuteMs;
using engine::kSecondMs;
using engine::LeaseStatus;
using engine::Reason;
using engine::ReasonOf;

inline JobState StateOf(const engine::JobSnapshot& job) {
  return static_cast<JobState>(job.state.state());
}

inline EndReason EndOf(const engine::JobSnapshot& job) {
  return static_cast<EndReason>(job.state.end_reason());
}

// The number of the attempt that a lease is for.
inline int AttemptOf(const GrantedLease& lease) {
  return 1 + lease.job.state.total_failures() + lease.job.state.total_losses();
}

inline std::vector<engine::NewJob> Jobs(int count, const engine::NewJob& job) {
  return std::vector<engine::NewJob>(static_cast<size_t>(count), job);
}

class CaseTest : public ::testing::Test {
 protected:
  void TearDown() override {
    if (broker_.fatal().ok()) {
      const absl::Status checked = broker_.Check();
      EXPECT_TRUE(checked.ok()) << checked;
    }
    // However large a group is.
    EXPECT_LE(broker_.most_rounds(), 4u);
  }

  // What a waiting LeaseJobs was given; empty also while it still waits.
  static std::vector<GrantedLease> LeasesOf(const std::shared_ptr<PendingCall>& call) {
    if (!call->outcome.has_value()) return {};
    EXPECT_TRUE(call->outcome->status.ok()) << call->outcome->status;
    const auto* reply = std::get_if<engine::LeaseReply>(&call->outcome->body);
    return reply == nullptr ? std::vector<GrantedLease>() : reply->leases;
  }

  template <typename Reply>
  Reply Ask(engine::Command command) {
    engine::Outcome outcome = broker_.Call(std::move(command));
    EXPECT_TRUE(outcome.status.ok()) << outcome.status;
    Reply* reply = std::get_if<Reply>(&outcome.body);
    return reply == nullptr ? Reply() : std::move(*reply);
  }

  Reason Refusal(engine::Command command) {
    return ReasonOf(broker_.Call(std::move(command)).status);
  }

  void Configure(const std::string& queue, const record::QueueSettings& settings) {
    Ask<engine::QueueReply>(engine::CreateQueueCommand{queue, settings, {}});
  }
  void Pause(const std::string& queue, bool paused = true) {
    Ask<engine::QueueReply>(engine::PauseQueueCommand{queue, paused, {}});
  }

  size_t RowsIn(storage::Family family) {
    const auto rows = broker_.store().Scan(storage::FamilyBegin(family), storage::FamilyEnd(family),
                                           SIZE_MAX, storage::Direction::kForward);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? rows->size() : 0;
  }

  BrokerHarness broker_;
};

}  // namespace stint::testing

#endif  // STINT_TESTS_SUPPORT_CASE_FIXTURE_H_
