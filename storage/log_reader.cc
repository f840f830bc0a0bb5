#include "storage/log_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "storage/crc32c.h"
#include "storage/group_mark.h"

namespace stint::storage {
namespace {

// A log is a row of blocks. A fragment never crosses the border of a block; the rest of a block
// that is too short for a header is padding.
//
//   header:  checksum (4, masked CRC-32C of type and data) | length (2) | type (1)   little endian
//   batch:   sequence (8) | count (4) | records            record: tag (1) ...
constexpr size_t kBlockBytes = 32 * 1024;
constexpr size_t kHeaderBytes = 7;
constexpr size_t kTypeAt = 6;
enum FragmentType : uint8_t { kZero = 0, kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };
// The same four in logs whose files are used again, and the mark of a compressed log. Stint
// turns neither on.
constexpr uint8_t kLastForeignType = 9;

constexpr size_t kBatchHeaderBytes = 12;
constexpr char kTagLogData = 3;
// The mark is the first record of a batch: enough of the batch to hold it.
constexpr size_t kHeadBytes = kBatchHeaderBytes + 2 + kGroupMarkBytes;
static_assert(kGroupMarkBytes < 128, "its length takes one byte");

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

// Fills `block` from the file; less than a block only at its end.
absl::StatusOr<size_t> ReadBlock(int fd, std::vector<char>* block) {
  size_t have = 0;
  while (have < block->size()) {
    const ssize_t n = read(fd, block->data() + have, block->size() - have);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, "read");
    if (n == 0) break;
    have += static_cast<size_t>(n);
  }
  return have;
}

uint32_t LittleEndian(absl::string_view bytes, size_t count) {
  uint32_t v = 0;
  for (size_t i = count; i > 0; --i) v = v << 8 | static_cast<uint8_t>(bytes[i - 1]);
  return v;
}

// How many of the bytes stand before the zeros that they end with.
size_t WithoutZeros(absl::string_view bytes) {
  while (!bytes.empty() && bytes.back() == 0) bytes.remove_suffix(1);
  return bytes.size();
}

// Puts fragments together to records and damaged bytes together to stretches.
class LogAssembler {
 public:
  explicit LogAssembler(const std::function<void(const LogEvent&)>& on_event)
      : on_event_(on_event) {}

  // `bytes` is a block, short only at the end of the file; `at` is where it stands in the file.
  void Block(absl::string_view bytes, uint64_t at) {
    const size_t zeros_from = WithoutZeros(bytes);
    size_t p = 0;
    while (p < bytes.size()) {
      const absl::string_view rest = bytes.substr(p);
      if (rest.size() < kHeaderBytes) {
        if (bytes.size() == kBlockBytes) return;  // padding
        const bool zeros = p >= zeros_from;
        Damage(at + p, zeros, zeros ? "zeros" : "the file ends within a header");
        return;
      }
      const char* wrong = WhatIsWrong(rest);
      if (wrong == nullptr) {
        const size_t length = LittleEndian(rest.substr(4), 2);
        Fragment(static_cast<FragmentType>(rest[kTypeAt]), at + p,
                 rest.substr(kHeaderBytes, length));
        p += kHeaderBytes + length;
      } else if (p >= zeros_from) {
        Damage(at + p, true, "zeros");
        return;
      } else {
        Damage(at + p, false, wrong);
        ++p;
      }
    }
  }

  void End(uint64_t file_bytes) {
    if (in_record_) Damage(record_begin_, false, "a record without an end");
    EmitDamage(file_bytes);
  }

 private:
  static const char* WhatIsWrong(absl::string_view rest) {
    const size_t length = LittleEndian(rest.substr(4), 2);
    const auto type = static_cast<uint8_t>(rest[kTypeAt]);
    if (type == kZero) return "no record";
    if (type > kLast && type <= kLastForeignType) return "a form of log that Stint never writes";
    if (type > kLast) return "no record";
    if (kHeaderBytes + length > rest.size()) return "a record longer than its block or the file";
    if (MaskCrc32c(Crc32c(rest.substr(kTypeAt, 1 + length))) != LittleEndian(rest, 4)) {
      return "checksum mismatch";
    }
    return nullptr;
  }

  void Fragment(FragmentType type, uint64_t at, absl::string_view data) {
    const uint64_t end = at + kHeaderBytes + data.size();
    if (type == kFull || type == kFirst) {
      if (in_record_) Damage(record_begin_, false, "a record without an end");
      damage_end_ = at;
      record_begin_ = at;
      in_record_ = true;
      head_.clear();
      record_bytes_ = 0;
    } else if (!in_record_) {
      Damage(at, false, "the end of a record without its beginning");
      return;
    }
    head_.append(data.data(), std::min(data.size(), kHeadBytes - head_.size()));
    record_bytes_ += data.size();
    if (type == kFull || type == kLast) Record(end);
  }

  void Record(uint64_t end) {
    in_record_ = false;
    if (record_bytes_ < kBatchHeaderBytes) {
      Damage(record_begin_, false, "a record too short for a batch");
      return;
    }
    EmitDamage(damage_end_);
    LogEvent event;
    event.begin = record_begin_;
    event.end = end;
    const absl::string_view batch = head_;
    if (batch.size() == kHeadBytes && batch[kBatchHeaderBytes] == kTagLogData &&
        static_cast<size_t>(batch[kBatchHeaderBytes + 1]) == kGroupMarkBytes) {
      event.mark = DecodeGroupMark(batch.substr(kBatchHeaderBytes + 2));
    }
    on_event_(event);
  }

  // Begins a stretch of damage, or goes on with it.
  void Damage(uint64_t at, bool zeros, const char* reason) {
    if (in_record_ && !damaged_) {
      // What was gathered of a record is lost with it.
      damage_begin_ = record_begin_;
      zeros = false;
    } else if (!damaged_) {
      damage_begin_ = at;
    }
    in_record_ = false;
    if (!damaged_) {
      damaged_ = true;
      damage_is_zeros_ = zeros;
      damage_reason_ = reason;
    }
    damage_is_zeros_ = damage_is_zeros_ && zeros;
  }

  void EmitDamage(uint64_t end) {
    if (!damaged_) return;
    LogEvent event;
    event.kind = damage_is_zeros_ ? LogEvent::Kind::kZeros : LogEvent::Kind::kDamage;
    event.begin = damage_begin_;
    event.end = end;
    event.reason = damage_reason_;
    damaged_ = false;
    on_event_(event);
  }

  const std::function<void(const LogEvent&)>& on_event_;
  // The record being gathered.
  bool in_record_ = false;
  uint64_t record_begin_ = 0;
  uint64_t record_bytes_ = 0;
  std::string head_;
  // The stretch of damage not yet told; it ends where the next record begins.
  bool damaged_ = false;
  bool damage_is_zeros_ = false;
  uint64_t damage_begin_ = 0;
  uint64_t damage_end_ = 0;
  const char* damage_reason_ = "";
};

}  // namespace

absl::Status ReadLog(const std::string& path,
                     const std::function<void(const LogEvent&)>& on_event) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    return absl::InternalError(
        absl::StrCat("cannot open ", path, ": ", absl::ErrnoToStatus(errno, "open").message()));
  }
  LogAssembler assembler(on_event);
  std::vector<char> block(kBlockBytes);
  uint64_t at = 0;
  while (true) {
    const absl::StatusOr<size_t> have = ReadBlock(file.get(), &block);
    if (!have.ok()) {
      return absl::InternalError(
          absl::StrCat("cannot read ", path, " at offset ", at, ": ", have.status().message()));
    }
    assembler.Block(absl::string_view(block.data(), *have), at);
    at += *have;
    if (*have < kBlockBytes) break;
  }
  assembler.End(at);
  return absl::OkStatus();
}

}  // namespace stint::storage
