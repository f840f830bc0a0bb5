// What the RocksDB store does beyond the contract: its lock, its checks before an open, crashes.
// Closing a store writes nothing, so the folder of a closed store is as a kill would leave it;
// rocks_kill_test.cc kills for real.
#include "storage/rocks_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/format.h"
#include "storage/keys.h"
#include "storage/log_scanner.h"
#include "storage/record.pb.h"
#include "tests/support/groups.h"
#include "tests/support/log_writer.h"
#include "tests/support/temp_folder.h"

namespace stint::storage {
namespace {

namespace fs = std::filesystem;
using test::CommitGroup;
using test::JobsWithoutGap;
using test::LastGroup;
using test::ReadFile;
using test::WriteFile;
using test::WriteGroup;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

class RocksStoreTest : public testing::Test {
 protected:
  RocksStoreTest() { fs::create_directory(live()); }

  // Where the store runs, and where its crashed copy is put.
  std::string live() const { return folder_.File("live"); }
  std::string copy() const { return folder_.File("copy"); }

  RocksOptions Options(const std::string& folder) {
    RocksOptions options;
    options.folder = folder;
    options.reserve_bytes = 1 << 20;
    options.release = "1.2.3";
    options.start_time = "2024-06-01T12:00:00Z";
    options.log = [this](LogLevel level, absl::string_view line) {
      if (level != LogLevel::kInfo) log_ += absl::StrCat(line, "\n");
    };
    return options;
  }

  absl::StatusOr<std::unique_ptr<Store>> TryOpen(const std::string& folder) {
    log_.clear();
    return RocksStore::Open(Options(folder));
  }

  std::unique_ptr<Store> Open(const std::string& folder) {
    auto store = TryOpen(folder);
    EXPECT_TRUE(store.ok()) << store.status();
    return store.ok() ? *std::move(store) : nullptr;
  }

  // Opens, expects `groups` groups, and that the store can be written.
  void ExpectOpens(const std::string& folder, uint64_t groups) {
    const std::unique_ptr<Store> store = Open(folder);
    ASSERT_NE(store, nullptr);
    EXPECT_EQ(LastGroup(*store), groups);
    EXPECT_EQ(JobsWithoutGap(*store), groups);
    ASSERT_TRUE(WriteGroup(store.get(), groups + 1).ok());
    EXPECT_EQ(JobsWithoutGap(*store), groups + 1);
  }

  // Expects a refusal as kDataLoss that left every file as it was; gives its text.
  std::string ExpectRefuses(const std::string& folder) {
    const std::map<std::string, std::string> before = Contents(folder);
    const auto store = TryOpen(folder);
    EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss) << store.status();
    EXPECT_THAT(Text(store.status()), HasSubstr("CORRUPT_RECORD"));
    EXPECT_EQ(Contents(folder), before);
    return Text(store.status());
  }

  // Ends the store in live() and copies what it leaves.
  void Crash() {
    store_.reset();
    fs::remove_all(copy());
    fs::copy(live(), copy());
  }

  // Every file that counts.
  static std::map<std::string, std::string> Contents(const std::string& folder) {
    std::map<std::string, std::string> contents;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name != "OWNER" && name != "RESERVE") contents[name] = ReadFile(entry.path().string());
    }
    return contents;
  }

  static std::vector<std::string> FilesNamed(
      const std::string& folder, const std::function<bool(const std::string&)>& wanted) {
    std::vector<std::string> files;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (wanted(entry.path().filename().string())) files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    return files;
  }

  static std::vector<std::string> Logs(const std::string& folder) {
    return FilesNamed(folder, [](const std::string& name) { return LogNumber(name).has_value(); });
  }

  // Opens the store in live() as store_.
  void Start() {
    store_ = Open(live());
    ASSERT_NE(store_, nullptr);
  }

  test::TempFolder folder_;
  std::unique_ptr<Store> store_;
  std::string log_;
};

// --- The lock --------------------------------------------------------------------------------

TEST_F(RocksStoreTest, ASecondOpenIsRefusedAndNamesTheHolder) {
  Start();
  const auto refused = TryOpen(live());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  char host[256] = {};
  ASSERT_EQ(gethostname(host, sizeof(host) - 1), 0);
  EXPECT_THAT(Text(refused.status()), HasSubstr(live()));
  EXPECT_THAT(Text(refused.status()), HasSubstr(absl::StrCat("host ", host)));
  EXPECT_THAT(Text(refused.status()), HasSubstr(absl::StrCat("pid ", getpid())));
  EXPECT_THAT(Text(refused.status()), HasSubstr("started 2024-06-01T12:00:00Z"));
  EXPECT_THAT(Text(refused.status()), HasSubstr("Stop that one first"));
  ASSERT_TRUE(WriteGroup(store_.get(), 1).ok());
  ASSERT_TRUE(store_->Recover().ok());
  EXPECT_EQ(TryOpen(live()).status().code(), absl::StatusCode::kFailedPrecondition);
  store_.reset();
  ExpectOpens(live(), 1);
}

TEST_F(RocksStoreTest, AFolderThatCannotBeMadeIsRefused) {
  const auto refused = TryOpen(folder_.File("no/such/parent"));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Text(refused.status()), HasSubstr("no/such/parent"));
}

TEST_F(RocksStoreTest, AFileInPlaceOfTheFolderIsRefused) {
  WriteFile(folder_.File("file"), "x");
  EXPECT_EQ(TryOpen(folder_.File("file")).status().code(), absl::StatusCode::kFailedPrecondition);
}

// --- The format ------------------------------------------------------------------------------

TEST_F(RocksStoreTest, AFolderThatIsDeletedWhileItIsOpenTakesNoMore) {
  Start();
  ASSERT_TRUE(WriteGroup(store_.get(), 1).ok());
  ASSERT_EQ(unlink(absl::StrCat(live(), "/OWNER").c_str()), 0);
  store_->CheckSpace();
  EXPECT_EQ(WriteGroup(store_.get(), 2).code(), absl::StatusCode::kInternal);
}

TEST_F(RocksStoreTest, AFreshStoreIsStamped) {
  Start();
  const auto row = store_->MultiGet({FormatRowKey()});
  ASSERT_TRUE(row.ok() && row->at(0));
  record::FormatRecord stamp;
  ASSERT_TRUE(stamp.ParseFromString(*row->at(0)));
  EXPECT_EQ(stamp.format(), kFormat);
  EXPECT_EQ(stamp.readable_by(), kReadableBy);
  EXPECT_EQ(stamp.release(), "1.2.3");
}

TEST_F(RocksStoreTest, ANewerFormatIsRefused) {
  record::FormatRecord newer;
  newer.set_format(kFormat + 2);
  newer.set_readable_by(kFormat + 1);
  newer.set_release("9.8.7");
  Start();
  Batch batch = test::GroupBatch(1, 0);
  batch.Put(FormatRowKey(), newer.SerializeAsString());
  ASSERT_TRUE(store_->Sync(*store_->Commit(batch, store_->epoch())).ok());
  store_.reset();
  // Once with the stamp in the log, once with it in a table.
  for (int i = 0; i < 2; ++i) {
    const auto refused = TryOpen(live());
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(Text(refused.status()), HasSubstr("format 3"));
    EXPECT_THAT(Text(refused.status()), HasSubstr("release 9.8.7"));
    EXPECT_THAT(Text(refused.status()), HasSubstr("knows format 1"));
    EXPECT_THAT(Text(refused.status()), HasSubstr("release 1.2.3"));
  }
  // From a table it is refused before anything is written.
  const std::map<std::string, std::string> before = Contents(live());
  EXPECT_FALSE(TryOpen(live()).ok());
  EXPECT_EQ(Contents(live()), before);
}

TEST(Format, ANewerStoreThatWeMayReadIsTaken) {
  record::FormatRecord stamp;
  stamp.set_format(kFormat + 1);
  stamp.set_readable_by(kFormat);
  EXPECT_TRUE(CheckFormat(stamp.SerializeAsString(), "").ok());
  EXPECT_TRUE(CheckFormat(FormatRow("x"), "").ok());
  EXPECT_EQ(CheckFormat("", "").code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(CheckFormat("\xff\xff", "").code(), absl::StatusCode::kDataLoss);
}

// --- Crashes ---------------------------------------------------------------------------------

TEST_F(RocksStoreTest, ACrashKeepsWhatWasSynced) {
  Start();
  for (uint64_t group = 1; group <= 50; ++group) {
    ASSERT_TRUE(WriteGroup(store_.get(), group, std::string(group * 97, 'p')).ok());
  }
  Crash();
  ExpectOpens(copy(), 50);
}

TEST_F(RocksStoreTest, ACrashOfAnEmptyStoreAgainAndAgain) {  // S79
  for (int round = 0; round < 20; ++round) {
    Start();
    Crash();
    fs::remove_all(live());
    fs::rename(copy(), live());
  }
  ExpectOpens(live(), 0);
}

TEST_F(RocksStoreTest, WhatIsLeftOfAFirstStartIsNoStore) {  // S79
  WriteFile(live() + "/OWNER", "");
  WriteFile(live() + "/IDENTITY", "12345");
  WriteFile(live() + "/MANIFEST-000001", "cut sho");
  WriteFile(live() + "/000001.dbtmp", "MANI");
  ExpectOpens(live(), 0);
}

TEST_F(RocksStoreTest, ATornTailIsDroppedAndNamed) {
  Start();
  for (uint64_t group = 1; group <= 5; ++group) ASSERT_TRUE(WriteGroup(store_.get(), group).ok());
  Crash();
  const std::string log = Logs(copy()).back();
  const std::string bytes = ReadFile(log);
  WriteFile(log, bytes.substr(0, bytes.size() - 3));
  ExpectOpens(copy(), 4);
  EXPECT_THAT(log_, HasSubstr("never acknowledged"));
  EXPECT_THAT(log_, HasSubstr(log));
}

TEST_F(RocksStoreTest, AZeroFilledTailLosesNothing) {  // S80
  Start();
  for (uint64_t group = 1; group <= 5; ++group) ASSERT_TRUE(WriteGroup(store_.get(), group).ok());
  Crash();
  WriteFile(Logs(copy()).back(), ReadFile(Logs(copy()).back()) + std::string(4096, '\0'));
  ExpectOpens(copy(), 5);
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(RocksStoreTest, DamageInAcknowledgedGroupsRefusesAndChangesNothing) {
  Start();
  for (uint64_t group = 1; group <= 50; ++group) {
    ASSERT_TRUE(WriteGroup(store_.get(), group, std::string(2000, 'p')).ok());
  }
  Crash();
  const std::string log = Logs(copy()).back();
  const std::string bytes = ReadFile(log);
  for (const size_t at : {size_t{0}, size_t{6}, bytes.size() / 3, bytes.size() / 2}) {
    std::string damaged = bytes;
    damaged[at] ^= 0x10;
    WriteFile(log, damaged);
    const std::string text = ExpectRefuses(copy());
    EXPECT_THAT(text, HasSubstr(log));
    EXPECT_THAT(text, HasSubstr("at offset "));
    EXPECT_THAT(text, HasSubstr("restore the newest checkpoint"));
  }
  // A stretch of zeros over a border of blocks, which RocksDB's own reader passes over.
  std::string zeros = bytes;
  std::fill_n(zeros.begin() + 20'000, 40'000, '\0');
  WriteFile(log, zeros);
  ExpectRefuses(copy());
  WriteFile(log, bytes);
  ExpectOpens(copy(), 50);
}

TEST_F(RocksStoreTest, BehindAHoleInUnacknowledgedGroupsNothingIsReplayed) {
  Start();
  for (uint64_t group = 1; group <= 5; ++group) ASSERT_TRUE(WriteGroup(store_.get(), group).ok());
  const size_t synced = ReadFile(Logs(live()).back()).size();
  // Group 6 ends exactly with the block, so that RocksDB's reader would find group 7 behind it.
  ASSERT_TRUE(CommitGroup(store_.get(), 6, 5, "x").ok());
  const size_t overhead = ReadFile(Logs(live()).back()).size() - synced - 1;
  const size_t room = test::LogWriter::kBlockBytes - ReadFile(Logs(live()).back()).size();
  ASSERT_TRUE(CommitGroup(store_.get(), 7, 5, std::string(room - overhead - 2, 'x')).ok());
  EXPECT_EQ(ReadFile(Logs(live()).back()).size(), test::LogWriter::kBlockBytes);
  ASSERT_TRUE(CommitGroup(store_.get(), 8, 5).ok());
  Crash();
  const std::string log = Logs(copy()).back();
  std::string bytes = ReadFile(log);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(synced),
            bytes.begin() + test::LogWriter::kBlockBytes, '\0');
  WriteFile(log, bytes);
  ExpectOpens(copy(), 5);
  EXPECT_THAT(log_, HasSubstr("1 whole batches"));
}

TEST_F(RocksStoreTest, UnsyncedGroupsThatAreWholeAreKept) {
  Start();
  ASSERT_TRUE(WriteGroup(store_.get(), 1).ok());
  ASSERT_TRUE(CommitGroup(store_.get(), 2, 1).ok());
  Crash();
  ExpectOpens(copy(), 2);
}

TEST_F(RocksStoreTest, GroupsWithoutTheirRowAreRefused) {
  Start();
  Batch batch;
  batch.set_mark({1, 0});
  batch.Put(JobRowKey(Family::kJob, {1, 1}), "x");
  ASSERT_TRUE(store_->Sync(*store_->Commit(batch, store_->epoch())).ok());
  store_.reset();
  const auto refused = TryOpen(live());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(Text(refused.status()), HasSubstr("stands at group 0"));
}

// --- Files that vanish -----------------------------------------------------------------------

class VanishedFiles : public RocksStoreTest {
 protected:
  void SetUp() override {
    Start();
    for (uint64_t group = 1; group <= 3; ++group) ASSERT_TRUE(WriteGroup(store_.get(), group).ok());
    // Groups in tables as well as in a log.
    ASSERT_TRUE(store_->Recover().ok());
    for (uint64_t group = 4; group <= 6; ++group) ASSERT_TRUE(WriteGroup(store_.get(), group).ok());
    EXPECT_FALSE(store_->CheckSpace().low);
  }

  static std::vector<std::string> FilesWith(const std::string& folder, const std::string& prefix,
                                            const std::string& suffix) {
    return FilesNamed(folder, [&](const std::string& name) {
      return absl::StartsWith(name, prefix) && absl::EndsWith(name, suffix);
    });
  }
};

TEST_F(VanishedFiles, SideFilesEmptyOrMissingDoNotMatter) {  // S80
  for (const char* prefix : {"IDENTITY", "OPTIONS-", "LOCK", "OWNER", "RESERVE", "STORE"}) {
    Crash();
    ASSERT_THAT(FilesWith(copy(), prefix, ""), Not(IsEmpty())) << prefix;
    for (const std::string& file : FilesWith(copy(), prefix, "")) WriteFile(file, "");
    SCOPED_TRACE(prefix);
    ExpectOpens(copy(), 6);
    Crash();
    for (const std::string& file : FilesWith(copy(), prefix, "")) fs::remove(file);
    ExpectOpens(copy(), 6);
  }
  Crash();
  WriteFile(copy() + "/000099.dbtmp", "");
  ExpectOpens(copy(), 6);
}

TEST_F(VanishedFiles, CurrentAndManifestRefuseWithTheirName) {  // S80
  Crash();
  const std::string manifest =
      fs::path(FilesWith(copy(), "MANIFEST-", "").back()).filename().string();
  for (const std::string& name : {std::string("CURRENT"), manifest}) {
    Crash();
    WriteFile(copy() + "/" + name, "");
    EXPECT_THAT(ExpectRefuses(copy()), HasSubstr(name + " is empty"));
    fs::remove(copy() + "/" + name);
    EXPECT_THAT(ExpectRefuses(copy()), HasSubstr(name + " is missing"));
  }
  Crash();
  WriteFile(copy() + "/CURRENT", "");
  EXPECT_THAT(ExpectRefuses(copy()), HasSubstr("write the line " + manifest));
  WriteFile(copy() + "/CURRENT", manifest + "\n");
  ExpectOpens(copy(), 6);
}

TEST_F(VanishedFiles, AFolderThatLostAllButTheMarkerIsNoEmptyFolder) {
  Crash();
  for (const std::string& file : FilesWith(copy(), "", "")) {
    if (!absl::EndsWith(file, "/STORE")) fs::remove(file);
  }
  EXPECT_THAT(ExpectRefuses(copy()), HasSubstr("CURRENT is missing"));
  Crash();
  for (const std::string& file : FilesWith(copy(), "", "")) {
    if (!absl::EndsWith(file, ".sst")) fs::remove(file);
  }
  EXPECT_THAT(ExpectRefuses(copy()), HasSubstr("CURRENT is missing"));
}

TEST_F(VanishedFiles, AMissingLogRefuses) {
  Crash();
  for (const std::string& file : Logs(copy())) fs::remove(file);
  EXPECT_THAT(ExpectRefuses(copy()), HasSubstr("log"));
}

TEST_F(VanishedFiles, AMissingOrCutTableRefuses) {
  Crash();
  const std::vector<std::string> tables = FilesWith(copy(), "", ".sst");
  ASSERT_THAT(tables, Not(IsEmpty()));
  for (const std::string& table : tables) {
    Crash();
    fs::remove(table);
    EXPECT_THAT(ExpectRefuses(copy()), HasSubstr(fs::path(table).stem().string()));
    WriteFile(table, "");
    ExpectRefuses(copy());
  }
}

TEST_F(VanishedFiles, ADamagedTableIsFoundWhenItIsRead) {
  Crash();
  std::vector<std::string> damaged;
  for (const std::string& table : FilesWith(copy(), "", ".sst")) {
    std::string bytes = ReadFile(table);
    if (!absl::StrContains(bytes, "payload")) continue;
    bytes[10] ^= 0x10;
    WriteFile(table, bytes);
    damaged.push_back(table);
  }
  ASSERT_THAT(damaged, Not(IsEmpty()));
  const auto store = TryOpen(copy());
  const absl::Status status =
      store.ok() ? (*store)->MultiGet({JobRowKey(Family::kJob, {1, 1})}).status() : store.status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(Text(status), HasSubstr("CORRUPT_RECORD"));
}

TEST_F(VanishedFiles, ALogWithItsBeginningLostRefuses) {
  Crash();
  const std::string log = Logs(copy()).back();
  const std::string bytes = ReadFile(log);
  WriteFile(log, bytes.substr(bytes.size() / 2));
  EXPECT_THAT(ExpectRefuses(copy()), HasSubstr("groups 4 to 5"));
}

// Files of one age among files of another, as a volume may bring them back after a power cut.
TEST_F(VanishedFiles, PartsOfTwoAgesRefuse) {  // S81
  Crash();
  const std::map<std::string, std::string> old = Contents(copy());
  Start();
  for (uint64_t group = 7; group <= 12; ++group) {
    ASSERT_TRUE(WriteGroup(store_.get(), group).ok());
  }
  ASSERT_TRUE(store_->Recover().ok());
  for (uint64_t group = 13; group <= 15; ++group) {
    ASSERT_TRUE(WriteGroup(store_.get(), group).ok());
  }
  const auto is_log = [](const std::string& name) { return LogNumber(name).has_value(); };
  const auto is_list = [](const std::string& name) {
    return name == "CURRENT" || absl::StartsWith(name, "MANIFEST-");
  };
  // The newer folder with all old files of a kind in place of its own.
  const auto mix = [&](const std::function<bool(const std::string&)>& kind) {
    Crash();
    for (const std::string& file : FilesNamed(copy(), kind)) fs::remove(file);
    for (const auto& [name, bytes] : old) {
      if (kind(name)) WriteFile(copy() + "/" + name, bytes);
    }
  };
  mix(is_log);
  ExpectRefuses(copy());
  mix(is_list);
  ExpectRefuses(copy());
  // The old tables are there as well, so that nothing is missing but groups 7 to 12.
  for (const auto& [name, bytes] : old) {
    if (absl::EndsWith(name, ".sst")) WriteFile(copy() + "/" + name, bytes);
  }
  EXPECT_THAT(ExpectRefuses(copy()), HasSubstr("CORRUPT_RECORD: groups "));
  mix([](const std::string&) { return false; });
  ExpectOpens(copy(), 15);
}

}  // namespace
}  // namespace stint::storage
