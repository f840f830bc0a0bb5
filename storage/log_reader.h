// Reads one RocksDB log file (NNNNNN.log) without RocksDB, so that damage is seen before an open
// that would drop it. FORMAT.md draws the file.
//
// How it is used: ReadLog calls `on_event` for each intact record and each damaged stretch, in
// the order of the file. After damage it tries every byte until a record fits again.
//
// What it does not do: write, or judge what a missing record means (log_scanner.h does).
//
// Limits: 32 KiB of memory whatever the length of the file.
//
// Threads: any.
#ifndef STINT_STORAGE_LOG_READER_H_
#define STINT_STORAGE_LOG_READER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "storage/store.h"

namespace stint::storage {

struct LogEvent {
  enum class Kind {
    kRecord,  // one whole batch, checksums right
    kDamage,  // bytes that are no whole record
    kZeros,   // damage that is nothing but zero bytes
  };
  Kind kind = Kind::kRecord;
  // From the first byte of its first header up to the first byte after it.
  uint64_t begin = 0;
  uint64_t end = 0;
  // kRecord: of the batch, when it has one.
  std::optional<GroupMark> mark;
  // kDamage, kZeros: what is wrong at `begin`.
  const char* reason = "";
};

// kInternal: the file cannot be read. Damage is no error.
absl::Status ReadLog(const std::string& path, const std::function<void(const LogEvent&)>& on_event);

}  // namespace stint::storage

#endif  // STINT_STORAGE_LOG_READER_H_
