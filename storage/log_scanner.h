// Decides, before the store is opened for writing, whether its logs still hold every group that
// was acknowledged, and how far each log may be replayed.
//
// Why: RocksDB's own open answers OK after damage in the middle of a log, keeps what stands
// before it and deletes the rest. Here a hole in acknowledged groups stops the start, and a torn
// tail that nobody was told about is dropped and named.
//
// The rule, over the live logs in order of their numbers, starting behind `flushed_through`:
// groups must follow each other without a gap. The first damage or gap ends the sequence, except
// that a later log that starts with exactly the next group goes on with it (a former start
// dropped a tail and wrote on). If any intact record claims `synced_through` above the last group
// of the sequence, acknowledged groups are gone: kDataLoss.
//
// What it does not do: write, delete, or know anything of RocksDB but the form of its logs. It
// cannot see damage to the very last group before the crash, nor the loss of whole newest logs:
// no later record claims them.
//
// Threads: any, while nobody writes the folder.
#ifndef STINT_STORAGE_LOG_SCANNER_H_
#define STINT_STORAGE_LOG_SCANNER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stint::storage {

struct LogScan {
  // Newest group of the unbroken sequence; `flushed_through` when the logs add none.
  uint64_t last_group = 0;
  // Number of each live log, and how many of its bytes may be replayed.
  std::map<uint64_t, uint64_t> readable_bytes;
  // What is behind those bytes and not merely zeros; none of it was ever acknowledged.
  uint64_t dropped_bytes = 0;
  uint64_t dropped_records = 0;  // intact ones among it
  // Where dropping begins and why, for people; empty when nothing is dropped.
  std::string dropped_from;
};

// The number in the name of a log file, "000012.log"; nullopt for any other name.
std::optional<uint64_t> LogNumber(absl::string_view file_name);

// Scans the logs in `folder` from number `first_log` on. kDataLoss: acknowledged groups are
// missing; the text begins with CORRUPT_RECORD, names file and offset and says what to do.
absl::StatusOr<LogScan> ScanLogs(const std::string& folder, uint64_t first_log,
                                 uint64_t flushed_through);

}  // namespace stint::storage

#endif  // STINT_STORAGE_LOG_SCANNER_H_
