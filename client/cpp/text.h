// Text that may be sent: protobuf strings must be valid UTF-8, and error texts have a limit.
// Thread rule: no state.
#ifndef STINT_CLIENT_CPP_TEXT_H_
#define STINT_CLIENT_CPP_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace stint::client {

// Longest error text the broker keeps of a failure.
inline constexpr size_t kMaxErrorBytes = 8 * 1024;

bool IsValidUtf8(absl::string_view text);

// `text` with each byte that is not valid UTF-8 replaced by U+FFFD.
std::string ToValidUtf8(absl::string_view text);

// Valid UTF-8 of at most `max_bytes`. What is longer is cut at a character and ends with a
// mark that says how many bytes there were. `max_bytes` is at least 64.
std::string ShortenedText(absl::string_view text, size_t max_bytes);

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_TEXT_H_
