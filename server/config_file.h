// The TOML file of settings: flat, one key a setting. Thread-safe: functions without state.
#ifndef STINT_SERVER_CONFIG_FILE_H_
#define STINT_SERVER_CONFIG_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stint {

struct ConfigFileEntry {
  std::string key;
  // Texts without their quotes; numbers and true, false as written.
  std::string value;
  int line = 0;
};

// Errors name the file and the line.
absl::StatusOr<std::vector<ConfigFileEntry>> ReadConfigFile(const std::string& path);

// `value` as it stands in such a file.
std::string QuoteToml(absl::string_view value);

}  // namespace stint

#endif  // STINT_SERVER_CONFIG_FILE_H_
