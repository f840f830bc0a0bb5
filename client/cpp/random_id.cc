#include "client/cpp/random_id.h"

#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace stint::client {
namespace {

constexpr size_t kMaxHostCharacters = 64;

}  // namespace

std::string RandomBytes(size_t count) {
  std::string bytes(count, '\0');
  size_t filled = 0;
  while (filled < count) {
    const ssize_t got = getrandom(bytes.data() + filled, count - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      std::perror("stint: the kernel gives no random bytes (getrandom)");
      std::abort();
    }
    filled += static_cast<size_t>(got);
  }
  return bytes;
}

std::string RandomId() { return absl::BytesToHexString(RandomBytes(16)); }

std::string RandomWorkerId() {
  char name[256] = {};
  std::string host = gethostname(name, sizeof(name) - 1) == 0 ? name : "";
  if (host.size() > kMaxHostCharacters) host.resize(kMaxHostCharacters);
  for (char& c : host) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '-';
  }
  if (host.empty() || !absl::ascii_isalnum(static_cast<unsigned char>(host[0]))) {
    host = absl::StrCat("host", host);
  }
  return absl::StrCat(host, ":", getpid(), ":", absl::BytesToHexString(RandomBytes(4)));
}

}  // namespace stint::client
