// Writes log files in the form FORMAT.md draws, whole or broken on purpose.
// Threads: one.
#ifndef STINT_TESTS_SUPPORT_LOG_WRITER_H_
#define STINT_TESTS_SUPPORT_LOG_WRITER_H_

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

#include "absl/strings/string_view.h"
#include "storage/crc32c.h"
#include "storage/group_mark.h"
#include "storage/store.h"

namespace stint::test {

class LogWriter {
 public:
  static constexpr size_t kBlockBytes = 32 * 1024;
  static constexpr size_t kHeaderBytes = 7;

  // The bytes so far.
  const std::string& bytes() const { return bytes_; }
  std::string& bytes() { return bytes_; }

  // Appends a batch with a mark and `filler_bytes` of other records.
  LogWriter& Group(uint64_t group, uint64_t synced_through, size_t filler_bytes = 20) {
    return Batch(storage::EncodeGroupMark({group, synced_through}), filler_bytes);
  }

  // Appends a batch without a mark.
  LogWriter& Unmarked(size_t filler_bytes = 20) { return Batch("other", filler_bytes); }

  // Appends `payload` as one record, in as many fragments as the blocks need.
  LogWriter& Record(absl::string_view payload) {
    bool first = true;
    do {
      const size_t room = kBlockBytes - bytes_.size() % kBlockBytes;
      if (room < kHeaderBytes) {
        bytes_.append(room, '\0');
        continue;
      }
      const size_t n = std::min(payload.size(), room - kHeaderBytes);
      const bool last = n == payload.size();
      Fragment(first ? (last ? 1 : 2) : (last ? 4 : 3), payload.substr(0, n));
      payload.remove_prefix(n);
      first = false;
      if (last) break;
    } while (true);
    return *this;
  }

  LogWriter& Fragment(int type, absl::string_view data) {
    std::string checked(1, static_cast<char>(type));
    checked.append(data.data(), data.size());
    AppendLittle(storage::MaskCrc32c(storage::Crc32c(checked)), 4);
    AppendLittle(static_cast<uint32_t>(data.size()), 2);
    bytes_ += checked;
    return *this;
  }

  void WriteTo(const std::string& path) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes_;
  }

 private:
  LogWriter& Batch(absl::string_view blob, size_t filler_bytes) {
    std::string batch(12, '\0');
    batch.push_back(3);
    batch.push_back(static_cast<char>(blob.size()));
    batch.append(blob.data(), blob.size());
    batch.append(filler_bytes, 'f');
    return Record(batch);
  }

  void AppendLittle(uint32_t v, int count) {
    for (int i = 0; i < count; ++i) bytes_.push_back(static_cast<char>(v >> (8 * i)));
  }

  std::string bytes_;
};

}  // namespace stint::test

#endif  // STINT_TESTS_SUPPORT_LOG_WRITER_H_
