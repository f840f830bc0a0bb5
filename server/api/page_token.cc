#include "server/api/page_token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/api/sha256.h"
#include "server/api/violations.h"

namespace stint::api {
namespace {

constexpr char kVersion = 1;
constexpr size_t kHashBytes = 8;
constexpr size_t kTagBytes = 16;
constexpr size_t kKeyBytes = 32;
// A position is a sequence or a queue's name.
constexpr size_t kMaxTokenBytes = 512;
constexpr mode_t kKeyMode = 0600;

std::string HashText(uint64_t hash) {
  std::string text(kHashBytes, '\0');
  for (size_t i = 0; i < kHashBytes; ++i) {
    text[i] = static_cast<char>(hash >> (8 * (kHashBytes - 1 - i)));
  }
  return text;
}

absl::Status Refusal(absl::string_view description) {
  Violations violations;
  violations.Add("page_token", description);
  return violations.ToStatus();
}

absl::Status FileError(absl::string_view what, absl::string_view path) {
  return absl::InternalError(absl::StrCat("cannot ", what, " ", path, ": ", strerror(errno)));
}

// Closes on every way out.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

absl::StatusOr<std::string> ReadKey(int descriptor, const std::string& path) {
  char bytes[kKeyBytes + 1];
  size_t size = 0;
  while (size < sizeof(bytes)) {
    const ssize_t got = read(descriptor, bytes + size, sizeof(bytes) - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return FileError("read", path);
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  if (size != kKeyBytes) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is not a page key (", kKeyBytes,
                     " bytes): remove it; only page tokens handed out before become invalid"));
  }
  return std::string(bytes, size);
}

}  // namespace

absl::StatusOr<std::string> LoadPageKey(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/PAGE_KEY");
  if (const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC)); file.get() >= 0) {
    return ReadKey(file.get(), path);
  }
  if (errno != ENOENT) return FileError("open", path);

  // Written under another name first: a crash leaves the whole key or none.
  const std::string draft = absl::StrCat(path, ".new");
  const std::string key = RandomPageKey();
  {
    const File file(open(draft.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kKeyMode));
    if (file.get() < 0) return FileError("create", draft);
    if (write(file.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size()) ||
        fsync(file.get()) != 0) {
      return FileError("write", draft);
    }
  }
  if (rename(draft.c_str(), path.c_str()) != 0) return FileError("rename to", path);
  return key;
}

std::string RandomPageKey() { return RandomBytes(kKeyBytes); }

std::string PageTokens::Tag(absl::string_view body) const {
  const Sha256Digest digest = HmacSha256(key_, body);
  return std::string(reinterpret_cast<const char*>(digest.data()), kTagBytes);
}

std::string PageTokens::Seal(uint64_t filter_hash, absl::string_view position) const {
  std::string body = absl::StrCat(std::string(1, kVersion), HashText(filter_hash), position);
  body.append(Tag(body));
  return absl::WebSafeBase64Escape(body);
}

absl::StatusOr<std::string> PageTokens::Open(uint64_t filter_hash, absl::string_view token) const {
  constexpr absl::string_view kUnknown =
      "is not a page token of this broker: begin again without one";
  std::string sealed;
  if (token.size() > kMaxTokenBytes || !absl::WebSafeBase64Unescape(token, &sealed) ||
      sealed.size() < 1 + kHashBytes + kTagBytes) {
    return Refusal(kUnknown);
  }
  const absl::string_view body = absl::string_view(sealed).substr(0, sealed.size() - kTagBytes);
  const absl::string_view tag = absl::string_view(sealed).substr(sealed.size() - kTagBytes);
  if (!EqualInConstantTime(Tag(body), tag) || body[0] != kVersion) return Refusal(kUnknown);
  if (body.substr(1, kHashBytes) != HashText(filter_hash)) {
    return Refusal("belongs to a listing with other fields: repeat those, or begin without one");
  }
  return std::string(body.substr(1 + kHashBytes));
}

}  // namespace stint::api
