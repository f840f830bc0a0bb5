// Names, texts, times and single fields: the rules every call shares.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/api/checks.h"
#include "server/api/names.h"
#include "server/api/text.h"
#include "server/api/time_values.h"
#include "server/engine/error.h"
#include "server/engine/limits.h"

namespace stint::api {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(NamesTest, IdsAreWhatTheRuleSays) {
  for (const char* id : {"a", "A", "0", "a:b", "a.b_c-d", "9lives", "Upper"}) {
    EXPECT_TRUE(IsValidId(id)) << id;
  }
  EXPECT_TRUE(IsValidId(std::string(128, 'x')));
  EXPECT_FALSE(IsValidId(std::string(129, 'x')));
  // S66, S67, S68.
  for (const std::string id :
       {"", "-lead", ".", "..", "_x", ":x", "a b", "a+b", "a#b", "a/b", "a?b", "100%", "a|b",
        "a%3Ab", "trail ", "a\tb", "\xC3\xBCmlaut", "\xE9\x98\x9F\xE5\x88\x97", "a\n"}) {
    EXPECT_FALSE(IsValidId(id)) << id;
  }
  EXPECT_FALSE(IsValidId(std::string("a\0b", 3)));
}

TEST(NamesTest, JobNamesAreTakenApartAndMade) {
  const auto ref = ParseJobName("queues/a:b/jobs/j-1");
  ASSERT_TRUE(ref.has_value());
  EXPECT_EQ(ref->queue, "a:b");
  EXPECT_EQ(ref->job_id, "j-1");
  EXPECT_EQ(JobName("a:b", "j-1"), "queues/a:b/jobs/j-1");
  EXPECT_EQ(QueueName("email"), "queues/email");
  for (const char* name :
       {"", "queues", "queues/", "queues/q", "queues/q/jobs", "queues/q/jobs/", "queues//jobs/j",
        "/queues/q/jobs/j", "queues/q/jobs/j/", "queues/q/jobs/j/x", "queues/q/job/j",
        "queues/q/jobs/-j", "Queues/q/jobs/j", "queues/q/x/jobs/j"}) {
    EXPECT_FALSE(ParseJobName(name).has_value()) << name;
  }
}

TEST(TextTest, ShortensOnCharactersAndSaysSo) {
  EXPECT_EQ(Shorten("short", 64), "short");
  const std::string exact(64, 'x');
  EXPECT_EQ(Shorten(exact, 64), exact);
  // Two-byte characters: whichever byte the limit falls on, none is cut.
  for (size_t max = 64; max < 68; ++max) {
    std::string text;
    for (int i = 0; i < 100; ++i) text += "\xC3\xA4";
    const std::string shortened = Shorten(text, max);
    EXPECT_LE(shortened.size(), max);
    EXPECT_THAT(shortened, HasSubstr("[shortened from 200 bytes]"));
    EXPECT_EQ(shortened.find(' ') % 2, 0u) << shortened;
  }
}

TEST(TextTest, QuotesAreShortAndPrintable) {
  EXPECT_EQ(Quote("a b"), "\"a b\"");
  EXPECT_EQ(Quote(std::string("\0\x1b[31m", 6)), "\"\\x00\\x1b[31m\"");
  EXPECT_EQ(Quote(std::string(41, 'x')), "\"" + std::string(40, 'x') + "...\"");
}

google::protobuf::Duration MakeDuration(int64_t seconds, int32_t nanos) {
  google::protobuf::Duration duration;
  duration.set_seconds(seconds);
  duration.set_nanos(nanos);
  return duration;
}

google::protobuf::Timestamp MakeTimestamp(int64_t seconds, int32_t nanos) {
  google::protobuf::Timestamp timestamp;
  timestamp.set_seconds(seconds);
  timestamp.set_nanos(nanos);
  return timestamp;
}

TEST(TimeValuesTest, PartsOfAMillisecondCountAsAWholeOne) {
  EXPECT_EQ(MillisOf(MakeDuration(0, 0)), 0);
  EXPECT_EQ(MillisOf(MakeDuration(0, 1)), 1);
  EXPECT_EQ(MillisOf(MakeDuration(1, 500'000'000)), 1500);
  EXPECT_EQ(MillisOf(MakeDuration(1, 999'999'999)), 2000);
  EXPECT_EQ(MillisOf(MakeTimestamp(10, 1)), 10'001);
  EXPECT_EQ(MillisOf(MakeTimestamp(-5, 0)), 0);
  EXPECT_EQ(MillisOf(DurationOfMillis(12'345)), 12'345);
  EXPECT_EQ(MillisOf(TimestampOfMillis(1'760'000'000'123)), 1'760'000'000'123);
  EXPECT_EQ(TimestampOfMillis(-1).seconds(), -1);
  EXPECT_EQ(TimestampOfMillis(-1).nanos(), 999'000'000);
}

// The violations a check adds.
template <typename Check>
std::vector<std::pair<std::string, std::string>> Found(Check check) {
  Violations violations;
  check(&violations);
  const auto details = engine::DetailsOf(violations.ToStatus());
  return details.has_value() ? details->violations
                             : std::vector<std::pair<std::string, std::string>>();
}

TEST(ChecksTest, DurationsInRangeAndNoOthers) {
  const auto found = [](int64_t seconds, int32_t nanos) {
    return Found([&](Violations* v) {
      CheckDuration("d", MakeDuration(seconds, nanos), 1000, 86'400'000, v);
    });
  };
  EXPECT_THAT(found(1, 0), IsEmpty());
  EXPECT_THAT(found(86'400, 0), IsEmpty());
  EXPECT_THAT(found(0, 999'999'999), SizeIs(1));
  EXPECT_THAT(found(86'400, 1), SizeIs(1));
  EXPECT_THAT(found(-1, 0), SizeIs(1));
  EXPECT_THAT(found(INT64_MAX, 0), SizeIs(1));
  EXPECT_THAT(found(INT64_MIN, 0), SizeIs(1));
  EXPECT_THAT(found(1, -1), SizeIs(1));
  EXPECT_THAT(found(0, INT32_MIN), SizeIs(1));
  EXPECT_EQ(found(0, 500'000'000).front().second, "must be 1s to 24h, is 500ms");
  // Rounding up must not lift a negative duration to zero.
  EXPECT_THAT(Found([](Violations* v) { CheckDuration("d", MakeDuration(0, -1), 0, 1000, v); }),
              SizeIs(1));
}

TEST(ChecksTest, TimestampsAreOfTheCommonEra) {
  const auto found = [](int64_t seconds, int32_t nanos) {
    return Found([&](Violations* v) { CheckTimestamp("t", MakeTimestamp(seconds, nanos), v); });
  };
  EXPECT_THAT(found(0, 0), IsEmpty());
  EXPECT_THAT(found(253'402'300'799, 999'999'999), IsEmpty());
  EXPECT_THAT(found(253'402'300'800, 0), SizeIs(1));
  EXPECT_THAT(found(0, -1), SizeIs(1));
  EXPECT_THAT(found(INT64_MIN, 0), SizeIs(1));
}

TEST(ChecksTest, NotANumberIsNoNumber) {
  EXPECT_THAT(Found([](Violations* v) { CheckRange("x", std::nan(""), 0.0, 1.0, v); }), SizeIs(1));
}

TEST(ViolationsTest, KeepsTwentyAndCountsTheRest) {
  Violations violations;
  EXPECT_TRUE(violations.ToStatus().ok());
  for (int i = 0; i < 25; ++i) violations.Add("field", "is wrong");
  const absl::Status status = violations.ToStatus();
  const auto details = engine::DetailsOf(status);
  ASSERT_TRUE(details.has_value());
  EXPECT_EQ(details->reason, engine::Reason::kInvalidRequest);
  EXPECT_THAT(details->violations, SizeIs(engine::kMaxViolations));
  ASSERT_THAT(details->metadata, SizeIs(1));
  EXPECT_EQ(details->metadata[0],
            std::make_pair(std::string("violationsOmitted"), std::string("5")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("and 22 more"));
}

}  // namespace
}  // namespace stint::api
