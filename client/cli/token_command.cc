// stint token create
#include <openssl/evp.h>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cpp/random_id.h"
#include "google/protobuf/struct.pb.h"

namespace stint::cli {
namespace {

constexpr size_t kSecretBytes = 32;
constexpr size_t kMaxNameBytes = 128;

struct TokenOptions {
  std::string name;
  std::string role = "all";
};

// The rule for ids: letters, digits and . _ : -, first a letter or digit.
absl::Status CheckName(absl::string_view name) {
  const auto plain = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)); };
  bool valid = !name.empty() && name.size() <= kMaxNameBytes && plain(name[0]);
  for (const char c : name) {
    valid = valid && (plain(c) || c == '.' || c == '_' || c == ':' || c == '-');
  }
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "a credential's name is 1 to 128 of A-Z a-z 0-9 . _ : -, first a letter or digit");
}

std::string Sha256Hex(absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr) != 1) return "";
  return absl::BytesToHexString(
      absl::string_view(static_cast<const char*>(static_cast<const void*>(digest)), size));
}

int RunCreate(const TokenOptions& options, Session& session) {
  const absl::Status valid = CheckName(options.name);
  if (!valid.ok()) return session.Misuse(valid);
  const std::string secret =
      absl::StrCat("stint_", absl::WebSafeBase64Escape(client::RandomBytes(kSecretBytes)));
  const std::string digest = Sha256Hex(secret);
  if (digest.empty()) {
    return session.Fail("make a credential", absl::InternalError("SHA-256 is not available"));
  }
  const std::string line = absl::StrCat(options.name, " ", options.role, " sha256:", digest);
  if (session.json()) {
    google::protobuf::Struct both;
    (*both.mutable_fields())["secret"].set_string_value(secret);
    (*both.mutable_fields())["line"].set_string_value(line);
    session.PrintJson(both);
    return kOk;
  }
  session.out() << secret << '\n' << line << '\n';
  if (session.align()) {
    session.err() << "\nFirst line: the secret, for the client's --token-file; it is kept nowhere "
                     "else.\nSecond line: for the broker's tokens file.\n";
  }
  return kOk;
}

}  // namespace

void AddTokenCommand(CLI::App& root, Session& session) {
  CLI::App* const token = root.add_subcommand("token", "Make credentials; needs no broker");
  token->require_subcommand(1);
  auto options = std::make_shared<TokenOptions>();
  CLI::App* const create = token->add_subcommand("create", "Make a credential");
  create->add_option("name", options->name, "Who it is for: the name the broker knows it by")
      ->required();
  create->add_option("--role", options->role, "What it allows")
      ->capture_default_str()
      ->check(CLI::IsMember({"all"}));
  create->footer(R"(
Prints the secret and, on the second line, what the broker's tokens file has to hold. Example:
  umask 077
  stint token create mailer | { read -r secret; echo "$secret" > mailer.token; cat >> tokens; }
  stintd --tokens-file tokens &
  stint server info --token-file mailer.token)");
  session.OnChosen(create, [options, &session] { return RunCreate(*options, session); });
}

}  // namespace stint::cli
