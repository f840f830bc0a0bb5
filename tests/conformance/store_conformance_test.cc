// What every store must do, whatever it is made of; see storage/store.h. Each test runs on each
// store.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "storage/format.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/record.pb.h"
#include "storage/rocks_store.h"
#include "storage/store.h"
#include "tests/support/temp_folder.h"

namespace stint::storage {
namespace {

using Keys = std::vector<std::string>;
using Values = std::vector<std::optional<std::string>>;

// One kind of store: how to open it empty and how to close and open it again.
struct Kind {
  std::string name;
  std::string kind;
  std::function<std::unique_ptr<Store>(const std::string& folder)> open;
  std::function<std::unique_ptr<Store>(std::unique_ptr<Store>, const std::string& folder)> reopen;
};

std::unique_ptr<Store> OpenRocks(const RocksOptions& options) {
  auto store = RocksStore::Open(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

RocksOptions Plain(const std::string& folder) {
  RocksOptions options;
  options.folder = folder;
  options.reserve_bytes = 1 << 20;
  return options;
}

// Everything is flushed and compacted all the time.
RocksOptions Small(const std::string& folder) {
  RocksOptions options = Plain(folder);
  options.block_cache_bytes = 64 << 10;
  options.write_buffer_bytes = 64 << 10;
  options.wal_bytes = 128 << 10;
  options.flush_after_keys = 40;
  options.max_open_files = 20;
  return options;
}

Kind RocksKind(const std::string& name, RocksOptions (*options)(const std::string& folder)) {
  return {name, "rocksdb",
          [options](const std::string& folder) { return OpenRocks(options(folder)); },
          [options](std::unique_ptr<Store> store, const std::string& folder) {
            store.reset();
            return OpenRocks(options(folder));
          }};
}

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

std::vector<Kind> Kinds() {
  return {{"memory", "memory", [](const std::string&) { return std::make_unique<MemoryStore>(); },
           [](std::unique_ptr<Store> store, const std::string&) -> std::unique_ptr<Store> {
             return static_cast<MemoryStore*>(store.get())->CrashCopy(0);
           }},
          RocksKind("rocksdb", Plain),
          RocksKind("rocksdb_small", Small)};
}

class StoreConformance : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    store_ = GetParam().open(folder_.path());
    ASSERT_NE(store_, nullptr);
  }

  Ticket Commit(const Batch& batch) {
    auto ticket = store_->Commit(batch, store_->epoch());
    EXPECT_TRUE(ticket.ok()) << ticket.status();
    return ticket.value_or(0);
  }

  // Commits and syncs.
  void Write(const Batch& batch) {
    const absl::Status status = store_->Sync(Commit(batch));
    EXPECT_TRUE(status.ok()) << status;
  }

  void Reopen() {
    store_ = GetParam().reopen(std::move(store_), folder_.path());
    ASSERT_NE(store_, nullptr);
  }

  std::optional<std::string> Get(const std::string& key) const {
    auto values = store_->MultiGet({key});
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? values->at(0) : std::nullopt;
  }

  // The keys a scan gives, without the row that a store may write for itself.
  Keys Scan(const std::string& from, const std::string& to, size_t limit = 1000,
            Direction direction = Direction::kForward) const {
    auto rows = store_->Scan(from, to, limit, direction);
    EXPECT_TRUE(rows.ok()) << rows.status();
    Keys keys;
    if (rows.ok()) {
      for (const Row& row : *rows) {
        if (row.key != FormatRowKey()) keys.push_back(row.key);
      }
    }
    return keys;
  }

  test::TempFolder folder_;
  std::unique_ptr<Store> store_;
};

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance, testing::ValuesIn(Kinds()),
                         [](const auto& param_info) { return param_info.param.name; });

Batch Puts(const Keys& keys) {
  Batch batch;
  for (const std::string& key : keys) batch.Put(key, absl::StrCat("v:", key));
  return batch;
}

TEST_P(StoreConformance, NamesItsKind) { EXPECT_EQ(store_->kind(), GetParam().kind); }

TEST_P(StoreConformance, AnswersInTheOrderOfTheKeysAsked) {
  Write(Puts({"b", "a", "c"}));
  auto values = store_->MultiGet({"c", "x", "a", "c", "b"});
  ASSERT_TRUE(values.ok());
  EXPECT_EQ(*values, (Values{"v:c", std::nullopt, "v:a", "v:c", "v:b"}));
  EXPECT_EQ(*store_->MultiGet({}), Values{});
}

TEST_P(StoreConformance, KeepsEmptyAndBinaryKeysAndValues) {
  const std::string binary("\x00\xff\x00k", 4);
  Batch batch;
  batch.Put("", "value of the empty key");
  batch.Put(binary, std::string("\x00", 1));
  batch.Put("empty", "");
  batch.Put("large", std::string(3 << 20, 'x'));
  Write(batch);
  Reopen();
  EXPECT_EQ(Get(""), "value of the empty key");
  EXPECT_EQ(Get(binary), std::string("\x00", 1));
  EXPECT_EQ(Get("empty"), "");
  EXPECT_EQ(Get("large"), std::string(3 << 20, 'x'));
}

TEST_P(StoreConformance, ScansInByteOrderBothWays) {
  const std::string high("\xff", 1);
  Write(Puts({"b", "a", "aa", high, "B", std::string("a\0", 2)}));
  EXPECT_EQ(Scan("", "\xff\xff"), (Keys{"B", "a", std::string("a\0", 2), "aa", "b", high}));
  EXPECT_EQ(Scan("", "\xff\xff", 1000, Direction::kBackward),
            (Keys{high, "b", "aa", std::string("a\0", 2), "a", "B"}));
}

TEST_P(StoreConformance, ScanTakesTheLowerBoundAndNotTheUpper) {
  Write(Puts({"a", "b", "c", "d"}));
  EXPECT_EQ(Scan("b", "d"), (Keys{"b", "c"}));
  EXPECT_EQ(Scan("b", "d", 1000, Direction::kBackward), (Keys{"c", "b"}));
  EXPECT_EQ(Scan("aa", "cc"), (Keys{"b", "c"}));
  EXPECT_EQ(Scan("b", "b"), Keys{});
  EXPECT_EQ(Scan("d", "b"), Keys{});
  EXPECT_EQ(Scan("x", "z"), Keys{});
}

TEST_P(StoreConformance, ScanStopsAtItsLimit) {
  Write(Puts({"a", "b", "c", "d"}));
  EXPECT_EQ(Scan("a", "z", 0), Keys{});
  EXPECT_EQ(Scan("a", "z", 2), (Keys{"a", "b"}));
  EXPECT_EQ(Scan("a", "z", 2, Direction::kBackward), (Keys{"d", "c"}));
  EXPECT_EQ(Scan("a", "z", 4), (Keys{"a", "b", "c", "d"}));
}

TEST_P(StoreConformance, ScanCrossesFamilies) {
  const Keys keys = {MetaKey("group"),
                     QueueKey(7),
                     JobRowKey(Family::kJob, {7, 1}),
                     ReadyRowKey({7, 5, 100, 1}),
                     JobRowKey(Family::kLease, {7, 2}),
                     RequestRowKey(3, "hash"),
                     "no family of ours"};
  Write(Puts(keys));
  Keys sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(Scan("", "\xff"), sorted);
  const std::string behind_meta = FamilyEnd(Family::kMeta);
  EXPECT_EQ(Scan(behind_meta, "\xff", 3), Keys(sorted.end() - 4, sorted.end() - 1));
  EXPECT_EQ(Scan(behind_meta, "\xff", 3, Direction::kBackward),
            Keys(sorted.rbegin(), sorted.rbegin() + 3));
}

TEST_P(StoreConformance, DeleteRangeCrossesFamilies) {
  const Keys keys = {MetaKey("group"), QueueKey(7), JobRowKey(Family::kJob, {7, 1}),
                     ReadyRowKey({7, 5, 100, 1}), RequestRowKey(3, "hash")};
  Write(Puts(keys));
  Batch batch;
  batch.DeleteRange(FamilyBegin(Family::kJob), FamilyEnd(Family::kQueue));
  Write(batch);
  EXPECT_EQ(Scan("", "\xff"), (Keys{ReadyRowKey({7, 5, 100, 1})}));
}

TEST_P(StoreConformance, LaterOperationsOfABatchWin) {
  Batch batch;
  batch.Put("a", "1");
  batch.Put("b", "1");
  batch.Put("c", "1");
  batch.DeleteRange("a", "c");
  batch.Put("b", "2");
  batch.Delete("c");
  batch.Put("d", "1");
  batch.Put("d", "2");
  batch.Put("e", "1");
  batch.Delete("e");
  batch.Delete("never there");
  Write(batch);
  EXPECT_EQ(Scan("", "z"), (Keys{"b", "d"}));
  EXPECT_EQ(Get("b"), "2");
  EXPECT_EQ(Get("d"), "2");
}

TEST_P(StoreConformance, DeleteRangeSparesItsEndAndEmptyRanges) {
  Write(Puts({"a", "b", "c", "d"}));
  Batch batch;
  batch.DeleteRange("b", "c");
  batch.DeleteRange("d", "d");
  batch.DeleteRange("d", "a");
  Write(batch);
  EXPECT_EQ(Scan("", "z"), (Keys{"a", "c", "d"}));
}

TEST_P(StoreConformance, ShowsNothingBeforeItsSync) {
  Write(Puts({"a"}));
  Batch change;
  change.Put("a", "new");
  change.Put("b", "new");
  const Ticket ticket = Commit(change);
  EXPECT_EQ(Get("a"), "v:a");
  EXPECT_EQ(Scan("", "z"), (Keys{"a"}));
  ASSERT_TRUE(store_->Sync(ticket).ok());
  EXPECT_EQ(Get("a"), "new");
  EXPECT_EQ(Scan("", "z"), (Keys{"a", "b"}));
}

TEST_P(StoreConformance, ASyncShowsItsCommitAndNoLaterOne) {
  Batch remove;
  remove.DeleteRange("a", "z");
  const Ticket first = Commit(Puts({"a"}));
  const Ticket second = Commit(Puts({"b"}));
  const Ticket third = Commit(remove);
  EXPECT_EQ(second, first + 1);
  EXPECT_EQ(third, first + 2);
  ASSERT_TRUE(store_->Sync(first).ok());
  EXPECT_EQ(Scan("", "z"), (Keys{"a"}));
  ASSERT_TRUE(store_->Sync(second).ok());
  EXPECT_EQ(Scan("", "z"), (Keys{"a", "b"}));
  ASSERT_TRUE(store_->Sync(third).ok());
  EXPECT_EQ(Scan("", "z"), Keys{});
}

TEST_P(StoreConformance, ASyncCoversAllEarlierCommits) {
  Commit(Puts({"a"}));
  Commit(Puts({"b"}));
  ASSERT_TRUE(store_->Sync(Commit(Puts({"c"}))).ok());
  EXPECT_EQ(Scan("", "z"), (Keys{"a", "b", "c"}));
}

TEST_P(StoreConformance, TicketsStartAtOne) { EXPECT_EQ(Commit(Puts({"a"})), 1u); }

TEST_P(StoreConformance, TakesAnEmptyBatch) {
  ASSERT_TRUE(store_->Sync(Commit(Batch())).ok());
  Write(Puts({"a"}));
  Reopen();
  EXPECT_EQ(Scan("", "z"), (Keys{"a"}));
}

TEST_P(StoreConformance, RefusesASyncOfWhatWasNotCommitted) {
  EXPECT_EQ(store_->Sync(Commit(Puts({"a"})) + 1).code(), absl::StatusCode::kInternal);
}

TEST_P(StoreConformance, RefusesAnotherEpoch) {
  const auto refused = store_->Commit(Puts({"a"}), store_->epoch() + 1);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  Write(Puts({"b"}));
  EXPECT_EQ(Scan("", "z"), (Keys{"b"}));
}

TEST_P(StoreConformance, AReopenedStoreHasAnotherEpochAndWhatWasSynced) {
  const Epoch before = store_->epoch();
  Write(Puts({"a", JobRowKey(Family::kJob, {1, 1})}));
  Batch remove;
  remove.DeleteRange("a", "b");
  remove.Put("c", "1");
  Write(remove);
  Reopen();
  EXPECT_NE(store_->epoch(), before);
  EXPECT_EQ(Get("a"), std::nullopt);
  EXPECT_EQ(Get("c"), "1");
  EXPECT_EQ(Get(JobRowKey(Family::kJob, {1, 1})),
            absl::StrCat("v:", JobRowKey(Family::kJob, {1, 1})));
}

TEST_P(StoreConformance, RecoverKeepsWhatWasSyncedUnderANewEpoch) {
  const Epoch before = store_->epoch();
  Write(Puts({"a"}));
  Commit(Puts({"b"}));
  ASSERT_TRUE(store_->Recover().ok());
  EXPECT_NE(store_->epoch(), before);
  EXPECT_EQ(Get("a"), "v:a");
  EXPECT_EQ(store_->Commit(Puts({"c"}), before).status().code(),
            absl::StatusCode::kFailedPrecondition);
  Write(Puts({"c"}));
  EXPECT_EQ(Get("c"), "v:c");
}

TEST_P(StoreConformance, SaysWhetherThereIsRoom) {
  const Space space = store_->CheckSpace();
  EXPECT_FALSE(space.low);
  EXPECT_GT(space.free_bytes, 0u);
}

// One thread commits, one syncs, two read: each read sees one whole commit, and never an older
// one than the read before it.
TEST_P(StoreConformance, ReadsBesideCommitsAndSyncsSeeWholeCommits) {
  constexpr uint64_t kCommits = 400;
  const Keys keys = {MetaKey("x"), JobRowKey(Family::kJob, {1, 1}),
                     JobRowKey(Family::kLease, {1, 1}), "of no family"};
  std::atomic<uint64_t> committed{0};
  std::atomic<bool> done{false};
  std::thread committer([&] {
    for (uint64_t i = 1; i <= kCommits; ++i) {
      Batch batch;
      for (const std::string& key : keys) batch.Put(key, absl::StrCat(i));
      Commit(batch);
      committed = i;
      committed.notify_all();
    }
  });
  std::thread syncer([&] {
    for (uint64_t synced = 0; synced < kCommits;) {
      committed.wait(synced);
      synced = committed;
      EXPECT_TRUE(store_->Sync(synced).ok());
    }
    done = true;
  });
  const auto read = [&] {
    uint64_t last = 0;
    for (bool last_time = false; !last_time;) {
      last_time = done;
      auto values = store_->MultiGet(keys);
      ASSERT_TRUE(values.ok()) << values.status();
      uint64_t seen = 0;
      if (values->at(0)) {
        ASSERT_TRUE(absl::SimpleAtoi(*values->at(0), &seen));
      }
      for (const auto& value : *values) ASSERT_EQ(value, values->at(0));
      ASSERT_GE(seen, last);
      last = seen;
    }
    EXPECT_EQ(last, kCommits);
  };
  std::thread reader(read);
  read();
  reader.join();
  committer.join();
  syncer.join();
}

// Random keys and batches, over several column families.
class RandomBatches {
 public:
  uint32_t Draw(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  std::string Key() {
    switch (Draw(5)) {
      case 0:
        return JobRowKey(Family::kJob, {Draw(3), Draw(20)});
      case 1:
        return JobRowKey(Family::kLease, {Draw(3), Draw(20)});
      case 2:
        return ReadyRowKey({Draw(3), static_cast<uint8_t>(Draw(10)), Draw(5), Draw(5)});
      case 3:
        return RequestRowKey(Draw(4), absl::StrCat(Draw(9)));
      default:
        return absl::StrCat(Draw(50));
    }
  }

  // A batch, applied to `expected` as well.
  Batch Next(std::map<std::string, std::string>* expected) {
    ++group_;
    Batch batch;
    for (uint32_t i = Draw(20); i > 0; --i) {
      const std::string first = Key();
      const uint32_t kind = Draw(6);
      const std::string end = Key();
      // Ranges not over the rows that the store itself needs.
      const bool over_meta = first < FamilyBegin(Family::kMeta) && end > FamilyBegin(Family::kMeta);
      if (kind == 0) {
        batch.Delete(first);
        expected->erase(first);
      } else if (kind == 1 && !over_meta) {
        batch.DeleteRange(first, end);
        if (first < end) {
          expected->erase(expected->lower_bound(first), expected->lower_bound(end));
        }
      } else {
        batch.Put(first, absl::StrCat(group_, "/", i));
        (*expected)[first] = absl::StrCat(group_, "/", i);
      }
    }
    record::GroupRecord record;
    record.set_group(group_);
    batch.Put(MetaKey("group"), record.SerializeAsString());
    (*expected)[MetaKey("group")] = record.SerializeAsString();
    batch.set_mark({group_, group_ - 1});
    return batch;
  }

 private:
  std::mt19937 random_{20240601};
  uint64_t group_ = 0;
};

TEST_P(StoreConformance, AgreesWithAMapOverRandomBatches) {
  RandomBatches random;
  std::map<std::string, std::string> expected;
  for (int round = 0; round < 300; ++round) {
    const Ticket ticket = Commit(random.Next(&expected));
    if (random.Draw(3) != 0) continue;
    ASSERT_TRUE(store_->Sync(ticket).ok());
    if (random.Draw(10) == 0) Reopen();

    const std::string from = random.Key();
    const std::string to = random.Draw(3) == 0 ? "\xff" : random.Key();
    std::vector<std::pair<std::string, std::string>> want;
    if (from < to) want.assign(expected.lower_bound(from), expected.lower_bound(to));
    auto rows = store_->Scan(from, to, 1000, Direction::kForward);
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::vector<std::pair<std::string, std::string>> got;
    for (const Row& row : *rows) {
      if (row.key != FormatRowKey()) got.emplace_back(row.key, row.value);
    }
    ASSERT_EQ(got, want) << "round " << round;

    Keys asked;
    Values values;
    for (int i = 0; i < 20; ++i) {
      asked.push_back(random.Key());
      const auto it = expected.find(asked.back());
      values.push_back(it == expected.end() ? std::nullopt : std::optional(it->second));
    }
    ASSERT_EQ(*store_->MultiGet(asked), values) << "round " << round;
  }
}

}  // namespace
}  // namespace stint::storage
