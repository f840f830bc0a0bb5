#include "storage/group_mark.h"

#include <cstddef>
#include <cstdint>

namespace stint::storage {
namespace {

constexpr absl::string_view kMagic = "SGMK";
constexpr char kVersion = 1;
constexpr size_t kNumberBytes = 8;
static_assert(kGroupMarkBytes == 4 + 1 + 2 * kNumberBytes);

void AppendNumber(std::string* out, uint64_t v) {
  for (int shift = 56; shift >= 0; shift -= 8) out->push_back(static_cast<char>(v >> shift));
}

uint64_t NumberAt(absl::string_view blob, size_t at) {
  uint64_t v = 0;
  for (size_t i = 0; i < kNumberBytes; ++i) v = v << 8 | static_cast<uint8_t>(blob[at + i]);
  return v;
}

}  // namespace

std::string EncodeGroupMark(const GroupMark& mark) {
  std::string blob(kMagic);
  blob.push_back(kVersion);
  AppendNumber(&blob, mark.group);
  AppendNumber(&blob, mark.synced_through);
  return blob;
}

std::optional<GroupMark> DecodeGroupMark(absl::string_view blob) {
  if (blob.size() != kGroupMarkBytes || blob.substr(0, kMagic.size()) != kMagic ||
      blob[kMagic.size()] != kVersion) {
    return std::nullopt;
  }
  const size_t numbers = kMagic.size() + 1;
  return GroupMark{NumberAt(blob, numbers), NumberAt(blob, numbers + kNumberBytes)};
}

}  // namespace stint::storage
