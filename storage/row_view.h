// What the thread of decisions sees of the store: rows as of the last durable commit, with
// its own writes that are not durable yet laid over them, and a note of every row it asked
// for and that has not been fetched.
//
// How it is used, for each group of commands: BeginGroup; then passes of lookups and writes,
// with Fetch between them for what a pass found missing; then Seal, whose batch is committed.
// A layer of writes stays until Forget says that its group is durable and reads of the store
// show it.
//
// What it does not do: it knows no jobs (tables.h does) and never reads the store by itself.
// Used by one thread.
#ifndef STINT_STORAGE_ROW_VIEW_H_
#define STINT_STORAGE_ROW_VIEW_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/store.h"

namespace stint::storage {

class RowView {
 public:
  struct Lookup {
    // False: the row has to be fetched first; the view has noted it.
    bool known = false;
    // The value, until the next write or Fetch; unset: there is no such row.
    std::optional<absl::string_view> value;
  };

  struct Range {
    // False: the range has to be fetched first; the view has noted it.
    bool known = false;
    // The lowest rows of the range, in order.
    std::vector<Row> rows;
    // True: there are no more rows in the range.
    bool complete = false;
    // Where the rest of the range begins: a key, or the first place after one. Only when not
    // complete. A range may give fewer rows than its limit, even none, and not be complete:
    // those of the store may be deleted by writes that are not durable yet.
    std::string rest;
  };

  // Drops what was fetched; what a new group sees is fetched anew.
  void BeginGroup();

  Lookup Get(const std::string& key);
  // The first `limit` rows with from <= key < to.
  Range Scan(const std::string& from, const std::string& to, size_t limit);

  // True when a lookup since the last Fetch found something missing.
  bool HasNeeds() const { return !needed_keys_.empty() || !needed_ranges_.empty(); }
  // Fetches everything noted, in one round: one MultiGet and the ranges.
  absl::Status Fetch(const Store& store);
  // Rounds so far, for the test that counts them.
  uint64_t rounds() const { return rounds_; }

  void Put(absl::string_view key, absl::string_view value);
  void Delete(absl::string_view key);
  // Removes every key in [from, to).
  void DeleteRange(absl::string_view from, absl::string_view to);

  // Writes of the group at hand.
  bool HasWrites() const { return !open_.rows.empty() || !open_.ranges.empty(); }
  size_t write_count() const { return writes_; }

  // Closes the group: its writes as a batch, kept as a layer under number `mark.group`.
  Batch Seal(GroupMark mark);
  // Layers up to `group` are durable and visible in the store.
  void Forget(uint64_t group);
  // Forgets everything, the group at hand included.
  void Reset();

 private:
  struct Layer {
    uint64_t group = 0;
    // nullopt: deleted.
    absl::btree_map<std::string, std::optional<std::string>> rows;
    // Ranges deleted before any row in `rows` was written.
    std::vector<std::pair<std::string, std::string>> ranges;
  };
  using RangeKey = std::tuple<std::string, std::string, size_t>;
  struct FetchedRange {
    std::vector<Row> rows;
    bool complete = false;
  };

  // nullopt: the layer says nothing about the key.
  static std::optional<std::optional<absl::string_view>> Find(const Layer& layer,
                                                              absl::string_view key);
  static void LayOver(const Layer& layer, const std::string& from, const std::string& end,
                      absl::btree_map<std::string, std::string>* merged);

  Layer open_;
  std::deque<Layer> sealed_;  // oldest first
  size_t writes_ = 0;
  uint64_t rounds_ = 0;
  absl::flat_hash_map<std::string, std::optional<std::string>> fetched_;
  absl::btree_map<RangeKey, FetchedRange> fetched_ranges_;
  absl::flat_hash_set<std::string> needed_keys_;
  std::vector<RangeKey> needed_ranges_;
};

}  // namespace stint::storage

#endif  // STINT_STORAGE_ROW_VIEW_H_
