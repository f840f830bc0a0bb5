// What is said of a data folder before a store is opened in it.
#include "storage/store_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "storage/owner.h"
#include "tests/support/temp_folder.h"

namespace stint::storage {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST(StoreFolderTest, AMissingParentIsNamedWithWhatToDo) {
  const test::TempFolder folder;
  const std::string text = Text(MakeFolder(folder.File("a/b")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("mkdir -p ", folder.File("a"))));
  EXPECT_THAT(text, HasSubstr("a/b: No such file or directory"));
  EXPECT_THAT(text, Not(HasSubstr(": :")));
}

TEST(StoreFolderTest, AFileIsNoFolder) {
  const test::TempFolder folder;
  test::WriteFile(folder.File("file"), "text");
  EXPECT_THAT(Text(MakeFolder(folder.File("file"))), HasSubstr("is a file"));
  const std::string text = Text(Owner::Take(folder.File("file"), "now").status());
  EXPECT_THAT(text, HasSubstr("OWNER: Not a directory"));
  EXPECT_THAT(text, Not(HasSubstr("writable")));
}

TEST(StoreFolderTest, FilesOfOthersAreSeen) {
  const test::TempFolder folder;
  for (const char* const ours : {"OWNER", "LOCK", "LOG", "LOG.old.17", "IDENTITY", "RESERVE"}) {
    test::WriteFile(folder.File(ours), "");
  }
  auto state = InspectFolder(folder.File("."));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_THAT(state->foreign, IsEmpty());
  test::WriteFile(folder.File("thesis.txt"), "text");
  state = InspectFolder(folder.File("."));
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_FALSE(state->has_store);
  EXPECT_THAT(state->foreign, ElementsAre("thesis.txt"));
}

}  // namespace
}  // namespace stint::storage
