#include "server/config_file.h"

#include <toml++/toml.h>

#include <fstream>
#include <optional>

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

// The parser goes one call deeper for each part of a dotted key, so this bounds the stack as well.
constexpr size_t kMaxConfigFileBytes = 64 * 1024;

}  // namespace

absl::StatusOr<std::vector<ConfigFileEntry>> ReadConfigFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMaxConfigFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (!in && !in.eof())) {
    return absl::InvalidArgumentError(absl::StrCat("config file ", path, " cannot be read"));
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxConfigFileBytes) {
    return absl::InvalidArgumentError(absl::StrCat("config file ", path, " is larger than 64 KiB"));
  }
  toml::table table;
  try {
    table = toml::parse(text);
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
