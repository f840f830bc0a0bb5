// How a GroupMark stands in the log, beside the batch it belongs to:
//
//   +------+---------+---------------+------------------------+
//   | SGMK | version | group         | synced_through         |
//   | 4 B  | 1 B     | 8 B, big end. | 8 B, big endian        |
//   +------+---------+---------------+------------------------+
//
// Threads: any.
#ifndef STINT_STORAGE_GROUP_MARK_H_
#define STINT_STORAGE_GROUP_MARK_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "storage/store.h"

namespace stint::storage {

inline constexpr size_t kGroupMarkBytes = 21;

std::string EncodeGroupMark(const GroupMark& mark);

// nullopt: not a mark of a version known here.
std::optional<GroupMark> DecodeGroupMark(absl::string_view blob);

}  // namespace stint::storage

#endif  // STINT_STORAGE_GROUP_MARK_H_
