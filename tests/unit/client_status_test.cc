// Reading errors, texts that may be sent, waits between tries.
#include <algorithm>
#include <vector>

#include "client/cpp/backoff.h"
#include "client/cpp/proto_time.h"
#include "client/cpp/random_id.h"
#include "client/cpp/status.h"
#include "client/cpp/text.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace stint::client {
namespace {

using ::testing::EndsWith;
using ::testing::MatchesRegex;

google::rpc::Status Refusal(absl::StatusCode code, const char* reason) {
  google::rpc::Status status;
  status.set_code(static_cast<int>(code));
  status.set_message("text for people");
  google::rpc::ErrorInfo info;
  info.set_reason(reason);
  info.set_domain("stint.dev");
  (*info.mutable_metadata())["worker"] = "w7";
  status.add_details()->PackFrom(info);
  return status;
}

TEST(StatusTest, CarriesReasonViolationsAndDelay) {
  google::rpc::Status rpc = Refusal(absl::StatusCode::kInvalidArgument, "INVALID_REQUEST");
  google::rpc::BadRequest bad;
  bad.add_field_violations()->set_field("queue");
  bad.mutable_field_violations(0)->set_description("is empty");
  rpc.add_details()->PackFrom(bad);
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(250'000'000);
  rpc.add_details()->PackFrom(retry);

  const absl::Status status = FromRpcStatus(rpc);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "text for people");
  EXPECT_EQ(ErrorReason(status), "INVALID_REQUEST");
  EXPECT_EQ(ErrorMetadata(status, "worker"), "w7");
  EXPECT_EQ(ErrorMetadata(status, "other"), "");
  ASSERT_EQ(FieldViolations(status).size(), 1U);
  EXPECT_EQ(FieldViolations(status)[0].field, "queue");
  EXPECT_EQ(FieldViolations(status)[0].description, "is empty");
  EXPECT_EQ(RetryDelay(status), absl::Milliseconds(250));
}

TEST(StatusTest, AnErrorWithoutDetailsHasNone) {
  const absl::Status status = absl::UnavailableError("no route");
  EXPECT_EQ(ErrorReason(status), "");
  EXPECT_TRUE(FieldViolations(status).empty());
  EXPECT_FALSE(RetryDelay(status).has_value());
  EXPECT_EQ(ErrorReason(absl::OkStatus()), "");
  EXPECT_TRUE(FromRpcStatus(google::rpc::Status()).ok());
}

TEST(StatusTest, AnotherDomainIsNotOurReason) {
  google::rpc::Status rpc;
  rpc.set_code(static_cast<int>(absl::StatusCode::kUnavailable));
  google::rpc::ErrorInfo info;
  info.set_reason("LEASE_LOST");
  info.set_domain("proxy.example");
  rpc.add_details()->PackFrom(info);
  EXPECT_EQ(ErrorReason(FromRpcStatus(rpc)), "");
}

TEST(StatusTest, OnlyTransientErrorsAreRepeated) {
  EXPECT_TRUE(IsSafeToRepeat(absl::UnavailableError("")));
  EXPECT_TRUE(IsSafeToRepeat(absl::DeadlineExceededError("")));
  EXPECT_TRUE(
      IsSafeToRepeat(FromRpcStatus(Refusal(absl::StatusCode::kResourceExhausted, "OVERLOADED"))));
  for (const char* const reason : {"QUEUE_FULL", "STORE_LOW_SPACE", "QUOTA"}) {
    EXPECT_FALSE(
        IsSafeToRepeat(FromRpcStatus(Refusal(absl::StatusCode::kResourceExhausted, reason))))
        << reason;
  }
  // A message over gRPC's own limit.
  EXPECT_FALSE(IsSafeToRepeat(absl::ResourceExhaustedError("larger than max")));
  for (const absl::StatusCode code :
       {absl::StatusCode::kOk, absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
        absl::StatusCode::kFailedPrecondition, absl::StatusCode::kUnauthenticated,
        absl::StatusCode::kInternal, absl::StatusCode::kAborted}) {
    EXPECT_FALSE(IsSafeToRepeat(absl::Status(code, "")));
  }
}

TEST(TextTest, InvalidUtf8IsReplacedByteForByte) {
  EXPECT_TRUE(IsValidUtf8("plain \xC3\xA4 \xE2\x82\xAC \xF0\x9F\x98\x80"));
  EXPECT_TRUE(IsValidUtf8(absl::string_view("\0", 1)));
  for (const char* const bad : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82", "\x80",
                                "\xE0\x80\x80", "\xF0\x80\x80\x80", "\xFF"}) {
    EXPECT_FALSE(IsValidUtf8(bad)) << testing::PrintToString(bad);
    EXPECT_TRUE(IsValidUtf8(ToValidUtf8(bad)));
  }
  EXPECT_EQ(ToValidUtf8("a\xFFz"), "a\xEF\xBF\xBDz");
}

TEST(TextTest, ShortensAtACharacterAndSaysSo) {
  EXPECT_EQ(ShortenedText("short", 64), "short");
  EXPECT_EQ(ShortenedText(std::string(64, 'x'), 64), std::string(64, 'x'));
  const std::string one_over = ShortenedText(std::string(65, 'x'), 64);
  EXPECT_EQ(one_over.size(), 64U);
  EXPECT_THAT(one_over, EndsWith(" ... [shortened, was 65 bytes]"));
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\xE2\x82\xAC";
  EXPECT_TRUE(IsValidUtf8(ShortenedText(wide, 64)));
  EXPECT_LE(ShortenedText(wide, 64).size(), 64U);
  // Replacing makes a text longer; the limit holds all the same.
  EXPECT_LE(ShortenedText(std::string(64, '\xFF'), 64).size(), 64U);
}

TEST(BackoffTest, BeginsAtOnceGrowsToTwoSecondsAndStartsAgain) {
  Backoff backoff;
  for (int round = 0; round < 50; ++round) {
    EXPECT_LE(backoff.Next(), absl::Milliseconds(100));
    for (int failure = 2; failure < 12; ++failure) {
      const absl::Duration wait = backoff.Next();
      EXPECT_GE(wait, absl::Milliseconds(500));
      EXPECT_LE(wait, std::min(absl::Milliseconds(500) * failure, absl::Seconds(2)));
    }
    backoff.Reset();
  }
  EXPECT_GE(backoff.Next(absl::Seconds(30)), absl::Seconds(30));
  EXPECT_LE(backoff.Next(absl::Seconds(30)), absl::Seconds(38));
}

// S86: 500 clients whose broker comes back after 20 s. They are spread by then: in no 100 ms
// more than a fifth of them try, and all have tried within the next 2 s.
TEST(BackoffTest, S86ManyClientsDoNotComeBackTogether) {
  constexpr int kClients = 500;
  std::vector<double> first_tries_ms;
  for (int client = 0; client < kClients; ++client) {
    Backoff backoff;
    absl::Duration now;
    while (now < absl::Seconds(20)) now += backoff.Next();
    first_tries_ms.push_back(absl::ToDoubleMilliseconds(now));
  }
  std::sort(first_tries_ms.begin(), first_tries_ms.end());
  for (size_t i = 0; i < first_tries_ms.size(); ++i) {
    const auto end =
        std::upper_bound(first_tries_ms.begin(), first_tries_ms.end(), first_tries_ms[i] + 100);
    EXPECT_LE(end - first_tries_ms.begin() - static_cast<ptrdiff_t>(i), kClients / 5);
  }
  EXPECT_LE(first_tries_ms.back(), 22'000);
}

TEST(RandomIdTest, AreLongAndDifferent) {
  EXPECT_THAT(RandomId(), MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(RandomId(), RandomId());
  EXPECT_THAT(RandomWorkerId(), MatchesRegex("[A-Za-z0-9][A-Za-z0-9.-]*:[0-9]+:[0-9a-f]{8}"));
  EXPECT_NE(RandomWorkerId(), RandomWorkerId());
  EXPECT_EQ(RandomBytes(1000).size(), 1000U);
}

TEST(ProtoTimeTest, RoundTripsAndClamps) {
  for (const absl::Duration duration : {absl::ZeroDuration(), absl::Milliseconds(1500),
                                        -absl::Milliseconds(1500), absl::Hours(24) * 3650}) {
    EXPECT_EQ(ToAbsl(ToProto(duration)), duration);
  }
  EXPECT_EQ(ToProto(-absl::Milliseconds(1500)).nanos(), -500'000'000);
  EXPECT_EQ(ToProto(absl::InfiniteDuration()).seconds(), 315'576'000'000);
  const absl::Time before_epoch = absl::FromUnixMillis(-1500);
  EXPECT_EQ(ToAbsl(ToProto(before_epoch)), before_epoch);
  EXPECT_EQ(ToProto(before_epoch).nanos(), 500'000'000);
  EXPECT_EQ(ToProto(absl::InfiniteFuture()).seconds(), 253'402'300'799);
}

}  // namespace
}  // namespace stint::client
