#include "storage/rocks_families.h"

#include <algorithm>

#include "storage/keys.h"

namespace stint::storage {
namespace {

// Where each segment begins; it ends where the next one begins.
struct Border {
  std::string begin;
  ColumnFamily columns;
};

std::vector<Border> MakeBorders() {
  std::vector<Border> borders = {{"", kDefaultColumns}};
  const auto add = [&borders](std::string begin, ColumnFamily columns) {
    if (borders.back().columns != columns) borders.push_back({std::move(begin), columns});
  };
  for (int family = 0; family < 256; ++family) {
    const std::string begin = {static_cast<char>(kShard), static_cast<char>(family)};
    add(begin, ColumnFamilyOf(begin));
  }
  add(std::string(1, static_cast<char>(kShard + 1)), kDefaultColumns);
  return borders;
}

const std::vector<Border>& Borders() {
  static const std::vector<Border> kBorders = MakeBorders();
  return kBorders;
}

}  // namespace

ColumnFamily ColumnFamilyOf(absl::string_view key) {
  const std::optional<Family> family = FamilyOf(key);
  if (!family) return kDefaultColumns;
  switch (*family) {
    case Family::kJob:
    case Family::kPayload:
    case Family::kResult:
    case Family::kJobId:
      return kJobColumns;
    case Family::kState:
      return kStateColumns;
    case Family::kReady:
    case Family::kDue:
    case Family::kDueWall:
    case Family::kExpiry:
    case Family::kExpiryWall:
    case Family::kEnded:
      return kIndexColumns;
    case Family::kLease:
      return kLeaseColumns;
    case Family::kRequest:
    case Family::kRemovedSettles:
      return kRepeatColumns;
    case Family::kMeta:
    case Family::kQueue:
    case Family::kQueueName:
    case Family::kCounters:
      break;
  }
  return kDefaultColumns;
}

bool HasFixedForm(absl::string_view key) {
  const std::optional<Family> family = FamilyOf(key);
  if (!family) return false;
  switch (*family) {
    case Family::kJob:
    case Family::kPayload:
    case Family::kState:
    case Family::kLease:
    case Family::kResult:
      return key.size() == 14;
    case Family::kReady:
    case Family::kEnded:
      return key.size() == 23;
    case Family::kDue:
    case Family::kDueWall:
      return key.size() == 19;
    case Family::kExpiry:
    case Family::kExpiryWall:
      return key.size() == 18;
    default:
      return false;
  }
}

std::vector<Segment> SegmentsOf(absl::string_view from, absl::string_view to) {
  std::vector<Segment> segments;
  const std::vector<Border>& borders = Borders();
  // The last border at or before `from`; there is always one, the empty key.
  auto border =
      std::upper_bound(borders.begin(), borders.end(), from,
                       [](absl::string_view key, const Border& b) { return key < b.begin; });
  --border;
  while (from < to) {
    const auto next = border + 1;
    const bool ends_here = next == borders.end() || to <= next->begin;
    const absl::string_view end = ends_here ? to : absl::string_view(next->begin);
    segments.push_back({border->columns, std::string(from), std::string(end)});
    from = end;
    border = next;
  }
  return segments;
}

}  // namespace stint::storage
