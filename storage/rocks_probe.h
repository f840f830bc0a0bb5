// Looks at a store before it is opened for writing: the state in its tables alone, as if it had
// no logs. Writes nothing.
//
// Threads: any, while nobody writes the folder.
#ifndef STINT_STORAGE_ROCKS_PROBE_H_
#define STINT_STORAGE_ROCKS_PROBE_H_

#include <rocksdb/env.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/rocks_store.h"

namespace stint::storage {

struct TablesState {
  // The newest group whose changes are all in tables; 0: none.
  uint64_t group = 0;
  // Logs below this number hold nothing that is not in tables.
  uint64_t first_log = 0;
  std::optional<std::string> format_row;
};

// kDataLoss: tables or logs that the store names are missing or too short.
absl::StatusOr<TablesState> ProbeTables(const RocksOptions& options,
                                        const std::shared_ptr<rocksdb::Logger>& logger);

// The group in the row MetaKey("group"); 0: there is no such row. kDataLoss: it is no record.
absl::StatusOr<uint64_t> GroupInRow(const std::optional<std::string>& row);

}  // namespace stint::storage

#endif  // STINT_STORAGE_ROCKS_PROBE_H_
