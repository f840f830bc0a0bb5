// What stands between RocksDB and the rest of the world: its log lines, its view of the log
// files, and its errors in our terms.
//
// Threads: any; what is made here is used by RocksDB from its own threads.
#ifndef STINT_STORAGE_ROCKS_ENV_H_
#define STINT_STORAGE_ROCKS_ENV_H_

#include <rocksdb/env.h>
#include <rocksdb/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "storage/rocks_store.h"

namespace stint::storage {

// Passes warnings and errors on to `log`. Without a logger of its own the packaged RocksDB
// writes a file, and aborts the process when the disk under that file is full.
std::shared_ptr<rocksdb::Logger> MakeRocksLogger(
    std::function<void(LogLevel, absl::string_view)> log);

// Which part of a log may be replayed.
struct LogCuts {
  // Number of a log, and how many bytes of it are shown.
  std::map<uint64_t, uint64_t> shown_bytes;
  // Of every other log; nullopt: all.
  std::optional<uint64_t> other_shown_bytes;
};

// The usual environment, except that a log that is read seems to end where `cuts` says. Sizes,
// writes and deletions are as they are. So what is replayed is what log_scanner.h judged right,
// not what RocksDB's own reader makes of damage.
std::unique_ptr<rocksdb::Env> MakeLogCutEnv(LogCuts cuts);

// `doing` says in a few words what failed. No space, or no quota, is kResourceExhausted; a
// failed check kDataLoss with CORRUPT_RECORD; all else kInternal.
absl::Status FromRocks(const rocksdb::Status& status, absl::string_view doing);

}  // namespace stint::storage

#endif  // STINT_STORAGE_ROCKS_ENV_H_
