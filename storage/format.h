// The stamp that says in which format a store is written: the row MetaKey("format").
//
// How it is used: checked at each open before anything is written, written once into a fresh
// store. FORMAT.md says what counts as a change of format and how a migration is made.
//
// What it does not do: read or write the store.
//
// Threads: any.
#ifndef STINT_STORAGE_FORMAT_H_
#define STINT_STORAGE_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stint::storage {

// What this software writes.
inline constexpr uint32_t kFormat = 1;
// The oldest format whose software can still read what this one writes.
inline constexpr uint32_t kReadableBy = 1;

std::string FormatRowKey();
// The value of the row, as this software writes it.
std::string FormatRow(absl::string_view release);

// Whether this software may open a store with this row. kFailedPrecondition: the store is newer;
// the text names both formats and says what to do. kDataLoss: the row is no stamp.
absl::Status CheckFormat(absl::string_view row, absl::string_view our_release);

}  // namespace stint::storage

#endif  // STINT_STORAGE_FORMAT_H_
