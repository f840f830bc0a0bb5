// Refusals: the catalogue against the API's numbers, what a status carries, what callers see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "server/api/error_details.h"
#include "server/api/not_found.h"
#include "server/api/violations.h"
#include "server/engine/error.h"
#include "server/engine/limits.h"
#include "server/engine/types.h"
#include "stint/v1/error_reason.pb.h"
#include "stint/v1/job.pb.h"
#include "stint/v1/worker_service.pb.h"
#include "tests/support/temp_folder.h"

namespace stint::api {
namespace {

using engine::ErrorDetails;
using engine::Reason;
using ::testing::HasSubstr;

struct CatalogueLine {
  Reason reason;
  std::string name;
  absl::StatusCode code;
};

const CatalogueLine kCatalogue[] = {
#define STINT_ERROR(enumerator, name, code) {Reason::enumerator, #name, absl::StatusCode::code},
#include "server/engine/errors.def"
#undef STINT_ERROR
};

TEST(EngineErrorTest, ReasonsAreTheApisByNameAndNumber) {
  const auto* names = v1::ErrorReason_descriptor();
  for (const CatalogueLine& line : kCatalogue) {
    const auto* value = names->FindValueByName("ERROR_REASON_" + line.name);
    ASSERT_NE(value, nullptr) << line.name;
    EXPECT_EQ(value->number(), static_cast<int>(line.reason)) << line.name;
    EXPECT_EQ(engine::ReasonName(line.reason), line.name);
    EXPECT_EQ(engine::ReasonCode(line.reason), line.code) << line.name;
  }
  EXPECT_EQ(names->value_count(), static_cast<int>(std::size(kCatalogue)) + 1);
  EXPECT_EQ(engine::ReasonName(Reason::kNone), "");
}

TEST(EngineTypesTest, NumbersAreTheApis) {
  using engine::JobState;
  for (int state = 1; state <= 7; ++state) {
    EXPECT_EQ(v1::JobState_Name(state),
              absl::StrCat("JOB_STATE_", engine::JobStateName(static_cast<JobState>(state))));
  }
  EXPECT_EQ(v1::JobState_ARRAYSIZE, 8);
  EXPECT_EQ(static_cast<int>(engine::EndReason::kCompleted), v1::END_REASON_COMPLETED);
  EXPECT_EQ(static_cast<int>(engine::EndReason::kAttemptsExhausted),
            v1::END_REASON_ATTEMPTS_EXHAUSTED);
  EXPECT_EQ(static_cast<int>(engine::EndReason::kLeasesLost), v1::END_REASON_LEASES_LOST);
  EXPECT_EQ(static_cast<int>(engine::EndReason::kRejectedByWorker),
            v1::END_REASON_REJECTED_BY_WORKER);
  EXPECT_EQ(static_cast<int>(engine::EndReason::kExpired), v1::END_REASON_EXPIRED);
  EXPECT_EQ(static_cast<int>(engine::EndReason::kCancelledByClient),
            v1::END_REASON_CANCELLED_BY_CLIENT);
  EXPECT_EQ(static_cast<int>(engine::AttemptOutcome::kFailed), v1::ATTEMPT_OUTCOME_FAILED);
  EXPECT_EQ(static_cast<int>(engine::AttemptOutcome::kLeaseLapsed),
            v1::ATTEMPT_OUTCOME_LEASE_LAPSED);
  EXPECT_EQ(static_cast<int>(engine::AttemptOutcome::kRunLimit), v1::ATTEMPT_OUTCOME_RUN_LIMIT);
  EXPECT_EQ(static_cast<int>(engine::LeaseStatus::kRenewed), v1::LEASE_STATUS_RENEWED);
  EXPECT_EQ(static_cast<int>(engine::LeaseStatus::kCancelRequested),
            v1::LEASE_STATUS_CANCEL_REQUESTED);
  EXPECT_EQ(static_cast<int>(engine::LeaseStatus::kLost), v1::LEASE_STATUS_LOST);
  EXPECT_EQ(static_cast<int>(engine::LeaseStatus::kRunLimit), v1::LEASE_STATUS_RUN_LIMIT);
  EXPECT_EQ(static_cast<int>(engine::ReleaseReason::kNone), v1::RELEASE_REASON_UNSPECIFIED);
  EXPECT_EQ(static_cast<int>(engine::ReleaseReason::kShutdown), v1::RELEASE_REASON_SHUTDOWN);
  EXPECT_EQ(static_cast<int>(engine::ReleaseReason::kKindUnknown), v1::RELEASE_REASON_KIND_UNKNOWN);
}

TEST(EngineErrorTest, DetailsSurviveTheStatus) {
  ErrorDetails details;
  details.reason = Reason::kLeaseLost;
  details.metadata = {{"attempt", "3"}, {"worker", "with:colon 7:x"}};
  details.violations = {{"field", std::string("nul \0 in it", 11)}, {"", ""}};
  details.retry_after_ms = 1500;
  details.resource_type = "job";
  details.resource_name = "queues/q/jobs/j";
  const absl::Status status = engine::MakeError(details, "lost");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "lost");
  const auto read = engine::DetailsOf(status);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->reason, details.reason);
  EXPECT_EQ(read->metadata, details.metadata);
  EXPECT_EQ(read->violations, details.violations);
  EXPECT_EQ(read->retry_after_ms, details.retry_after_ms);
  EXPECT_EQ(read->resource_type, details.resource_type);
  EXPECT_EQ(read->resource_name, details.resource_name);
  EXPECT_EQ(engine::ReasonOf(status), Reason::kLeaseLost);
}

TEST(EngineErrorTest, OtherStatusesHaveNone) {
  EXPECT_FALSE(engine::DetailsOf(absl::OkStatus()).has_value());
  EXPECT_FALSE(engine::DetailsOf(absl::InternalError("x")).has_value());
  EXPECT_EQ(engine::ReasonOf(absl::InternalError("x")), Reason::kNone);
}

template <typename Detail>
std::optional<Detail> Find(const google::rpc::Status& status) {
  Detail detail;
  for (const auto& any : status.details()) {
    if (any.UnpackTo(&detail)) return detail;
  }
  return std::nullopt;
}

TEST(ErrorDetailsTest, EveryReasonHasTheDetailsItsCodeAsksFor) {
  for (const CatalogueLine& line : kCatalogue) {
    const auto status = ToRpcStatus(engine::MakeError(line.reason, "why"));
    EXPECT_EQ(status.code(), static_cast<int>(line.code));
    const auto info = Find<google::rpc::ErrorInfo>(status);
    ASSERT_TRUE(info.has_value()) << line.name;
    EXPECT_EQ(info->reason(), line.name);
    EXPECT_EQ(info->domain(), "stint.dev");
    EXPECT_EQ(Find<google::rpc::RetryInfo>(status).has_value(),
              line.code == absl::StatusCode::kResourceExhausted ||
                  line.code == absl::StatusCode::kUnavailable)
        << line.name;
    EXPECT_EQ(
        Find<google::rpc::ResourceInfo>(status).has_value(),
        line.code == absl::StatusCode::kNotFound || line.code == absl::StatusCode::kAlreadyExists)
        << line.name;
  }
}

TEST(ErrorDetailsTest, FailuresWithoutAReasonGetOne) {
  const auto corrupt = ToRpcStatus(absl::DataLossError("record 7"));
  EXPECT_EQ(corrupt.code(), static_cast<int>(absl::StatusCode::kDataLoss));
  EXPECT_EQ(Find<google::rpc::ErrorInfo>(corrupt)->reason(), "CORRUPT_RECORD");
  const auto failed = ToRpcStatus(absl::InternalError("read error"));
  EXPECT_EQ(failed.code(), static_cast<int>(absl::StatusCode::kUnavailable));
  EXPECT_EQ(Find<google::rpc::ErrorInfo>(failed)->reason(), "STORE_FAILED");
}

// The worst that can be said fits into what every client reads of trailers.
TEST(ErrorDetailsTest, StaysSmall) {
  Violations violations;
  for (int i = 0; i < 1000; ++i) {
    violations.Add(std::string(500, 'f'), std::string(500, 'd'));
  }
  const auto status = ToRpcStatus(violations.ToStatus());
  EXPECT_LT(status.ByteSizeLong(), 4096u);
  EXPECT_LT(status.message().size() + status.ByteSizeLong() * 4 / 3, 8000u);

  ErrorDetails details;
  details.reason = Reason::kWrongState;
  details.metadata = {{"state", std::string(5000, 'x')}};
  EXPECT_LT(ToRpcStatus(engine::MakeError(details, std::string(9000, 'y'))).ByteSizeLong(), 4096u);
  EXPECT_LT(ToItemStatus(violations.ToStatus()).ByteSizeLong(), 2048u);
}

// What clients in other languages take apart: compare by eye when it changes.
TEST(ErrorDetailsTest, GoldenForm) {
  std::string all;
  const auto add = [&all](absl::string_view title, const absl::Status& status) {
    std::string text;
    google::protobuf::TextFormat::Printer printer;
    printer.SetExpandAny(true);
    printer.PrintToString(ToRpcStatus(status), &text);
    absl::StrAppend(&all, all.empty() ? "" : "\n", "# ", title, "\n", text);
  };
  Violations violations;
  violations.Add("queue", "is required");
  violations.Add("job.priority", "must be 0 to 9, is 10");
  add("INVALID_REQUEST", violations.ToStatus());
  add("QUEUE_NOT_FOUND", QueueNotFound("email"));
  add("JOB_NOT_FOUND", JobNotFound("queues/email/jobs/j1"));
  ErrorDetails overloaded;
  overloaded.reason = Reason::kOverloaded;
  overloaded.retry_after_ms = 250;
  add("OVERLOADED", engine::MakeError(overloaded, "too many commands are waiting"));
  add("LEASE_LOST", engine::MakeError(Reason::kLeaseLost, "the token owns the job no more",
                                      {{"attempt", "2"}, {"worker", "w2"}}));
  EXPECT_EQ(all, test::ReadFile("tests/golden/edge/error_details.txt")) << all;
}

}  // namespace
}  // namespace stint::api
