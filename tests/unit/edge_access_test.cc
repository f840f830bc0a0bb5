// Page tokens, the tokens file and who may call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/api/auth.h"
#include "server/api/page_token.h"
#include "server/api/sha256.h"
#include "server/engine/error.h"
#include "tests/support/temp_folder.h"

namespace stint::api {
namespace {

using ::testing::HasSubstr;

TEST(Sha256Test, MatchesKnownValues) {
  Sha256 hash;
  hash.Add("a");
  hash.Add("bc");
  const Sha256Digest digest = hash.Finish();
  EXPECT_EQ(digest[0], 0xba);
  EXPECT_EQ(digest[31], 0xad);
  EXPECT_EQ(HmacSha256("key", "The quick brown fox jumps over the lazy dog")[0], 0xf7);
}

TEST(PageTokenTest, OpensWhatItSealed) {
  const PageTokens tokens(RandomPageKey());
  for (const std::string position : {"", "12345", "a-queue"}) {
    const auto opened = tokens.Open(7, tokens.Seal(7, position));
    ASSERT_TRUE(opened.ok());
    EXPECT_EQ(*opened, position);
  }
}

// S94: damaged, of another listing, of another broker.
TEST(PageTokenTest, RefusesEveryOtherToken) {
  const PageTokens tokens("0123456789abcdef0123456789abcdef");
  const std::string token = tokens.Seal(7, "12345");
  const auto refused = [&](const PageTokens& by, uint64_t filter, const std::string& text) {
    const absl::Status status = by.Open(filter, text).status();
    EXPECT_EQ(engine::ReasonOf(status), engine::Reason::kInvalidRequest) << text;
    const auto details = engine::DetailsOf(status);
    return details.has_value() && details->violations.size() == 1 &&
           details->violations.front().first == "page_token";
  };
  EXPECT_TRUE(refused(tokens, 8, token));
  EXPECT_TRUE(refused(PageTokens(RandomPageKey()), 7, token));
  EXPECT_TRUE(refused(tokens, 7, "x"));
  EXPECT_TRUE(refused(tokens, 7, "!!!!"));
  EXPECT_TRUE(refused(tokens, 7, token.substr(0, token.size() - 4)));
  EXPECT_TRUE(refused(tokens, 7, token + "AAAA"));
  EXPECT_TRUE(refused(tokens, 7, std::string(1 << 20, 'A')));
  for (size_t i = 0; i < token.size(); ++i) {
    std::string damaged = token;
    damaged[i] = damaged[i] == 'A' ? 'B' : 'A';
    EXPECT_TRUE(refused(tokens, 7, damaged)) << i;
  }
}

TEST(PageTokenTest, TheKeyOutlivesTheProcess) {
  const test::TempFolder folder;
  const auto first = LoadPageKey(folder.path());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->size(), 32u);
  const auto again = LoadPageKey(folder.path());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(*again, *first);
  struct stat info {};
  ASSERT_EQ(stat(folder.File("PAGE_KEY").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);

  test::WriteFile(folder.File("PAGE_KEY"), "short");
  EXPECT_THAT(std::string(LoadPageKey(folder.path()).status().message()),
              HasSubstr(folder.File("PAGE_KEY")));
  EXPECT_FALSE(LoadPageKey(folder.File("missing")).ok());
}

// SHA-256 of "secret".
constexpr char kDigest[] = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

TEST(TokensFileTest, FindsTheNameOfASecret) {
  const auto file = TokensFile::Parse(
      absl::StrCat("# who may call\n\n  mailer  all\tsha256:", kDigest, "  \r\n"), "tokens");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->size(), 1u);
  EXPECT_EQ(file->NameOf("secret"), "mailer");
  EXPECT_FALSE(file->NameOf("Secret").has_value());
  EXPECT_FALSE(file->NameOf("").has_value());
}

TEST(TokensFileTest, BadLinesAreNamed) {
  const auto error = [](const std::string& text) {
    return std::string(TokensFile::Parse(text, "/etc/tokens").status().message());
  };
  const std::string good = absl::StrCat("a all sha256:", kDigest, "\n");
  EXPECT_THAT(error(good + "mailer all\n"), HasSubstr("tokens file /etc/tokens, line 2:"));
  EXPECT_THAT(error(absl::StrCat("a/b all sha256:", kDigest)), HasSubstr("NAME must be"));
  EXPECT_THAT(error(absl::StrCat("a work sha256:", kDigest)), HasSubstr("ROLE must be all"));
  EXPECT_THAT(error(absl::StrCat("a all md5:", kDigest)), HasSubstr("sha256:"));
  EXPECT_THAT(error("a all sha256:abcd"), HasSubstr("64 hexadecimal digits"));
  EXPECT_THAT(error("# nothing\n"), HasSubstr("has no credential"));
  // A secret pasted where its hash belongs is not repeated in the message.
  EXPECT_THAT(error("a all my-secret"), ::testing::Not(HasSubstr("my-secret")));
  EXPECT_THAT(
      std::string(TokensFile::Load("/nowhere/tokens").status().message()),
      AllOf(HasSubstr("/nowhere/tokens cannot be read by the user"), HasSubstr("No such file")));
}

TEST(AuthenticatorTest, AnOpenBrokerAsksNobody) {
  const auto identity = Authenticator().Check({});
  ASSERT_TRUE(identity.ok());
  EXPECT_EQ(*identity, "");
}

TEST(AuthenticatorTest, TakesTokensAndCertificates) {
  const auto file = TokensFile::Parse(absl::StrCat("mailer all sha256:", kDigest), "tokens");
  ASSERT_TRUE(file.ok());
  const auto check = [](const Authenticator& who, Credentials credentials) {
    const auto identity = who.Check(credentials);
    if (!identity.ok()) {
      EXPECT_EQ(engine::ReasonOf(identity.status()), engine::Reason::kUnauthenticated);
      return std::string("refused");
    }
    return *identity;
  };
  const Authenticator tokens(*file, false);
  EXPECT_EQ(check(tokens, {"Bearer secret", {}}), "mailer");
  EXPECT_EQ(check(tokens, {"bearer  secret ", {}}), "mailer");
  EXPECT_EQ(check(tokens, {"Bearer wrong", {}}), "refused");
  EXPECT_EQ(check(tokens, {"Basic secret", {}}), "refused");
  EXPECT_EQ(check(tokens, {"secret", {}}), "refused");
  EXPECT_EQ(check(tokens, {"", {}}), "refused");
  EXPECT_EQ(check(tokens, {}), "refused");
  EXPECT_EQ(check(tokens, {{}, "cn"}), "refused");

  const Authenticator both(*file, true);
  EXPECT_EQ(check(both, {{}, "worker-1"}), "tls/worker-1");
  EXPECT_EQ(check(both, {"Bearer secret", "worker-1"}), "mailer");
  EXPECT_EQ(check(both, {"Bearer wrong", "worker-1"}), "refused");

  const Authenticator certificates(std::nullopt, true);
  EXPECT_EQ(check(certificates, {{}, "worker-1"}), "tls/worker-1");
  EXPECT_EQ(check(certificates, {"Bearer secret", {}}), "refused");
}

}  // namespace
}  // namespace stint::api
