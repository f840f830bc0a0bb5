#include "server/engine/request_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "storage/memory_store.h"
#include "storage/row_view.h"

namespace stint::engine {
namespace {

using Seen = RequestMemory::Seen;

constexpr int64_t kStartMs = 1'760'000'000'000;

// A memory over a store that is at rest after each step.
class RequestMemoryTest : public ::testing::Test {
 protected:
  static RequestKey Key(const std::string& id, uint64_t fingerprint = 1,
                        const std::string& identity = "") {
    return {identity, id, fingerprint};
  }

  Seen Find(const RequestKey& key, ReplyBody* answer = nullptr) {
    ReplyBody ignored;
    if (answer == nullptr) answer = &ignored;
    rows_.BeginGroup();
    Seen seen = memory_.Find(&tables_, key, answer);
    if (seen != Seen::kUnknown) return seen;
    EXPECT_TRUE(rows_.Fetch(store_).ok());
    return memory_.Find(&tables_, key, answer);
  }

  void Remember(const RequestKey& key, int64_t now_ms, int64_t purged = 1) {
    memory_.Remember(&tables_, key, PurgeReply{purged}, now_ms);
    Commit();
  }

  void Commit() {
    memory_.Store(&(group_row_ = record::GroupRecord()));
    const storage::Batch batch = rows_.Seal({++group_, 0});
    const auto ticket = store_.Commit(batch, store_.epoch());
    ASSERT_TRUE(ticket.ok());
    ASSERT_TRUE(store_.Sync(*ticket).ok());
    rows_.Forget(group_);
  }

  size_t Rows() {
    return store_
        .Scan(storage::FamilyBegin(storage::Family::kRequest),
              storage::FamilyEnd(storage::Family::kRequest), SIZE_MAX, storage::Direction::kForward)
        ->size();
  }

  void DropOld(int64_t now_ms) {
    memory_.DropOld(&tables_, now_ms);
    Commit();
  }

  storage::MemoryStore store_;
  storage::RowView rows_;
  storage::Tables tables_{&rows_};
  uint64_t group_ = 0;
  record::GroupRecord group_row_;
  RequestMemory memory_{kHourMs, 100};
};

TEST_F(RequestMemoryTest, RepeatsTheAnswerToTheSameCallOnly) {
  EXPECT_EQ(Find(Key("a")), Seen::kNew);
  Remember(Key("a"), kStartMs, 7);
  ReplyBody answer;
  EXPECT_EQ(Find(Key("a"), &answer), Seen::kRepeated);
  EXPECT_EQ(std::get<PurgeReply>(answer).purged, 7);
  EXPECT_EQ(Find(Key("a", 2)), Seen::kReused);
  EXPECT_EQ(Find(Key("b")), Seen::kNew);
  EXPECT_EQ(Find(Key("a", 1, "somebody else")), Seen::kNew);
}

TEST_F(RequestMemoryTest, IdentityAndIdAreNotJoined) {
  Remember(Key("bc", 1, "a"), kStartMs);
  EXPECT_EQ(Find(Key("c", 1, "ab")), Seen::kNew);
}

TEST_F(RequestMemoryTest, ACallWithoutAnIdIsNeverARepeat) {
  Remember(Key(""), kStartMs);
  EXPECT_EQ(Find(Key("")), Seen::kNew);
  EXPECT_EQ(Rows(), 0u);
}

TEST_F(RequestMemoryTest, KeepsAnAnswerForTheWindowAtLeastAndNotMuchLonger) {
  Remember(Key("early"), kStartMs);
  Remember(Key("late"), kStartMs + kHourMs / 2 - 1);
  Remember(Key("next bucket"), kStartMs + kHourMs / 2);
  DropOld(kStartMs + kHourMs);
  EXPECT_EQ(Find(Key("early")), Seen::kRepeated);
  DropOld(kStartMs + kHourMs + kHourMs / 2 - 1);
  EXPECT_EQ(Find(Key("late")), Seen::kRepeated);
  EXPECT_EQ(memory_.NextMs(), kStartMs + kHourMs + kHourMs / 2);
  DropOld(kStartMs + kHourMs + kHourMs / 2);
  EXPECT_EQ(Find(Key("early")), Seen::kNew);
  EXPECT_EQ(Find(Key("late")), Seen::kNew);
  EXPECT_EQ(Find(Key("next bucket")), Seen::kRepeated);
  EXPECT_EQ(Rows(), 1u);
}

TEST_F(RequestMemoryTest, AnIdCanBeUsedAgainWhenItsAnswerIsForgotten) {
  Remember(Key("a"), kStartMs, 1);
  DropOld(kStartMs + 2 * kHourMs);
  EXPECT_EQ(Find(Key("a", 2)), Seen::kNew);
  Remember(Key("a", 2), kStartMs + 2 * kHourMs, 2);
  EXPECT_EQ(Find(Key("a", 2)), Seen::kRepeated);
}

TEST_F(RequestMemoryTest, KeepsNoMoreThanItsNumber) {
  for (int i = 0; i < 1'000; ++i) {
    const int64_t now_ms = kStartMs + i * kSecondMs;
    Remember(Key(absl::StrCat("id-", i)), now_ms);
    if (memory_.NextMs() <= now_ms) DropOld(now_ms);
    EXPECT_LE(Rows(), 126u);  // the number and one bucket
  }
  const int64_t now_ms = kStartMs + 1'000 * kSecondMs;
  EXPECT_EQ(Find(Key("id-999")), Seen::kRepeated);
  EXPECT_EQ(Find(Key("id-925")), Seen::kRepeated);
  EXPECT_EQ(Find(Key("id-800")), Seen::kNew);
  // And says so.
  EXPECT_LT(memory_.WindowInForceMs(now_ms), 126 * kSecondMs);
  EXPECT_GE(memory_.WindowInForceMs(now_ms), 75 * kSecondMs);
}

TEST_F(RequestMemoryTest, TheWindowInForceIsTheWindowUntilTheNumberIsReached) {
  EXPECT_EQ(memory_.WindowInForceMs(kStartMs), kHourMs);
  Remember(Key("a"), kStartMs);
  DropOld(kStartMs + 2 * kHourMs);
  EXPECT_EQ(memory_.WindowInForceMs(kStartMs + 2 * kHourMs), kHourMs);
}

TEST_F(RequestMemoryTest, ARestartForgetsNothingAndLosesNoBucket) {
  Remember(Key("a"), kStartMs);
  Remember(Key("b"), kStartMs + kHourMs / 2);
  RequestMemory loaded(kHourMs);
  const int64_t now_ms = kStartMs + kHourMs;
  loaded.Load(group_row_, now_ms);
  memory_ = loaded;
  EXPECT_EQ(Find(Key("a")), Seen::kRepeated);
  EXPECT_EQ(Find(Key("b")), Seen::kRepeated);
  Remember(Key("c"), now_ms + 500);
  EXPECT_EQ(Find(Key("c")), Seen::kRepeated);
  // Every bucket of the last run ends at the latest with it.
  DropOld(now_ms + kHourMs);
  EXPECT_EQ(Find(Key("b")), Seen::kNew);
  EXPECT_EQ(Find(Key("c")), Seen::kRepeated);
  EXPECT_EQ(Rows(), 1u);
}

TEST_F(RequestMemoryTest, AChangedWindowCountsFromTheNextStart) {
  Remember(Key("a"), kStartMs);
  RequestMemory longer(4 * kHourMs);
  longer.Load(group_row_, kStartMs + kSecondMs);
  memory_ = longer;
  DropOld(kStartMs + 3 * kHourMs);
  EXPECT_EQ(Find(Key("a")), Seen::kRepeated);
  RequestMemory shorter(kMinuteMs);
  shorter.Load(group_row_, kStartMs + 3 * kHourMs);
  memory_ = shorter;
  DropOld(kStartMs + 3 * kHourMs + kMinuteMs);
  EXPECT_EQ(Find(Key("a")), Seen::kNew);
  EXPECT_EQ(Rows(), 0u);
}

TEST_F(RequestMemoryTest, AnAnswerThatCannotBeReadIsSaid) {
  Remember(Key("a"), kStartMs);
  const auto rows =
      *store_.Scan(storage::FamilyBegin(storage::Family::kRequest),
                   storage::FamilyEnd(storage::Family::kRequest), 1, storage::Direction::kForward);
  rows_.Put(rows.at(0).key, "\xff\xff\xff");
  Commit();
  EXPECT_EQ(Find(Key("a")), Seen::kCorrupt);
}

}  // namespace
}  // namespace stint::engine
