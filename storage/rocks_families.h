// Which column family of RocksDB holds which keys. What lives and dies together shares one, so
// that its tables stay in order and its deletions do not stand in another's way.
//
// How it is used: the whole key space is cut into segments in key order, each in one column
// family; a key or range outside our families is in the default one.
//
// Threads: any.
#ifndef STINT_STORAGE_ROCKS_FAMILIES_H_
#define STINT_STORAGE_ROCKS_FAMILIES_H_

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stint::storage {

enum ColumnFamily : size_t {
  kDefaultColumns,  // meta, queues, names, counters, and whatever is of no family
  kJobColumns,      // records, payloads, results, own job ids
  kStateColumns,
  kIndexColumns,  // ready, due, expiry, ended
  kLeaseColumns,
  kRepeatColumns,  // requests and removed settles
  kColumnFamilies
};

// Names on disk, by ColumnFamily.
inline constexpr std::array<const char*, kColumnFamilies> kColumnFamilyNames = {
    "default", "jobs", "state", "index", "lease", "repeat"};

ColumnFamily ColumnFamilyOf(absl::string_view key);

// Whether the key has exactly the form of a row of a family whose keys are all of one length;
// what the memtable's hints (rocks_options.cc) are kept for.
bool HasFixedForm(absl::string_view key);

// A part of a range that lies in one column family.
struct Segment {
  ColumnFamily columns;
  std::string from;
  std::string to;  // exclusive
};

// The parts of [from, to), in key order; none when the range is empty.
std::vector<Segment> SegmentsOf(absl::string_view from, absl::string_view to);

}  // namespace stint::storage

#endif  // STINT_STORAGE_ROCKS_FAMILIES_H_
