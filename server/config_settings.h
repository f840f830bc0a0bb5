// The table of settings: one row each, with form, range, default and what it is for.
#ifndef STINT_SERVER_CONFIG_SETTINGS_H_
#define STINT_SERVER_CONFIG_SETTINGS_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/config.h"

namespace stint {

enum class Form { kText, kChoice, kSwitch, kNumber, kBytes, kDuration };

struct Setting {
  absl::string_view name;
  Form form = Form::kText;
  std::variant<std::string Config::*, bool Config::*, int64_t Config::*> member;
  // The default, as one would write it.
  absl::string_view standard;
  // Of kNumber, kBytes and kDuration (milliseconds).
  int64_t min = 0;
  int64_t max = 0;
  absl::string_view help;
  // Of kChoice: with ", " between them.
  absl::string_view choices;
};

// In the order in which they are shown.
absl::Span<const Setting> Settings();

}  // namespace stint

#endif  // STINT_SERVER_CONFIG_SETTINGS_H_
