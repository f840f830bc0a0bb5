// Rows and index rows change together, and readers beside the broker see what they say.
#include "storage/tables.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/job_id.h"
#include "storage/memory_store.h"
#include "storage/reader.h"
#include "storage/records.h"

namespace stint::storage {
namespace {

constexpr uint32_t kQueueId = 3;

class TablesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    queue_.id = kQueueId;
    queue_.record.set_name("q");
    tables_.PutQueueName("q", kQueueId);
    tables_.PutQueue(kQueueId, queue_.record);
    tables_.PutCounters(kQueueId, queue_.counters);
    Commit();
  }
  void Commit() {
    const auto ticket = store_.Commit(rows_.Seal({++group_, 0}), store_.epoch());
    ASSERT_TRUE(ticket.ok());
    ASSERT_TRUE(store_.Sync(*ticket).ok());
    rows_.Forget(group_);
    rows_.BeginGroup();
  }
  static record::JobRecord Record(const std::string& job_id = "") {
    record::JobRecord record;
    record.set_job_id(job_id);
    record.set_priority(5);
    record.set_create_ms(1'000);
    return record;
  }
  // Adds a job as enqueued and returns its state.
  record::JobState Insert(uint64_t sequence, record::JobRecord* record,
                          const std::string& payload = "") {
    const record::JobState state = FreshState(*record, sequence);
    tables_.InsertJob({kQueueId, sequence}, record, payload, state);
    Commit();
    return state;
  }
  std::set<std::string> KeysIn(Family family) {
    std::set<std::string> keys;
    const auto rows =
        store_.Scan(FamilyBegin(family), FamilyEnd(family), SIZE_MAX, Direction::kForward);
    for (const Row& row : *rows) keys.insert(row.key);
    return keys;
  }
  size_t RowsOfJobs() {
    size_t rows = 0;
    for (const Family family :
         {Family::kJob, Family::kPayload, Family::kState, Family::kLease, Family::kResult,
          Family::kJobId, Family::kReady, Family::kDue, Family::kDueWall, Family::kExpiry,
          Family::kExpiryWall, Family::kEnded}) {
      rows += KeysIn(family).size();
    }
    return rows;
  }
  using Set = std::set<std::string>;

  MemoryStore store_;
  RowView rows_;
  Tables tables_{&rows_};
  StoredQueue queue_;
  uint64_t group_ = 0;
};

TEST_F(TablesTest, AJobAsEnqueuedIsARecordAndAPlaceInTheReadyOrder) {
  record::JobRecord record = Record();
  Insert(7, &record, "payload");
  EXPECT_EQ(KeysIn(Family::kJob), (Set{JobRowKey(Family::kJob, {kQueueId, 7})}));
  EXPECT_EQ(KeysIn(Family::kReady), (Set{ReadyRowKey({kQueueId, 5, 1'000, 7})}));
  EXPECT_EQ(RowsOfJobs(), 2u);
}

TEST_F(TablesTest, ALargePayloadAndAnOwnIdHaveRowsOfTheirOwn) {
  record::JobRecord record = Record("order-7");
  Insert(7, &record, std::string(kInlinePayloadBytes + 1, 'x'));
  EXPECT_TRUE(record.payload_apart());
  EXPECT_EQ(KeysIn(Family::kPayload).size(), 1u);
  EXPECT_EQ(KeysIn(Family::kJobId), (Set{JobIdKey(kQueueId, "order-7")}));
  record::JobRecord small = Record();
  Insert(8, &small, std::string(kInlinePayloadBytes, 'x'));
  EXPECT_FALSE(small.payload_apart());
  EXPECT_EQ(KeysIn(Family::kPayload).size(), 1u);
}

TEST_F(TablesTest, EachStateHasItsIndexRowsAndLeavesNoneBehind) {
  record::JobRecord record = Record("order-7");
  record.set_expiry_ms(90'000);
  record::JobState before = Insert(7, &record, std::string(10'000, 'x'));
  const JobKey key{kQueueId, 7};
  const Set expiry = {ExpiryRowKey(Family::kExpiry, 90'000, 7)};
  EXPECT_EQ(KeysIn(Family::kExpiry), expiry);

  const auto change = [&](const record::JobState& after) {
    tables_.ChangeJob(key, record, before, after);
    Commit();
    before = after;
  };
  record::JobState state = before;
  state.set_entered(8);
  state.set_state(kStateDelayed);
  state.set_due_ms(2'000);
  change(state);
  EXPECT_EQ(KeysIn(Family::kDue), (Set{DueRowKey(Family::kDue, {2'000, 5, 7})}));
  EXPECT_EQ(KeysIn(Family::kState).size(), 1u);
  EXPECT_EQ(KeysIn(Family::kExpiry), expiry);
  EXPECT_TRUE(KeysIn(Family::kReady).empty());

  state.set_entered(9);
  state.clear_due_ms();
  state.set_due_wall_ms(3'000);
  state.set_priority(9);
  change(state);
  EXPECT_EQ(KeysIn(Family::kDueWall), (Set{DueRowKey(Family::kDueWall, {3'000, 9, 7})}));
  EXPECT_TRUE(KeysIn(Family::kDue).empty());

  state.set_entered(10);
  state.clear_due_wall_ms();
  state.set_state(kStateReady);
  state.set_ready_ms(4'000);
  change(state);
  EXPECT_EQ(KeysIn(Family::kReady), (Set{ReadyRowKey({kQueueId, 9, 4'000, 7})}));
  EXPECT_TRUE(KeysIn(Family::kDueWall).empty());

  state.set_entered(11);
  state.set_state(kStateLeased);
  state.set_started(true);
  change(state);
  EXPECT_EQ(KeysIn(Family::kLease), (Set{JobRowKey(Family::kLease, key)}));
  EXPECT_TRUE(KeysIn(Family::kState).empty());
  EXPECT_TRUE(KeysIn(Family::kReady).empty());
  EXPECT_TRUE(KeysIn(Family::kExpiry).empty());

  state.set_entered(12);
  state.set_state(kStateCompleted);
  state.set_end_ms(5'000);
  state.set_has_result(true);
  tables_.PutResult(key, "result");
  change(state);
  EXPECT_EQ(KeysIn(Family::kEnded), (Set{EndedRowKey(kQueueId, EndedClass::kFinished, 5'000, 7)}));
  EXPECT_TRUE(KeysIn(Family::kLease).empty());
  EXPECT_EQ(KeysIn(Family::kResult).size(), 1u);

  tables_.RemoveJob(key, record, state);
  Commit();
  EXPECT_EQ(RowsOfJobs(), 0u);
}

TEST_F(TablesTest, ADeadJobIsInTheOtherHistory) {
  record::JobRecord record = Record();
  record::JobState before = Insert(7, &record);
  record::JobState after = before;
  after.set_entered(8);
  after.set_state(kStateDead);
  after.set_end_ms(5'000);
  tables_.ChangeJob({kQueueId, 7}, record, before, after);
  Commit();
  EXPECT_EQ(KeysIn(Family::kEnded), (Set{EndedRowKey(kQueueId, EndedClass::kDead, 5'000, 7)}));
}

TEST_F(TablesTest, WhatIsNotFetchedIsUnknownAndWhatCannotBeReadIsCorrupt) {
  record::JobRecord record = Record("order-7");
  Insert(7, &record);
  record::JobRecord read;
  EXPECT_EQ(tables_.JobRecord({kQueueId, 7}, &read), Read::kUnknown);
  EXPECT_EQ(tables_.JobRecord({kQueueId, 8}, &read), Read::kUnknown);
  uint64_t sequence = 0;
  EXPECT_EQ(tables_.Sequence(kQueueId, "order-7", &sequence), Read::kUnknown);
  ASSERT_TRUE(rows_.Fetch(store_).ok());
  EXPECT_EQ(tables_.JobRecord({kQueueId, 7}, &read), Read::kFound);
  EXPECT_EQ(tables_.JobRecord({kQueueId, 8}, &read), Read::kAbsent);
  EXPECT_EQ(tables_.Sequence(kQueueId, "order-7", &sequence), Read::kFound);
  EXPECT_EQ(sequence, 7u);
  rows_.Put(JobRowKey(Family::kJob, {kQueueId, 7}), "\xff\xff");
  rows_.Put(JobIdKey(kQueueId, "order-7"), "short");
  EXPECT_EQ(tables_.JobRecord({kQueueId, 7}, &read), Read::kCorrupt);
  EXPECT_EQ(tables_.Sequence(kQueueId, "order-7", &sequence), Read::kCorrupt);
}

TEST_F(TablesTest, NumbersAreReadBackAndNothingElseIs) {
  for (const uint64_t number : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 40, UINT64_MAX}) {
    uint64_t read = 1;
    EXPECT_TRUE(DecodeNumber(EncodeNumber(number), &read));
    EXPECT_EQ(read, number);
    EXPECT_FALSE(DecodeNumber(EncodeNumber(number) + "x", &read));
  }
}

TEST_F(TablesTest, ARemovedQueueTakesItsRowsAndLeavesTheNeighbours) {
  record::JobRecord record = Record("order-7");
  Insert(7, &record, std::string(10'000, 'x'));
  record::JobRecord other = Record("order-7");
  tables_.InsertJob({kQueueId + 1, 8}, &other, "", FreshState(other, 8));
  tables_.InsertJob({kQueueId - 1, 9}, &other, "", FreshState(other, 9));
  Commit();
  tables_.RemoveQueue(kQueueId, "q");
  Commit();
  EXPECT_EQ(KeysIn(Family::kJob).size(), 2u);
  EXPECT_EQ(KeysIn(Family::kJobId).size(), 2u);
  EXPECT_EQ(KeysIn(Family::kReady).size(), 2u);
  EXPECT_TRUE(KeysIn(Family::kPayload).empty());
  EXPECT_TRUE(KeysIn(Family::kQueueName).empty());
  EXPECT_FALSE(Reader(&store_).FindQueue("q")->has_value());
}

// --- Records ----------------------------------------------------------------------------------

TEST(RecordsTest, AStateIsFreshUntilItsFirstChange) {
  record::JobRecord record;
  record.set_priority(7);
  record.set_create_ms(1'000);
  record::JobState state = FreshState(record, 42);
  EXPECT_TRUE(IsFresh(state, 42));
  EXPECT_EQ(state.priority(), 7);
  EXPECT_EQ(state.ready_ms(), 1'000);
  EXPECT_EQ(StateFamily(state, 42), std::nullopt);
  state.set_entered(43);
  EXPECT_FALSE(IsFresh(state, 42));
  EXPECT_EQ(StateFamily(state, 42), Family::kState);
  state.set_state(kStateLeased);
  EXPECT_EQ(StateFamily(state, 42), Family::kLease);
}

TEST(RecordsTest, APurgeTakesWhatWaitsAtOrUnderItsBound) {
  record::QueueRecord queue;
  record::JobState state;
  state.set_entered(10);
  for (int32_t number = kStateDelayed; number <= kStateDead; ++number) {
    state.set_state(number);
    queue.set_purge_bound(0);
    EXPECT_FALSE(IsPurged(state, queue));
    queue.set_purge_bound(9);
    EXPECT_FALSE(IsPurged(state, queue));
    queue.set_purge_bound(10);
    EXPECT_EQ(IsPurged(state, queue), number <= kStateReady);
  }
}

// --- The reader -------------------------------------------------------------------------------

class ReaderTest : public TablesTest {
 protected:
  JobPage List(uint64_t from, size_t limit, size_t max_examined = 10'000) {
    auto page = reader_.ListJobs(queue_, from, limit, max_examined, true, matches_);
    EXPECT_TRUE(page.ok()) << page.status();
    return page.ok() ? *std::move(page) : JobPage();
  }
  static std::vector<uint64_t> SequencesOf(const JobPage& page) {
    std::vector<uint64_t> sequences;
    for (const StoredJob& job : page.jobs) sequences.push_back(job.key.sequence);
    return sequences;
  }

  std::function<bool(const StoredJob&)> matches_ = [](const StoredJob&) { return true; };
  Reader reader_{&store_};
};

TEST_F(ReaderTest, FindsAJobByBothKindsOfId) {
  record::JobRecord plain = Record();
  Insert(7, &plain, "seven");
  record::JobRecord named = Record("order-8");
  Insert(8, &named, std::string(10'000, '8'));
  const auto seven = *reader_.FindJob(queue_, MakeJobId(7), true);
  ASSERT_TRUE(seven.has_value());
  EXPECT_EQ(seven->record.payload(), "seven");
  const auto eight = *reader_.FindJob(queue_, "order-8", true);
  ASSERT_TRUE(eight.has_value());
  EXPECT_EQ(eight->record.payload().size(), 10'000u);
  EXPECT_TRUE(reader_.FindJob(queue_, "order-8", false).value()->record.payload().empty());
  // A job with an id of its own has no other name.
  EXPECT_FALSE(reader_.FindJob(queue_, MakeJobId(8), true)->has_value());
  EXPECT_FALSE(reader_.FindJob(queue_, MakeJobId(9), true)->has_value());
  EXPECT_FALSE(reader_.FindJob(queue_, "order-9", true)->has_value());
}

TEST_F(ReaderTest, PagesAreExact) {
  std::vector<uint64_t> all;
  for (uint64_t sequence = 1; sequence <= 700; ++sequence) {
    record::JobRecord record = Record();
    Insert(sequence, &record);
    all.push_back(sequence);
  }
  for (const size_t limit : {1u, 50u, 256u, 350u, 699u, 700u, 701u}) {
    std::vector<uint64_t> seen;
    uint64_t from = 0;
    do {
      const JobPage page = List(from, limit);
      EXPECT_LE(page.jobs.size(), limit);
      for (const uint64_t sequence : SequencesOf(page)) seen.push_back(sequence);
      from = page.next_sequence;
    } while (from != 0);
    EXPECT_EQ(seen, all) << limit;
  }
  EXPECT_EQ(List(0, 700).next_sequence, 0u);
}

TEST_F(ReaderTest, APageExaminesNoMoreThanItMay) {
  for (uint64_t sequence = 1; sequence <= 600; ++sequence) {
    record::JobRecord record = Record();
    Insert(sequence, &record);
  }
  matches_ = [](const StoredJob& job) { return job.key.sequence == 500; };
  JobPage page = List(0, 10, 300);
  EXPECT_TRUE(page.jobs.empty());
  EXPECT_EQ(page.next_sequence, 301u);
  page = List(page.next_sequence, 10, 300);
  EXPECT_EQ(SequencesOf(page), (std::vector<uint64_t>{500}));
  EXPECT_EQ(page.next_sequence, 0u);
}

TEST_F(ReaderTest, PurgedJobsAreNotShownThoughTheirRowsAreThere) {
  record::JobRecord record = Record("order-7");
  Insert(7, &record);
  record::JobRecord later = Record();
  Insert(9, &later);
  queue_.record.set_purge_bound(8);
  EXPECT_EQ(SequencesOf(List(0, 10)), (std::vector<uint64_t>{9}));
  EXPECT_FALSE(reader_.FindJob(queue_, "order-7", true)->has_value());
}

TEST_F(ReaderTest, ARecordThatCannotBeReadIsSaid) {
  record::JobRecord record = Record();
  Insert(7, &record);
  rows_.Put(JobRowKey(Family::kState, {kQueueId, 7}), "\xff");
  Commit();
  EXPECT_EQ(reader_.FindJob(queue_, MakeJobId(7), true).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(reader_.ListJobs(queue_, 0, 10, 10, true, matches_).status().code(),
            absl::StatusCode::kDataLoss);
}

TEST_F(ReaderTest, ListsQueuesByName) {
  uint32_t id = 10;
  for (const std::string name : {"email.a", "email.b", "email.c", "email-", "sms"}) {
    record::QueueRecord queue;
    queue.set_name(name);
    tables_.PutQueueName(name, ++id);
    tables_.PutQueue(id, queue);
  }
  Commit();
  const auto names = [](const absl::StatusOr<QueuePage>& page) {
    std::vector<std::string> list;
    for (const StoredQueue& queue : page->queues) list.push_back(queue.record.name());
    return list;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(reader_.ListQueues("email.", "", 10)), (Names{"email.a", "email.b", "email.c"}));
  const auto page = reader_.ListQueues("", "", 4);
  EXPECT_EQ(names(page), (Names{"email-", "email.a", "email.b", "email.c"}));
  EXPECT_EQ(page->next_name, "email.c");
  const auto rest = reader_.ListQueues("", page->next_name, 4);
  EXPECT_EQ(names(rest), (Names{"q", "sms"}));
  EXPECT_TRUE(rest->next_name.empty());
}

}  // namespace
}  // namespace stint::storage
