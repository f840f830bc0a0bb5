// The store on RocksDB, in one folder. FORMAT.md draws what is in the folder.
//
// How it is used: RocksStore::Open gives a Store; store.h says the rest. An open takes the lock
// OWNER, checks that no file and no acknowledged group is missing (before RocksDB may write or
// delete anything), and only then lets RocksDB recover.
//
// What it does not do: create parent folders, keep time, retry.
//
// Threads: as store.h says. `log` is called from any thread, also from RocksDB's own.
#ifndef STINT_STORAGE_ROCKS_STORE_H_
#define STINT_STORAGE_ROCKS_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/store.h"

namespace stint::storage {

enum class LogLevel { kInfo, kWarning, kError };

struct RocksOptions {
  // Created, but not its parents, when it does not exist.
  std::string folder;
  size_t block_cache_bytes = 64 << 20;
  // Writes not yet in tables: in memory, and in logs. Both bound the time a restart takes. On a
  // volume where the reserve is smaller than asked they shrink in proportion.
  size_t write_buffer_bytes = 32 << 20;
  size_t wal_bytes = 48 << 20;
  uint64_t flush_after_keys = 250'000;
  int max_open_files = 2000;
  // Free bytes under which space is low; 0: as many as the reserve has.
  uint64_t disk_floor_bytes = 0;
  // Space kept back in the file RESERVE; at most an eighth of the volume.
  uint64_t reserve_bytes = 64 << 20;
  // Of this software, for the format stamp.
  std::string release;
  // Of this process, for the people who are refused the folder.
  std::string start_time;
  // One line for the operator. May be empty.
  std::function<void(LogLevel, absl::string_view)> log;
};

class RocksStore {
 public:
  RocksStore() = delete;

  // kFailedPrecondition: the folder is in use, cannot be written, or holds a newer format.
  // kDataLoss: something acknowledged cannot be read; the text begins with CORRUPT_RECORD and
  // says what to do; nothing was changed. kResourceExhausted: no space even without the reserve.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const RocksOptions& options);
};

}  // namespace stint::storage

#endif  // STINT_STORAGE_ROCKS_STORE_H_
