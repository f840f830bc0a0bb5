// Every row of a store that is full of all sorts is taken away, spoiled and moved in turn, and
// the check says so each time.
#include "storage/fsck.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/tables.h"
#include "tests/support/case_fixture.h"

namespace stint::testing {
namespace {

using storage::Family;
using storage::Row;

class FsckTest : public ::testing::Test {
 protected:
  // Jobs in every state, with every kind of row.
  void SetUp() override {
    engine::NewJob delayed = BrokerHarness::Job();
    delayed.delay_ms = 60'000;
    engine::NewJob at = BrokerHarness::Job();
    at.due_wall_ms = broker_.clock().wall_ms + 60'000;
    at.expire_after_ms = 3'600'000;
    engine::NewJob named = BrokerHarness::Job(std::string(5'000, 'x'));
    named.record.set_job_id("own");
    named.record.set_expiry_wall_ms(broker_.clock().wall_ms + 3'600'000);
    engine::EnqueueCommand enqueue{"q", {delayed, at, named}, {"", "once", 7}};
    ASSERT_TRUE(broker_.Call(std::move(enqueue)).status.ok());
    for (int i = 0; i < 5; ++i) broker_.Enqueue("other");
    broker_.Complete(broker_.Lease("other").at(0), "done");
    broker_.Fail(broker_.Lease("other").at(0), std::nullopt, true);
    broker_.Fail(broker_.Lease("other").at(0), 0);
    broker_.Fail(broker_.Lease("other").at(0), 5'000);
    ASSERT_EQ(broker_.Lease("other").size(), 1U);
    // A job whose settle outlives it.
    record::QueueSettings keeps_nothing;
    keeps_nothing.mutable_retention()->set_finished_count(0);
    ASSERT_TRUE(broker_.Call(engine::CreateQueueCommand{"brief", keeps_nothing, {}}).status.ok());
    broker_.Enqueue("brief");
    broker_.Complete(broker_.Lease("brief").at(0));
    broker_.Enqueue("brief");
    broker_.Advance(1'000);
    rows_ = *broker_.store().Scan(std::string(1, '\0'), std::string(1, '\1'), 10'000,
                                  storage::Direction::kForward);
  }

  static storage::FsckReport CheckRows(const std::vector<Row>& rows,
                                       storage::FsckOptions options = {}) {
    storage::MemoryStore store;
    storage::Batch batch;
    for (const Row& row : rows) batch.Put(row.key, row.value);
    const auto ticket = store.Commit(batch, store.epoch());
    EXPECT_TRUE(ticket.ok() && store.Sync(*ticket).ok());
    auto report = storage::Fsck(store, options);
    EXPECT_TRUE(report.ok());
    return *std::move(report);
  }

  // Answers that are kept to be repeated: nothing says that there must be one.
  static bool MayBeMissing(const Row& row) {
    const auto family = storage::FamilyOf(row.key);
    return family == Family::kRequest || family == Family::kRemovedSettles;
  }

  BrokerHarness broker_;
  std::vector<Row> rows_;
};

TEST_F(FsckTest, ASoundStoreHasNoFindings) {
  size_t seen = 0;
  storage::FsckOptions options;
  options.on_job = [&](const storage::JobKey&, const record::JobRecord&, const record::JobState&) {
    ++seen;
  };
  const storage::FsckReport report = CheckRows(rows_, options);
  EXPECT_EQ(report.finding_count, 0U)
      << (report.findings.empty() ? "" : report.findings.front().what);
  EXPECT_EQ(report.rows, rows_.size());
  EXPECT_EQ(report.jobs, 9U);
  EXPECT_EQ(seen, 9U);
  EXPECT_EQ(report.leases, 1U);
  EXPECT_EQ(report.queues.size(), 3U);
  std::string families;
  for (const Row& row : rows_) {
    if (families.find(row.key[1]) == std::string::npos) families += row.key[1];
  }
  // Each kind of row of a job is there to be tried; FORMAT.md lists them.
  for (const char family : std::string("mqncjpsluirdweftov")) {
    EXPECT_NE(families.find(family), std::string::npos) << family;
  }
}

TEST_F(FsckTest, EveryRowThatIsMissingIsFound) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (MayBeMissing(rows_[i])) continue;
    std::vector<Row> rows = rows_;
    rows.erase(rows.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_GT(CheckRows(rows).finding_count, 0U) << absl::BytesToHexString(rows_[i].key);
  }
}

TEST_F(FsckTest, EveryValueThatCannotBeReadIsFound) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    const auto family = storage::FamilyOf(rows_[i].key);
    // Bytes of the caller, and rows that say all in their key.
    if (family == Family::kPayload || family == Family::kResult || family == Family::kEnded)
      continue;
    std::vector<Row> rows = rows_;
    rows[i].value = "\xff\xff";
    EXPECT_GT(CheckRows(rows).finding_count, 0U) << absl::BytesToHexString(rows_[i].key);
  }
}

TEST_F(FsckTest, EveryRowOfAnotherJobIsFound) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (MayBeMissing(rows_[i]) || rows_[i].key[1] == static_cast<char>(Family::kMeta)) continue;
    std::vector<Row> rows = rows_;
    Row stray = rows_[i];
    stray.key.back() = static_cast<char>(stray.key.back() + 100);
    rows.push_back(stray);
    EXPECT_GT(CheckRows(rows).finding_count, 0U) << absl::BytesToHexString(stray.key);
  }
}

TEST_F(FsckTest, AKeyOfNoKindIsFound) {
  std::vector<Row> rows = rows_;
  rows.push_back({std::string("\0?x", 3), ""});
  const storage::FsckReport report = CheckRows(rows);
  ASSERT_EQ(report.finding_count, 1U);
  EXPECT_EQ(report.findings[0].key_hex, "003f78");
  EXPECT_EQ(report.findings[0].what, "a key of no known kind");
}

TEST_F(FsckTest, SizesThatNoRowHasAreFoundAndNotCounted) {
  for (Row& row : rows_) {
    record::JobRecord record;
    if (storage::FamilyOf(row.key) != Family::kJob) continue;
    ASSERT_TRUE(record.ParseFromString(row.value));
    record.set_size_bytes(INT64_MAX);
    row.value = record.SerializeAsString();
  }
  const storage::FsckReport report = CheckRows(rows_);
  EXPECT_GE(report.finding_count, 9U);
  EXPECT_EQ(report.jobs, 0U);
}

TEST_F(FsckTest, NumbersFromTheFutureAreFound) {
  for (Row& row : rows_) {
    record::GroupRecord group;
    if (row.key != storage::MetaKey(storage::kGroupRow)) continue;
    ASSERT_TRUE(group.ParseFromString(row.value));
    group.set_last_token(1);
    group.set_next_sequence(1);
    group.set_next_queue(1);
    row.value = group.SerializeAsString();
  }
  storage::FsckOptions few;
  few.max_findings = 2;
  const storage::FsckReport report = CheckRows(rows_, few);
  EXPECT_EQ(report.findings.size(), 2U);
  // Three queues, nine jobs, and the token of the one lease.
  EXPECT_EQ(report.finding_count, 13U);
}

}  // namespace
}  // namespace stint::testing
