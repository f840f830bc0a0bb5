#include "server/engine/removed_settles.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "server/engine/limits.h"
#include "storage/job_id.h"
#include "storage/memory_store.h"
#include "storage/row_view.h"

namespace stint::engine {
namespace {

constexpr int64_t kStartMs = 1'760'000'000'000;

class RemovedSettlesTest : public ::testing::Test {
 protected:
  static record::SettleAnswer Answer(int64_t token) {
    record::SettleAnswer answer;
    answer.set_token(token);
    answer.set_kind(1);
    return answer;
  }
  void Commit(int64_t now_ms) {
    ++group_;
    removed_.FinishGroup(&tables_, group_, now_ms);
    const storage::Batch batch = rows_.Seal({group_, 0});
    const auto ticket = store_.Commit(batch, store_.epoch());
    ASSERT_TRUE(ticket.ok());
    ASSERT_TRUE(store_.Sync(*ticket).ok());
    rows_.Forget(group_);
  }
  size_t Rows() {
    return store_
        .Scan(storage::FamilyBegin(storage::Family::kRemovedSettles),
              storage::FamilyEnd(storage::Family::kRemovedSettles), SIZE_MAX,
              storage::Direction::kForward)
        ->size();
  }
  bool Knows(uint64_t sequence, int64_t token) const {
    const record::SettleAnswer* found = removed_.Find(1, storage::MakeJobId(sequence), token);
    return found != nullptr && found->token() == token;
  }

  storage::MemoryStore store_;
  storage::RowView rows_;
  storage::Tables tables_{&rows_};
  uint64_t group_ = 0;
  RemovedSettles removed_;
};

TEST_F(RemovedSettlesTest, FindsTheAnswerOfOneJob) {
  removed_.Add({1, 5}, "", Answer(70), kStartMs);
  EXPECT_TRUE(removed_.HasUnwritten());
  EXPECT_TRUE(Knows(5, 70));
  EXPECT_FALSE(Knows(6, 70));
  EXPECT_FALSE(Knows(5, 71));
  EXPECT_EQ(removed_.Find(2, storage::MakeJobId(5), 70), nullptr);
}

TEST_F(RemovedSettlesTest, AJobWithAnIdOfItsOwnIsKnownByThatAlone) {
  removed_.Add({1, 5}, "order-7", Answer(70), kStartMs);
  Commit(kStartMs);
  removed_ = RemovedSettles();
  ASSERT_TRUE(removed_.Load(store_, kStartMs).ok());
  ASSERT_NE(removed_.Find(1, "order-7", 70), nullptr);
  EXPECT_EQ(removed_.Find(1, "order-8", 70), nullptr);
  EXPECT_FALSE(Knows(5, 70));
}

TEST_F(RemovedSettlesTest, OneRowForEachGroupThatRemovedAnything) {
  removed_.Add({1, 5}, "", Answer(70), kStartMs);
  removed_.Add({1, 6}, "", Answer(71), kStartMs);
  Commit(kStartMs);
  EXPECT_FALSE(removed_.HasUnwritten());
  Commit(kStartMs);
  EXPECT_EQ(Rows(), 1u);
}

TEST_F(RemovedSettlesTest, KeepsForTenMinutesAndDropsRowsLater) {
  removed_.Add({1, 5}, "", Answer(70), kStartMs);
  Commit(kStartMs);
  removed_.DropOld(&tables_, kStartMs + kRemovedSettleWindowMs - 1);
  EXPECT_TRUE(Knows(5, 70));
  removed_.DropOld(&tables_, kStartMs + kRemovedSettleWindowMs);
  EXPECT_FALSE(Knows(5, 70));
  EXPECT_EQ(Rows(), 1u);
  ASSERT_LT(removed_.NextMs(), kStartMs + 2 * kRemovedSettleWindowMs);
  removed_.DropOld(&tables_, removed_.NextMs());
  Commit(kStartMs);
  EXPECT_EQ(Rows(), 0u);
  EXPECT_EQ(removed_.NextMs(), INT64_MAX);
}

TEST_F(RemovedSettlesTest, ARestartReadsThemBack) {
  removed_.Add({1, 5}, "", Answer(70), kStartMs);
  Commit(kStartMs);
  removed_.Add({1, 6}, "", Answer(71), kStartMs + 6 * kMinuteMs);
  Commit(kStartMs + 6 * kMinuteMs);
  removed_ = RemovedSettles();
  ASSERT_TRUE(removed_.Load(store_, kStartMs + 11 * kMinuteMs).ok());
  EXPECT_FALSE(Knows(5, 70));
  EXPECT_TRUE(Knows(6, 71));
  removed_.DropOld(&tables_, kStartMs + 40 * kMinuteMs);
  Commit(kStartMs + 40 * kMinuteMs);
  EXPECT_EQ(Rows(), 0u);
}

TEST_F(RemovedSettlesTest, KeepsTheNewest) {
  removed_ = RemovedSettles(1'000);
  for (uint64_t i = 1; i <= 1'001; ++i) {
    removed_.Add({1, i}, "", Answer(static_cast<int64_t>(i)), kStartMs);
  }
  EXPECT_FALSE(Knows(1, 1));
  EXPECT_TRUE(Knows(2, 2));
  EXPECT_TRUE(Knows(1'001, 1'001));
}

TEST_F(RemovedSettlesTest, ARowThatCannotBeReadIsSaid) {
  rows_.Put(storage::RemovedSettlesKey(1, 1), "\xff");
  Commit(kStartMs);
  EXPECT_EQ(removed_.Load(store_, kStartMs).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace stint::engine
