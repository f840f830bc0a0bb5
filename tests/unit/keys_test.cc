// The form and the order of every key, against storage/FORMAT.md.
#include "storage/keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

namespace stint::storage {
namespace {

std::string Hex(absl::string_view key) { return absl::BytesToHexString(key); }

// Byte for byte what is on disk. A change here is a change of the format.
TEST(Keys, FormOfEachFamily) {
  EXPECT_EQ(Hex(MetaKey("group")), "006d67726f7570");
  EXPECT_EQ(Hex(QueueKey(0x01020304)), "007101020304");
  EXPECT_EQ(Hex(QueueNameKey("email")), "006e656d61696c");
  EXPECT_EQ(Hex(CountersKey(7)), "006300000007");
  const JobKey job{0x0a0b0c0d, 0x1112131415161718};
  EXPECT_EQ(Hex(JobRowKey(Family::kJob, job)), "006a0a0b0c0d1112131415161718");
  EXPECT_EQ(Hex(JobRowKey(Family::kPayload, job)), "00700a0b0c0d1112131415161718");
  EXPECT_EQ(Hex(JobRowKey(Family::kState, job)), "00730a0b0c0d1112131415161718");
  EXPECT_EQ(Hex(JobRowKey(Family::kLease, job)), "006c0a0b0c0d1112131415161718");
  EXPECT_EQ(Hex(JobRowKey(Family::kResult, job)), "00750a0b0c0d1112131415161718");
  EXPECT_EQ(Hex(JobIdKey(7, "my-id")), "0069000000076d792d6964");
  EXPECT_EQ(Hex(ReadyRowKey({7, 5, 0x0102, 9})), "0072000000070400000000000001020000000000000009");
  EXPECT_EQ(Hex(DueRowKey(Family::kDue, {0x0102, 0, 9})), "00640000000000000102090000000000000009");
  EXPECT_EQ(Hex(DueRowKey(Family::kDueWall, {0x0102, 9, 9})),
            "00770000000000000102000000000000000009");
  EXPECT_EQ(Hex(ExpiryRowKey(Family::kExpiry, 0x0102, 9)), "006500000000000001020000000000000009");
  EXPECT_EQ(Hex(ExpiryRowKey(Family::kExpiryWall, 0x0102, 9)),
            "006600000000000001020000000000000009");
  EXPECT_EQ(Hex(EndedRowKey(7, EndedClass::kFinished, 0x0102, 9)),
            "0074000000070000000000000001020000000000000009");
  EXPECT_EQ(Hex(EndedRowKey(7, EndedClass::kDead, 0x0102, 9)),
            "0074000000070100000000000001020000000000000009");
  EXPECT_EQ(Hex(RequestRowKey(3, "\xaa\xbb")), "006f00000003aabb");
  EXPECT_EQ(Hex(RemovedSettlesKey(3, 9)), "0076000000030000000000000009");
}

TEST(Keys, RangesOfAFamily) {
  EXPECT_EQ(Hex(FamilyBegin(Family::kJob)), "006a");
  EXPECT_EQ(Hex(FamilyEnd(Family::kJob)), "006b");
  EXPECT_EQ(Hex(QueueRangeBegin(Family::kJob, 7)), "006a00000007");
  EXPECT_EQ(Hex(QueueRangeEnd(Family::kJob, 7)), "006a00000008");
  EXPECT_EQ(Hex(QueueRangeEnd(Family::kJob, UINT32_MAX)), "006b");
  EXPECT_EQ(Hex(BucketRangeBegin(Family::kRequest, 7)), "006f00000007");
}

TEST(Keys, TakenApartAgain) {
  for (const JobKey job : {JobKey{0, 0}, JobKey{7, 9}, JobKey{UINT32_MAX, UINT64_MAX}}) {
    for (const Family family :
         {Family::kJob, Family::kPayload, Family::kState, Family::kLease, Family::kResult}) {
      const std::string key = JobRowKey(family, job);
      EXPECT_EQ(ParseJobRowKey(family, key), job);
      EXPECT_EQ(FamilyOf(key), family);
    }
  }
  EXPECT_EQ(ParseQueueKey(Family::kQueue, QueueKey(UINT32_MAX)), UINT32_MAX);
  EXPECT_EQ(ParseQueueKey(Family::kCounters, CountersKey(7)), 7u);

  const auto ready = ParseReadyRowKey(ReadyRowKey({7, 9, INT64_MAX, UINT64_MAX}));
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->queue, 7u);
  EXPECT_EQ(ready->priority, 9);
  EXPECT_EQ(ready->ready_ms, INT64_MAX);
  EXPECT_EQ(ready->sequence, UINT64_MAX);

  const auto due = ParseDueRowKey(Family::kDueWall, DueRowKey(Family::kDueWall, {5, 3, 8}));
  ASSERT_TRUE(due);
  EXPECT_EQ(due->due_ms, 5);
  EXPECT_EQ(due->priority, 3);
  EXPECT_EQ(due->sequence, 8u);

  const auto expiry = ParseExpiryRowKey(Family::kExpiry, ExpiryRowKey(Family::kExpiry, 5, 8));
  ASSERT_TRUE(expiry);
  EXPECT_EQ(expiry->expiry_ms, 5);
  EXPECT_EQ(expiry->sequence, 8u);

  const auto ended = ParseEndedRowKey(EndedRowKey(7, EndedClass::kDead, 5, 8));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->queue, 7u);
  EXPECT_EQ(ended->ended, EndedClass::kDead);
  EXPECT_EQ(ended->end_ms, 5);
  EXPECT_EQ(ended->sequence, 8u);

  EXPECT_EQ(ParseBucket(Family::kRequest, RequestRowKey(3, "hash")), 3u);
  EXPECT_EQ(ParseBucket(Family::kRemovedSettles, RemovedSettlesKey(3, 9)), 3u);
}

TEST(Keys, RefusesWhatHasNotTheForm) {
  const std::string job = JobRowKey(Family::kJob, {7, 9});
  EXPECT_FALSE(ParseJobRowKey(Family::kState, job));
  EXPECT_FALSE(ParseJobRowKey(Family::kJob, job + "x"));
  EXPECT_FALSE(ParseJobRowKey(Family::kJob, job.substr(0, job.size() - 1)));
  EXPECT_FALSE(ParseJobRowKey(Family::kJob, ""));
  std::string other_shard = job;
  other_shard[0] = 1;
  EXPECT_FALSE(ParseJobRowKey(Family::kJob, other_shard));
  EXPECT_FALSE(FamilyOf(other_shard));
  EXPECT_FALSE(FamilyOf(""));
  EXPECT_FALSE(FamilyOf(std::string("\0", 1)));
  EXPECT_FALSE(FamilyOf(std::string("\0z", 2)));
  std::string ready = ReadyRowKey({7, 5, 1, 1});
  ready[6] = 10;
  EXPECT_FALSE(ParseReadyRowKey(ready));
  std::string due = DueRowKey(Family::kDue, {1, 1, 1});
  due[10] = 10;
  EXPECT_FALSE(ParseDueRowKey(Family::kDue, due));
  // A time that none of the functions above would write.
  std::string before_zero = DueRowKey(Family::kDue, {1, 1, 1});
  before_zero[2] = '\x80';
  EXPECT_FALSE(ParseDueRowKey(Family::kDue, before_zero));
  std::string ended = EndedRowKey(7, EndedClass::kDead, 1, 1);
  ended[6] = 2;
  EXPECT_FALSE(ParseEndedRowKey(ended));
}

// Each list is in the order in which a scan must give it.
TEST(Keys, OrderIsTheOrderOfService) {
  const std::vector<std::vector<std::string>> lists = {
      // By queue, higher priority first, then ready time, then sequence.
      {ReadyRowKey({1, 9, 500, 50}), ReadyRowKey({1, 5, 100, 9}), ReadyRowKey({1, 5, 100, 10}),
       ReadyRowKey({1, 5, 256, 1}), ReadyRowKey({1, 5, 1'700'000'000'000, 1}),
       ReadyRowKey({1, 0, 1, 1}), ReadyRowKey({2, 9, 1, 1}), ReadyRowKey({256, 9, 1, 1})},
      // By due time, higher priority first, then sequence, over all queues.
      {DueRowKey(Family::kDue, {99, 0, 7}), DueRowKey(Family::kDue, {100, 9, 9}),
       DueRowKey(Family::kDue, {100, 5, 1}), DueRowKey(Family::kDue, {100, 5, 300}),
       DueRowKey(Family::kDue, {100, 0, 2}), DueRowKey(Family::kDue, {1000, 9, 1})},
      {ExpiryRowKey(Family::kExpiry, 5, 9), ExpiryRowKey(Family::kExpiry, 300, 1),
       ExpiryRowKey(Family::kExpiry, 300, 256)},
      {EndedRowKey(1, EndedClass::kFinished, 300, 9),
       EndedRowKey(1, EndedClass::kFinished, 300, 10), EndedRowKey(1, EndedClass::kDead, 5, 1),
       EndedRowKey(2, EndedClass::kFinished, 5, 1)},
      {JobRowKey(Family::kJob, {1, 255}), JobRowKey(Family::kJob, {1, 256}),
       JobRowKey(Family::kJob, {2, 1}), JobRowKey(Family::kJob, {256, 0})},
      {RequestRowKey(1, "z"), RequestRowKey(2, "a"), RequestRowKey(256, "")},
  };
  for (const std::vector<std::string>& list : lists) {
    for (size_t i = 1; i < list.size(); ++i) EXPECT_LT(list[i - 1], list[i]) << i;
  }
}

TEST(Keys, ATimeBeforeZeroCountsAsZero) {
  EXPECT_EQ(ReadyRowKey({1, 5, -1, 1}), ReadyRowKey({1, 5, 0, 1}));
}

TEST(Keys, AQueueRangeHoldsThatQueueAlone) {
  for (const Family family : {Family::kJob, Family::kReady, Family::kEnded, Family::kJobId}) {
    const std::string from = QueueRangeBegin(family, 7);
    const std::string to = QueueRangeEnd(family, 7);
    const auto key = [family](uint32_t queue) {
      switch (family) {
        case Family::kReady:
          return ReadyRowKey({queue, 0, INT64_MAX, UINT64_MAX});
        case Family::kEnded:
          return EndedRowKey(queue, EndedClass::kDead, INT64_MAX, UINT64_MAX);
        case Family::kJobId:
          return JobIdKey(queue, "\xff\xff\xff\xff");
        default:
          return JobRowKey(family, {queue, UINT64_MAX});
      }
    };
    EXPECT_LT(key(6), from);
    EXPECT_TRUE(from <= key(7) && key(7) < to);
    EXPECT_LE(to, JobRowKey(family, {8, 0}));
  }
}

}  // namespace
}  // namespace stint::storage
