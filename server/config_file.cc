#include "server/config_file.h"

#include <toml++/toml.h>

#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace stint {
namespace {

std::optional<std::string> ValueOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return absl::StrCat(number->get());
  if (const auto* truth = node.as_boolean()) return std::string(truth->get() ? "true" : "false");
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<ConfigFileEntry>> ReadConfigFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || !text) {
    return absl::InvalidArgumentError(absl::StrCat("config file ", path, " cannot be read"));
  }
  toml::table table;
  try {
    table = toml::parse(text.str());
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(absl::StrCat("config file ", path, ", line ",
                                                   error.source().begin.line, ": ",
                                                   std::string(error.description())));
  }
  std::vector<ConfigFileEntry> entries;
  for (const auto& [key, node] : table) {
    const int line = static_cast<int>(node.source().begin.line);
    const std::optional<std::string> value = ValueOf(node);
    if (!value.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("config file ", path, ", line ", line, ": ", std::string(key.str()),
                       " must be a text, a whole number, true or false"));
    }
    entries.push_back({std::string(key.str()), *value, line});
  }
  return entries;
}

std::string QuoteToml(absl::string_view value) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(value), "\"");
}

}  // namespace stint
