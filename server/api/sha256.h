// SHA-256 and HMAC-SHA-256 behind two small faces, so that OpenSSL is included in one place.
// Thread-safe in different objects.
#ifndef STINT_SERVER_API_SHA256_H_
#define STINT_SERVER_API_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace stint::api {

using Sha256Digest = std::array<uint8_t, 32>;

// Hashes what is added, piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(absl::string_view bytes);
  // Once, after the last Add.
  Sha256Digest Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Sha256Digest HmacSha256(absl::string_view key, absl::string_view bytes);

// Compares in a time that does not depend on the contents.
bool EqualInConstantTime(absl::string_view a, absl::string_view b);

// `size` bytes nobody can guess.
std::string RandomBytes(size_t size);

}  // namespace stint::api

#endif  // STINT_SERVER_API_SHA256_H_
