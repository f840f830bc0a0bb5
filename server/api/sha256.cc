#include "server/api/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <cstdlib>

namespace stint::api {
namespace {

// OpenSSL fails here only when memory is exhausted or its installation is broken; there is
// no sensible way on.
void Require(bool ok) {
  if (!ok) std::abort();
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  Require(EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::Add(absl::string_view bytes) {
  Require(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest{};
  unsigned int size = 0;
  Require(EVP_DigestFinal_ex(state_->context, digest.data(), &size) == 1 && size == digest.size());
  return digest;
}

Sha256Digest HmacSha256(absl::string_view key, absl::string_view bytes) {
  Sha256Digest digest{};
  unsigned int size = 0;
  Require(HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
               reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data(),
               &size) != nullptr &&
          size == digest.size());
  return digest;
}

bool EqualInConstantTime(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomBytes(size_t size) {
  std::string bytes(size, '\0');
  Require(RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(size)) == 1);
  return bytes;
}

}  // namespace stint::api
