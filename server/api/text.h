// Text from outside, made fit to store or to show. Thread-safe: functions without state.
#ifndef STINT_SERVER_API_TEXT_H_
#define STINT_SERVER_API_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace stint::api {

// The longest beginning of UTF-8 `text` that is at most `max_bytes` and cuts no character.
absl::string_view Utf8Prefix(absl::string_view text, size_t max_bytes);

// `text` in at most `max_bytes` (at least 64): when it is longer, its beginning and a mark
// that says how long it was.
std::string Shorten(std::string text, size_t max_bytes);

// A short excerpt for a message, in double quotes: at most 40 bytes of `text`, everything
// outside printable ASCII escaped.
std::string Quote(absl::string_view text);

}  // namespace stint::api

#endif  // STINT_SERVER_API_TEXT_H_
