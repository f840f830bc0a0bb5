#include "server/config_values.h"

#include <array>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace stint {
namespace {

constexpr std::array<std::pair<absl::string_view, int64_t>, 4> kUnits = {{
    {"TiB", int64_t{1} << 40},
    {"GiB", int64_t{1} << 30},
    {"MiB", int64_t{1} << 20},
    {"KiB", int64_t{1} << 10},
}};

}  // namespace

std::optional<bool> ParseSwitch(absl::string_view text) {
  bool value = false;
  const std::string lower = absl::AsciiStrToLower(text);
  if (lower == "on") return true;
  if (lower == "off") return false;
  if (!absl::SimpleAtob(lower, &value)) return std::nullopt;
  return value;
}

std::optional<int64_t> ParseNumber(absl::string_view text) {
  int64_t value = 0;
  if (text.empty() || text.find_first_not_of("0123456789") != absl::string_view::npos ||
      !absl::SimpleAtoi(text, &value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> ParseBytes(absl::string_view text) {
  int64_t factor = 1;
  for (const auto& [unit, bytes] : kUnits) {
    if (text.size() > unit.size() && text.substr(text.size() - unit.size()) == unit) {
      factor = bytes;
      text.remove_suffix(unit.size());
      break;
    }
  }
  const std::optional<int64_t> number = ParseNumber(absl::StripTrailingAsciiWhitespace(text));
  if (!number.has_value() || *number > std::numeric_limits<int64_t>::max() / factor) {
    return std::nullopt;
  }
  return *number * factor;
}

std::optional<int64_t> ParseMillis(absl::string_view text) {
  absl::Duration duration;
  if (!absl::ParseDuration(text, &duration) || duration < absl::ZeroDuration() ||
      duration == absl::InfiniteDuration()) {
    return std::nullopt;
  }
  return absl::ToInt64Milliseconds(duration);
}

std::string FormatBytes(int64_t bytes) {
  for (const auto& [unit, size] : kUnits) {
    if (bytes >= size && bytes % size == 0) return absl::StrCat(bytes / size, unit);
  }
  return absl::StrCat(bytes);
}

std::string FormatMillis(int64_t ms) { return absl::FormatDuration(absl::Milliseconds(ms)); }

}  // namespace stint
