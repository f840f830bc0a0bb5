// Values of settings, as people write them. Thread-safe: functions without state.
#ifndef STINT_SERVER_CONFIG_VALUES_H_
#define STINT_SERVER_CONFIG_VALUES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace stint {

// true, false, 1, 0, yes, no, on, off.
std::optional<bool> ParseSwitch(absl::string_view text);
// A whole number, not negative.
std::optional<int64_t> ParseNumber(absl::string_view text);
// A whole number of bytes, or of KiB, MiB, GiB, TiB when one of these follows.
std::optional<int64_t> ParseBytes(absl::string_view text);
// Milliseconds in `15s`, `10m`, `1h30m`, `250ms`, or 0; a bare number has no unit.
std::optional<int64_t> ParseMillis(absl::string_view text);

std::string FormatBytes(int64_t bytes);
std::string FormatMillis(int64_t ms);

}  // namespace stint

#endif  // STINT_SERVER_CONFIG_VALUES_H_
