#include "client/cpp/text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stint::client {
namespace {

unsigned char ByteAt(absl::string_view text, size_t at) {
  return static_cast<unsigned char>(text[at]);
}

bool IsContinuation(absl::string_view text, size_t at) {
  return at < text.size() && (ByteAt(text, at) & 0xC0) == 0x80;
}

// Length of the valid character that starts at `at`, or 0. RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF.
size_t CharacterLength(absl::string_view text, size_t at) {
  const unsigned char first = ByteAt(text, at);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4 || !IsContinuation(text, at + 1)) return 0;
  if (first < 0xE0) return 2;
  const unsigned char second = ByteAt(text, at + 1);
  if (!IsContinuation(text, at + 2)) return 0;
  if (first < 0xF0) {
    if (first == 0xE0 && second < 0xA0) return 0;
    if (first == 0xED && second > 0x9F) return 0;
    return 3;
  }
  if (first == 0xF0 && second < 0x90) return 0;
  if (first == 0xF4 && second > 0x8F) return 0;
  return IsContinuation(text, at + 3) ? 4 : 0;
}

}  // namespace

bool IsValidUtf8(absl::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterLength(text, at);
    if (length == 0) return false;
    at += length;
  }
  return true;
}

std::string ToValidUtf8(absl::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = CharacterLength(text, at);
    if (length == 0) {
      valid += "\xEF\xBF\xBD";
      ++at;
    } else {
      valid.append(text.data() + at, length);
      at += length;
    }
  }
  return valid;
}

std::string ShortenedText(absl::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    std::string valid = ToValidUtf8(text);
    if (valid.size() <= max_bytes) return valid;
  }
  const std::string mark = absl::StrCat(" ... [shortened, was ", text.size(), " bytes]");
  // A text of 20 MiB need not be walked to keep 8 KiB of it.
  std::string kept = ToValidUtf8(text.substr(0, max_bytes));
  size_t end = std::min(kept.size(), max_bytes - mark.size());
  while (end > 0 && end < kept.size() && IsContinuation(kept, end)) --end;
  kept.resize(end);
  return kept + mark;
}

}  // namespace stint::client
