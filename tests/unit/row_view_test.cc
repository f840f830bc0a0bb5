#include "storage/row_view.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/memory_store.h"

namespace stint::storage {
namespace {

// A view over a store, both told apart from what a plain map says.
class RowViewTest : public ::testing::Test {
 protected:
  // The value, fetched if need be; "" for none.
  std::string Get(const std::string& key) {
    RowView::Lookup found = rows_.Get(key);
    if (!found.known) {
      EXPECT_TRUE(rows_.Fetch(store_).ok());
      found = rows_.Get(key);
      EXPECT_TRUE(found.known);
    }
    return found.value.has_value() ? std::string(*found.value) : "";
  }

  RowView::Range Scan(const std::string& from, const std::string& to, size_t limit) {
    RowView::Range range = rows_.Scan(from, to, limit);
    if (range.known) return range;
    EXPECT_TRUE(rows_.Fetch(store_).ok());
    range = rows_.Scan(from, to, limit);
    EXPECT_TRUE(range.known);
    return range;
  }

  static std::vector<std::string> KeysOf(const RowView::Range& range) {
    std::vector<std::string> keys;
    for (const Row& row : range.rows) keys.push_back(row.key);
    return keys;
  }
  using Keys = std::vector<std::string>;

  void Commit() {
    const Batch batch = rows_.Seal({++group_, 0});
    const auto ticket = store_.Commit(batch, store_.epoch());
    ASSERT_TRUE(ticket.ok());
    ticket_ = *ticket;
  }
  void Sync() {
    ASSERT_TRUE(store_.Sync(ticket_).ok());
    rows_.Forget(group_);
  }
  void PutAll(const Keys& keys) {
    for (const std::string& key : keys) rows_.Put(key, "v-" + key);
    Commit();
    Sync();
    rows_.BeginGroup();
  }

  MemoryStore store_;
  RowView rows_;
  uint64_t group_ = 0;
  Ticket ticket_ = 0;
};

TEST_F(RowViewTest, NotesWhatIsMissingAndFetchesItInOneRound) {
  PutAll({"a", "b"});
  EXPECT_FALSE(rows_.HasNeeds());
  EXPECT_FALSE(rows_.Get("a").known);
  EXPECT_FALSE(rows_.Get("b").known);
  EXPECT_FALSE(rows_.Get("c").known);
  EXPECT_FALSE(rows_.Scan("a", "z", 10).known);
  EXPECT_TRUE(rows_.HasNeeds());
  const uint64_t rounds = rows_.rounds();
  ASSERT_TRUE(rows_.Fetch(store_).ok());
  EXPECT_EQ(rows_.rounds(), rounds + 1);
  EXPECT_FALSE(rows_.HasNeeds());
  EXPECT_EQ(rows_.Get("a").value, "v-a");
  EXPECT_TRUE(rows_.Get("c").known);
  EXPECT_FALSE(rows_.Get("c").value.has_value());
  EXPECT_EQ(KeysOf(rows_.Scan("a", "z", 10)), (Keys{"a", "b"}));
}

TEST_F(RowViewTest, SeesItsOwnWritesAndThoseOfGroupsInSync) {
  PutAll({"a", "b", "c"});
  rows_.Put("a", "new");
  rows_.Delete("b");
  EXPECT_EQ(Get("a"), "new");
  EXPECT_EQ(Get("b"), "");
  Commit();  // in sync: the store does not show it
  rows_.BeginGroup();
  EXPECT_EQ(store_.MultiGet({"a"})->front(), "v-a");
  EXPECT_EQ(Get("a"), "new");
  EXPECT_EQ(Get("b"), "");
  EXPECT_EQ(Get("c"), "v-c");
  rows_.Put("b", "again");
  EXPECT_EQ(Get("b"), "again");
  Commit();
  Sync();
  rows_.BeginGroup();
  EXPECT_EQ(Get("a"), "new");
  EXPECT_EQ(Get("b"), "again");
}

TEST_F(RowViewTest, AScanMergesTheStoreAndAllLayers) {
  PutAll({"a", "c", "e", "g"});
  rows_.Put("b", "1");
  rows_.Delete("c");
  Commit();
  rows_.BeginGroup();
  rows_.Put("c", "2");
  rows_.Delete("e");
  rows_.Put("f", "2");
  const RowView::Range range = Scan("a", "z", 10);
  EXPECT_EQ(KeysOf(range), (Keys{"a", "b", "c", "f", "g"}));
  EXPECT_EQ(range.rows[2].value, "2");
  EXPECT_TRUE(range.complete);
}

TEST_F(RowViewTest, AScanSaysWhereTheRestBegins) {
  PutAll({"a", "b", "c", "d", "e"});
  RowView::Range range = Scan("a", "z", 2);
  EXPECT_EQ(KeysOf(range), (Keys{"a", "b"}));
  EXPECT_FALSE(range.complete);
  range = Scan(range.rest, "z", 2);
  EXPECT_EQ(KeysOf(range), (Keys{"c", "d"}));
  range = Scan(range.rest, "z", 2);
  EXPECT_EQ(KeysOf(range), (Keys{"e"}));
  EXPECT_TRUE(range.complete);
}

TEST_F(RowViewTest, AScanMayGiveNothingAndNotBeComplete) {
  PutAll({"a", "b", "c"});
  rows_.Delete("a");
  rows_.Delete("b");
  const RowView::Range range = Scan("a", "z", 2);
  EXPECT_TRUE(range.rows.empty());
  EXPECT_FALSE(range.complete);
  EXPECT_EQ(KeysOf(Scan(range.rest, "z", 2)), (Keys{"c"}));
}

TEST_F(RowViewTest, ADeletedRangeHidesWhatWasAndNotWhatComesAfter) {
  PutAll({"a", "b", "c", "d"});
  rows_.Put("b2", "lost");
  rows_.DeleteRange("b", "d");
  rows_.Put("c", "new");
  rows_.DeleteRange("x", "x");  // nothing
  rows_.DeleteRange("z", "y");  // nothing
  EXPECT_EQ(Get("b"), "");
  EXPECT_EQ(Get("b2"), "");
  EXPECT_EQ(Get("c"), "new");
  EXPECT_EQ(Get("d"), "v-d");
  EXPECT_EQ(KeysOf(Scan("a", "z", 10)), (Keys{"a", "c", "d"}));
  Commit();
  Sync();
  rows_.BeginGroup();
  EXPECT_EQ(KeysOf(Scan("a", "z", 10)), (Keys{"a", "c", "d"}));
}

TEST_F(RowViewTest, ForgetsOnlyLayersThatAreDurable) {
  rows_.Put("a", "1");
  Commit();
  rows_.BeginGroup();
  rows_.Put("b", "2");
  Commit();
  rows_.BeginGroup();
  rows_.Forget(group_ - 1);  // the store does not show it yet: gone from the view
  EXPECT_EQ(Get("a"), "");
  EXPECT_EQ(Get("b"), "2");
}

TEST_F(RowViewTest, AFailedFetchIsSaid) {
  class Unreadable final : public MemoryStore {
    absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
        const std::vector<std::string>&) const override {
      return absl::DataLossError("checksum");
    }
  };
  rows_.Get("a");
  EXPECT_EQ(rows_.Fetch(Unreadable()).code(), absl::StatusCode::kDataLoss);
}

TEST_F(RowViewTest, ResetForgetsEverything) {
  rows_.Put("a", "1");
  Commit();
  rows_.Put("b", "2");
  rows_.Get("c");
  rows_.Reset();
  EXPECT_FALSE(rows_.HasWrites());
  EXPECT_FALSE(rows_.HasNeeds());
  EXPECT_EQ(Get("a"), "");
  EXPECT_EQ(Get("b"), "");
}

TEST_F(RowViewTest, AgreesWithAPlainMapUnderRandomWritesAndSyncs) {
  std::mt19937 random(7);
  const auto pick = [&random](int below) {
    return static_cast<int>(random() % static_cast<unsigned>(below));
  };
  const auto key = [&pick] { return absl::StrCat("k", 10 + pick(60)); };
  std::map<std::string, std::string> plain;
  bool in_sync = false;
  for (int step = 0; step < 20'000; ++step) {
    const std::string a = key();
    const std::string b = key();
    switch (pick(8)) {
      case 0:
      case 1:
        rows_.Put(a, absl::StrCat(step));
        plain[a] = absl::StrCat(step);
        break;
      case 2:
        rows_.Delete(a);
        plain.erase(a);
        break;
      case 3:
        if (pick(4) == 0 && a < b) {
          rows_.DeleteRange(a, b);
          plain.erase(plain.lower_bound(a), plain.lower_bound(b));
        }
        break;
      case 4:
        if (in_sync) Sync();
        Commit();
        in_sync = true;
        rows_.BeginGroup();
        break;
      case 5:
        EXPECT_EQ(Get(a), plain.count(a) == 1 ? plain[a] : "");
        break;
      default: {
        // A walk in pages gives every row exactly once.
        const size_t limit = 1 + static_cast<size_t>(pick(5));
        std::map<std::string, std::string> walked;
        RowView::Range range;
        range.rest = a;
        while (!range.complete) {
          range = Scan(range.rest, "z", limit);
          for (const Row& row : range.rows) EXPECT_TRUE(walked.emplace(row.key, row.value).second);
        }
        EXPECT_EQ(walked, (std::map<std::string, std::string>(plain.lower_bound(a), plain.end())));
      }
    }
    ASSERT_FALSE(HasFailure()) << "step " << step;
  }
}

}  // namespace
}  // namespace stint::storage
