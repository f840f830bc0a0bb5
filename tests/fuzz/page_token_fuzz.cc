// Page tokens: only what was sealed opens, and it opens to what was sealed.
//
// Input: 2 bytes that say which byte of a sealed token to change and how; a text, the position;
// the rest is taken for a token.
#include <string>

#include "server/api/page_token.h"
#include "tests/fuzz/fuzz_input.h"

using stint::test::Require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const stint::api::PageTokens kTokens(std::string(32, 'k'));
  static const stint::api::PageTokens kOthers(std::string(32, 'o'));
  constexpr uint64_t kFilter = 0x0123456789abcdef;

  stint::test::Input input(data, size);
  const size_t place = input.U8();
  const auto change = static_cast<char>(input.U8());
  const absl::string_view position = input.Text();

  const std::string sealed = kTokens.Seal(kFilter, position);
  const auto opened = kTokens.Open(kFilter, sealed);
  Require(opened.ok() && *opened == position, "a sealed token opens to its position");
  Require(!kTokens.Open(kFilter + 1, sealed).ok(), "a token belongs to one filter");
  Require(!kOthers.Open(kFilter, sealed).ok(), "a token belongs to one key");

  std::string changed = sealed;
  changed[place % changed.size()] = static_cast<char>(changed[place % changed.size()] ^ change);
  const auto reopened = kTokens.Open(kFilter, changed);
  Require(!reopened.ok() || *reopened == position, "a changed token opens to nothing else");

  const auto foreign = kTokens.Open(kFilter, input.Rest());
  if (!foreign.ok()) {
    Require(foreign.status().code() == absl::StatusCode::kInvalidArgument,
            "a token that does not open is the caller's mistake");
  }
  return 0;
}
