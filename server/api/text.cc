#include "server/api/text.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace stint::api {
namespace {

constexpr size_t kMaxQuotedBytes = 40;

bool IsContinuationByte(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && IsContinuationByte(text[end])) --end;
  return text.substr(0, end);
}

std::string Shorten(std::string text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  const std::string mark = absl::StrCat(" [shortened from ", text.size(), " bytes]");
  text.resize(Utf8Prefix(text, max_bytes - mark.size()).size());
  text.append(mark);
  return text;
}

std::string Quote(absl::string_view text) {
  const bool longer = text.size() > kMaxQuotedBytes;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kMaxQuotedBytes)),
                      longer ? "...\"" : "\"");
}

}  // namespace stint::api
