// Page tokens: where the next page begins, sealed so that nobody can make or change one.
//
//   base64url( version 1 byte · filter hash 8 bytes · position · HMAC-SHA-256, 16 bytes )
//
// The filter hash ties a token to the listing it came from. The key lies in the data folder
// (file PAGE_KEY), so that tokens stay good over a restart; a store without a folder has one
// for the life of the process. Thread-safe.
#ifndef STINT_SERVER_API_PAGE_TOKEN_H_
#define STINT_SERVER_API_PAGE_TOKEN_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stint::api {

// Reads the key of the data folder `folder`, making it (mode 0600) if it is missing. A file
// that is no key is an error that names it.
absl::StatusOr<std::string> LoadPageKey(const std::string& folder);
// A key for a store without a folder.
std::string RandomPageKey();

// Room in an answer for the token, and for the tags around each item of the page.
inline constexpr size_t kPageOverheadBytes = 4096;
inline constexpr size_t kItemOverheadBytes = 16;

class PageTokens {
 public:
  explicit PageTokens(std::string key) : key_(std::move(key)) {}

  std::string Seal(uint64_t filter_hash, absl::string_view position) const;
  // The position; INVALID_REQUEST naming `page_token` when the token is damaged, made by
  // another broker, or of a listing with another filter.
  absl::StatusOr<std::string> Open(uint64_t filter_hash, absl::string_view token) const;

 private:
  std::string Tag(absl::string_view body) const;

  const std::string key_;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_PAGE_TOKEN_H_
