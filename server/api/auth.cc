#include "server/api/auth.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/api/names.h"
#include "server/api/sha256.h"
#include "server/api/text.h"
#include "server/engine/error.h"

namespace stint::api {
namespace {

constexpr size_t kHexDigestBytes = 64;
constexpr absl::string_view kScheme = "bearer ";

std::string DigestOf(absl::string_view secret) {
  Sha256 hash;
  hash.Add(secret);
  const Sha256Digest digest = hash.Finish();
  return std::string(reinterpret_cast<const char*>(digest.data()), digest.size());
}

absl::Status Unauthenticated(absl::string_view message) {
  return engine::MakeError(engine::Reason::kUnauthenticated, message);
}

}  // namespace

absl::StatusOr<TokensFile> TokensFile::Load(const std::string& path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || !text) {
    // In a container the user is another one than on the host, and only has a number.
    return absl::InvalidArgumentError(
        absl::StrCat("tokens file ", path, " cannot be read by the user ", geteuid(),
                     errno != 0 ? absl::StrCat(": ", std::strerror(errno)) : ""));
  }
  return Parse(text.str(), path);
}

absl::StatusOr<TokensFile> TokensFile::Parse(absl::string_view text, absl::string_view path) {
  TokensFile file;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line.front() == '#') continue;
    const auto error = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("tokens file ", path, ", line ", number, ": ",
                                                     what, "; a line is NAME ROLE sha256:HEX"));
    };
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() != 3) return error("has not three words");
    if (!IsValidId(words[0])) return error(absl::StrCat("NAME must be ", kIdRule));
    if (words[1] != "all") {
      return error(absl::StrCat("ROLE must be all, is ", Quote(words[1])));
    }
    absl::string_view hex = words[2];
    if (!absl::ConsumePrefix(&hex, "sha256:") || hex.size() != kHexDigestBytes ||
        hex.find_first_not_of("0123456789abcdefABCDEF") != absl::string_view::npos) {
      return error("the third word must be sha256: and 64 hexadecimal digits");
    }
    file.lines_.push_back({std::string(words[0]), absl::HexStringToBytes(hex)});
  }
  if (file.lines_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens file ", path, " has no credential: nobody could call"));
  }
  return file;
}

std::optional<std::string> TokensFile::NameOf(absl::string_view secret) const {
  const std::string digest = DigestOf(secret);
  const Line* found = nullptr;
  for (const Line& line : lines_) {
    if (EqualInConstantTime(line.digest, digest)) found = &line;
  }
  if (found == nullptr) return std::nullopt;
  return found->name;
}

absl::StatusOr<std::string> Authenticator::Check(const Credentials& credentials) const {
  if (!required_) return std::string();
  if (credentials.authorization.has_value() && tokens_.has_value()) {
    absl::string_view secret = *credentials.authorization;
    if (!absl::StartsWithIgnoreCase(secret, kScheme)) {
      return Unauthenticated("the authorization header must be: Bearer SECRET");
    }
    secret.remove_prefix(kScheme.size());
    if (auto name = tokens_->NameOf(absl::StripAsciiWhitespace(secret))) return *name;
    return Unauthenticated("the bearer token is not one of this broker's");
  }
  if (accept_certificates_ && credentials.certificate.has_value()) {
    // A slash cannot stand in the name of a token.
    return absl::StrCat("tls/", *credentials.certificate);
  }
  return Unauthenticated(tokens_.has_value() ? "this broker asks for a credential: send the header "
                                               "authorization: Bearer SECRET"
                                             : "this broker asks for a client certificate");
}

}  // namespace stint::api
