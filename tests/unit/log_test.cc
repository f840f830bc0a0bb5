// Log lines: one line each, whatever is in them.
#include "server/ops/log.h"

#include <gtest/gtest.h>

#include <string>

namespace stint::ops {
namespace {

TEST(LogTest, TextNamesItsFields) {
  EXPECT_EQ(FormatLogText("ready", {}), "ready");
  EXPECT_EQ(FormatLogText("ready", {{"address", "127.0.0.1:1"}, {"empty", ""}, {"two", "a b"}}),
            "ready address=127.0.0.1:1 empty=\"\" two=\"a b\"");
}

TEST(LogTest, NothingBreaksTheLine) {
  EXPECT_EQ(FormatLogText("a\nb", {{"k", "c\n\"d\" \x1b"}}), "a\\nb k=\"c\\n\\\"d\\\" \\033\"");
  EXPECT_EQ(FormatLogJson("a\nb", {{"k", "\"\\\t\xC3\xA4"}}),
            "\"message\":\"a\\u000ab\",\"k\":\"\\\"\\\\\\u0009\xC3\xA4\"");
}

}  // namespace
}  // namespace stint::ops
