#include "server/open_store.h"

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/ops/log.h"
#include "server/version.h"
#include "storage/memory_store.h"
#include "storage/rocks_store.h"

namespace stint {
namespace {

void LogStoreLine(storage::LogLevel level, absl::string_view line) {
  switch (level) {
    case storage::LogLevel::kInfo:
      return ops::LogInfo(line);
    case storage::LogLevel::kWarning:
      return ops::LogWarning(line);
    case storage::LogLevel::kError:
      return ops::LogError(line);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<storage::Store>> OpenStore(const Config& config,
                                                          int64_t start_wall_ms) {
  if (config.memory) {
    ops::LogWarning("everything is kept in memory: NOTHING SURVIVES THE END OF THIS PROCESS");
    return std::make_unique<storage::MemoryStore>();
  }
  storage::RocksOptions options;
  options.folder = config.data_dir;
  options.block_cache_bytes = static_cast<size_t>(config.block_cache);
  options.disk_floor_bytes = static_cast<uint64_t>(config.disk_floor);
  options.reserve_bytes = static_cast<uint64_t>(config.reserve);
  options.release = kVersion;
  options.start_time = absl::FormatTime(absl::FromUnixMillis(start_wall_ms), absl::UTCTimeZone());
  options.log = LogStoreLine;
  return storage::RocksStore::Open(options);
}

}  // namespace stint
