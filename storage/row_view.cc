#include "storage/row_view.h"

#include <algorithm>
#include <memory>

namespace stint::storage {

void RowView::BeginGroup() {
  fetched_.clear();
  fetched_ranges_.clear();
  needed_keys_.clear();
  needed_ranges_.clear();
  writes_ = 0;
}

std::optional<std::optional<absl::string_view>> RowView::Find(const Layer& layer,
                                                              absl::string_view key) {
  const auto it = layer.rows.find(key);
  if (it != layer.rows.end()) {
    if (!it->second.has_value()) return std::optional<absl::string_view>();
    return std::optional<absl::string_view>(*it->second);
  }
  for (const auto& [from, to] : layer.ranges) {
    if (from <= key && key < to) return std::optional<absl::string_view>();
  }
  return std::nullopt;
}

RowView::Lookup RowView::Get(const std::string& key) {
  if (const auto found = Find(open_, key)) return {true, *found};
  for (auto layer = sealed_.rbegin(); layer != sealed_.rend(); ++layer) {
    if (const auto found = Find(*layer, key)) return {true, *found};
  }
  const auto it = fetched_.find(key);
  if (it == fetched_.end()) {
    needed_keys_.insert(key);
    return {};
  }
  if (!it->second.has_value()) return {true, std::nullopt};
  return {true, *it->second};
}

void RowView::LayOver(const Layer& layer, const std::string& from, const std::string& end,
                      absl::btree_map<std::string, std::string>* merged) {
  for (const auto& [first, last] : layer.ranges) {
    merged->erase(merged->lower_bound(first), merged->lower_bound(std::max(first, last)));
  }
  for (auto it = layer.rows.lower_bound(from); it != layer.rows.end() && it->first < end; ++it) {
    if (it->second.has_value()) {
      (*merged)[it->first] = *it->second;
    } else {
      merged->erase(it->first);
    }
  }
}

RowView::Range RowView::Scan(const std::string& from, const std::string& to, size_t limit) {
  const RangeKey range_key(from, to, limit);
  const auto it = fetched_ranges_.find(range_key);
  if (it == fetched_ranges_.end()) {
    if (std::find(needed_ranges_.begin(), needed_ranges_.end(), range_key) ==
        needed_ranges_.end()) {
      needed_ranges_.push_back(range_key);
    }
    return {};
  }
  const FetchedRange& base = it->second;
  // The store's rows are known up to here.
  std::string end = base.complete ? to : base.rows.back().key + '\0';
  absl::btree_map<std::string, std::string> merged;
  for (const Row& row : base.rows) merged.emplace_hint(merged.end(), row.key, row.value);
  for (const Layer& layer : sealed_) LayOver(layer, from, end, &merged);
  LayOver(open_, from, end, &merged);

  Range range;
  range.known = true;
  range.complete = base.complete;
  range.rest = end;
  for (auto& [key, value] : merged) {
    if (range.rows.size() == limit) {
      range.complete = false;
      range.rest = key;
      break;
    }
    range.rows.push_back({key, std::move(value)});
  }
  return range;
}

absl::Status RowView::Fetch(const Store& store) {
  ++rounds_;
  if (!needed_keys_.empty()) {
    std::vector<std::string> keys(needed_keys_.begin(), needed_keys_.end());
    std::sort(keys.begin(), keys.end());
    auto values = store.MultiGet(keys);
    if (!values.ok()) return values.status();
    for (size_t i = 0; i < keys.size(); ++i) {
      fetched_.insert_or_assign(std::move(keys[i]), std::move((*values)[i]));
    }
    needed_keys_.clear();
  }
  for (const RangeKey& range : needed_ranges_) {
    const auto& [from, to, limit] = range;
    auto rows = store.Scan(from, to, limit, Direction::kForward);
    if (!rows.ok()) return rows.status();
    const bool complete = rows->size() < limit;
    fetched_ranges_[range] = {std::move(*rows), complete};
  }
  needed_ranges_.clear();
  return absl::OkStatus();
}

void RowView::Put(absl::string_view key, absl::string_view value) {
  ++writes_;
  open_.rows.insert_or_assign(std::string(key), std::string(value));
}

void RowView::Delete(absl::string_view key) {
  ++writes_;
  open_.rows.insert_or_assign(std::string(key), std::nullopt);
}

void RowView::DeleteRange(absl::string_view from, absl::string_view to) {
  if (from >= to) return;
  ++writes_;
  open_.rows.erase(open_.rows.lower_bound(from), open_.rows.lower_bound(to));
  open_.ranges.emplace_back(std::string(from), std::string(to));
}

Batch RowView::Seal(GroupMark mark) {
  Batch batch;
  batch.set_mark(mark);
  for (const auto& [from, to] : open_.ranges) batch.DeleteRange(from, to);
  for (const auto& [key, value] : open_.rows) {
    if (value.has_value()) {
      batch.Put(key, *value);
    } else {
      batch.Delete(key);
    }
  }
  open_.group = mark.group;
  sealed_.push_back(std::move(open_));
  open_ = Layer();
  return batch;
}

void RowView::Forget(uint64_t group) {
  while (!sealed_.empty() && sealed_.front().group <= group) sealed_.pop_front();
}

void RowView::Reset() {
  BeginGroup();
  open_ = Layer();
  sealed_.clear();
}

}  // namespace stint::storage
