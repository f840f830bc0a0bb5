#include "storage/log_scanner.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "storage/log_reader.h"

namespace stint::storage {
namespace {

// A place in a log, in words.
std::string Place(const std::string& path, uint64_t offset, absl::string_view reason) {
  return absl::StrCat(path, " at offset ", offset, " (", reason, ")");
}

std::string GroupRange(uint64_t first, uint64_t last) {
  return first == last ? absl::StrCat("group ", first)
                       : absl::StrCat("groups ", first, " to ", last);
}

// Applies the rule of log_scanner.h to one event after the other.
class Sequence {
 public:
  explicit Sequence(uint64_t flushed_through) : flushed_through_(flushed_through) {
    scan_.last_group = flushed_through;
  }

  void BeginLog(uint64_t number, const std::string& path) {
    path_ = path;
    readable_ = &scan_.readable_bytes[number];
    cut_ = false;
    damage_.clear();
    dropped_records_before_ = scan_.dropped_records;
    dropped_bytes_before_ = scan_.dropped_bytes;
  }

  void Take(const LogEvent& event) {
    if (event.kind != LogEvent::Kind::kRecord) {
      if (damage_.empty()) damage_ = Place(path_, event.begin, event.reason);
      last_damage_ = damage_;
      if (event.kind == LogEvent::Kind::kDamage) Drop(damage_, event.end - event.begin);
      return;
    }
    Record(event);
  }

  // kDataLoss: see ScanLogs.
  absl::StatusOr<LogScan> End() const {
    if (claimed_ <= scan_.last_group) return scan_;
    std::string where = !hole_.empty() ? hole_ : last_damage_;
    if (where.empty()) where = "no log holds them";
    return absl::DataLossError(absl::StrCat(
        "CORRUPT_RECORD: ", GroupRange(scan_.last_group + 1, claimed_),
        " of acknowledged changes cannot be read from the log any more: ", where,
        ". That they were durable is said by ", claimed_by_,
        ". Nothing was changed. Copy the folder if it is to be examined; then restore the newest "
        "checkpoint into it, or put back an undamaged copy of the log."));
  }

 private:
  void Record(const LogEvent& event) {
    const uint64_t claims_before = claimed_;
    if (event.mark && event.mark->synced_through > claimed_) {
      claimed_ = event.mark->synced_through;
      claimed_by_ =
          absl::StrCat("group ", event.mark->group, " in ", path_, " at offset ", event.begin);
    }
    // Behind damage nothing of this log can be replayed.
    if (!damage_.empty()) Cut(damage_);
    if (!cut_ && event.mark && event.mark->group > flushed_through_) Group(event, claims_before);
    if (cut_ || !hole_.empty()) {
      ++scan_.dropped_records;
      Drop(hole_, event.end - event.begin);
    } else {
      *readable_ = event.end;
    }
  }

  void Group(const LogEvent& event, uint64_t claims_before) {
    const uint64_t group = event.mark->group;
    if (group == scan_.last_group + 1) {
      if (!hole_.empty() && claims_before <= scan_.last_group) {
        hole_.clear();
        // What stands before it in its log is replayed with it.
        scan_.dropped_records = dropped_records_before_;
        scan_.dropped_bytes = dropped_bytes_before_;
      }
      if (hole_.empty()) {
        ++scan_.last_group;
        last_damage_.clear();
      }
      return;
    }
    // The damage that swallowed the missing groups, if there was any, says more than the gap.
    Cut(!last_damage_.empty() ? last_damage_
                              : Place(path_, event.begin,
                                      absl::StrCat("group ", group, " where group ",
                                                   scan_.last_group + 1, " should be")));
  }

  void Cut(const std::string& place) {
    cut_ = true;
    if (hole_.empty()) hole_ = place;
  }

  void Drop(const std::string& place, uint64_t bytes) {
    if (scan_.dropped_from.empty()) scan_.dropped_from = place;
    scan_.dropped_bytes += bytes;
  }

  const uint64_t flushed_through_;
  LogScan scan_;
  // Highest synced_through of all intact records, and where it stands.
  uint64_t claimed_ = 0;
  std::string claimed_by_;
  // Where the sequence broke; empty while it has not.
  std::string hole_;
  // The newest damage since the last group of the sequence.
  std::string last_damage_;
  // Of the log being read: its path, what may be replayed, its first damage, whether what follows
  // cannot be replayed, and what was dropped of the logs before it.
  std::string path_;
  uint64_t* readable_ = nullptr;
  std::string damage_;
  bool cut_ = false;
  uint64_t dropped_records_before_ = 0;
  uint64_t dropped_bytes_before_ = 0;
};

}  // namespace

std::optional<uint64_t> LogNumber(absl::string_view file_name) {
  uint64_t number = 0;
  if (!absl::ConsumeSuffix(&file_name, ".log") || file_name.empty() ||
      !std::all_of(file_name.begin(), file_name.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(file_name, &number)) {
    return std::nullopt;
  }
  return number;
}

absl::StatusOr<LogScan> ScanLogs(const std::string& folder, uint64_t first_log,
                                 uint64_t flushed_through) {
  std::map<uint64_t, std::string> logs;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::optional<uint64_t> number = LogNumber(it->path().filename().string());
    if (number && *number >= first_log) logs[*number] = it->path().string();
  }
  if (error) {
    return absl::InternalError(absl::StrCat("cannot list ", folder, ": ", error.message()));
  }
  Sequence sequence(flushed_through);
  for (const auto& [number, path] : logs) {
    sequence.BeginLog(number, path);
    const absl::Status status =
        ReadLog(path, [&sequence](const LogEvent& event) { sequence.Take(event); });
    if (!status.ok()) return status;
  }
  return sequence.End();
}

}  // namespace stint::storage
