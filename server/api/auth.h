// Who may call: the tokens file and the check of one call's credentials, without gRPC.
//
// The file has one credential a line, and comments:
//
//   # NAME ROLE sha256:HEX
//   mailer all sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//
// NAME follows the rule for ids and identifies the caller (two lines may share it, to change
// a secret without a gap), ROLE is `all`, HEX is the SHA-256 of the secret a caller sends as
// `authorization: Bearer SECRET`. The file holds no secret. It is read once, at start.
//
// Thread-safe after construction.
#ifndef STINT_SERVER_API_AUTH_H_
#define STINT_SERVER_API_AUTH_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stint::api {

class TokensFile {
 public:
  // Errors name the file and the line.
  static absl::StatusOr<TokensFile> Load(const std::string& path);
  static absl::StatusOr<TokensFile> Parse(absl::string_view text, absl::string_view path);

  // The name of the credential with this secret. Takes as long whatever the secret.
  std::optional<std::string> NameOf(absl::string_view secret) const;

  size_t size() const { return lines_.size(); }

 private:
  struct Line {
    std::string name;
    std::string digest;  // 32 bytes
  };
  std::vector<Line> lines_;
};

// What a call brought to say who it is.
struct Credentials {
  // The `authorization` header, if there was one.
  std::optional<absl::string_view> authorization;
  // The common name of the verified client certificate, if there was one.
  std::optional<std::string> certificate;
};

class Authenticator {
 public:
  // Lets everybody in.
  Authenticator() = default;
  // Asks for a credential: a token of `tokens`, or a client certificate if
  // `accept_certificates`.
  Authenticator(std::optional<TokensFile> tokens, bool accept_certificates)
      : required_(true), tokens_(std::move(tokens)), accept_certificates_(accept_certificates) {}

  // The caller's identity ("" on an open broker), or UNAUTHENTICATED.
  absl::StatusOr<std::string> Check(const Credentials& credentials) const;

 private:
  bool required_ = false;
  std::optional<TokensFile> tokens_;
  bool accept_certificates_ = false;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_AUTH_H_
