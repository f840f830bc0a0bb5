// The store on volumes that run full: a small tmpfs for each test, mounted in a mount namespace
// of this process alone, so nothing is left behind. Needs root, or user namespaces.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/keys.h"
#include "storage/reserve.h"
#include "storage/rocks_store.h"
#include "tests/support/groups.h"
#include "tests/support/temp_folder.h"

namespace stint::storage {
namespace {

using test::JobsWithoutGap;
using test::LastGroup;
using testing::HasSubstr;

constexpr uint64_t kVolumeBytes = 48 << 20;
constexpr uint64_t kReserveBytes = kVolumeBytes / 8;

class FullDiskTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string size = absl::StrCat("size=", kVolumeBytes);
    ASSERT_EQ(mount("tmpfs", volume_.path().c_str(), "tmpfs", 0, size.c_str()), 0)
        << std::strerror(errno);
  }
  void TearDown() override {
    store_.reset();
    EXPECT_EQ(umount2(volume_.path().c_str(), MNT_DETACH), 0) << std::strerror(errno);
  }

  std::string Folder() const { return volume_.File("data"); }

  absl::Status Open() {
    RocksOptions options;
    options.folder = Folder();
    options.log = [this](LogLevel, absl::string_view line) { absl::StrAppend(&log_, line, "\n"); };
    auto store = RocksStore::Open(options);
    if (store.ok()) store_ = *std::move(store);
    return store.status();
  }

  // Bytes that no compression makes smaller.
  std::string Noise(size_t bytes) {
    std::string noise(bytes, '\0');
    for (char& c : noise) c = static_cast<char>(random_());
    return noise;
  }

  // Writes groups until one fails and gives its status; synced_ is the last durable one.
  absl::Status WriteUntilFull(size_t payload_bytes) {
    while (synced_ < 100'000) {
      const absl::Status status = test::WriteGroup(store_.get(), synced_ + 1, Noise(payload_bytes));
      if (!status.ok()) return status;
      ++synced_;
    }
    return absl::OkStatus();
  }

  // Takes all space that is left with a file beside the store, as another process would.
  void FillVolume() {
    const int fd = open(Filler().c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ASSERT_GE(fd, 0);
    for (size_t bytes = 1 << 20; bytes > 0;) {
      if (write(fd, std::string(bytes, 'x').data(), bytes) < static_cast<ssize_t>(bytes)) {
        bytes /= 2;
      }
    }
    close(fd);
  }
  std::string Filler() const { return volume_.File("filler"); }
  void FreeVolume() const { std::filesystem::remove(Filler()); }

  bool ReserveStands() const { return std::filesystem::exists(Folder() + "/RESERVE"); }

  uint64_t UsedBytes() const {
    struct statvfs found = {};
    EXPECT_EQ(statvfs(Folder().c_str(), &found), 0);
    return (found.f_blocks - found.f_bfree) * found.f_frsize;
  }

  test::TempFolder volume_;
  std::unique_ptr<Store> store_;
  std::string log_;
  uint64_t synced_ = 0;
  std::mt19937 random_{7};
};

TEST_F(FullDiskTest, ASmallVolumeGetsASmallReserve) {
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(std::filesystem::file_size(Folder() + "/RESERVE"), kReserveBytes);
  EXPECT_FALSE(store_->CheckSpace().low);
}

TEST_F(FullDiskTest, TheReserveIsMadeOfRealBlocksAndBuiltAgain) {
  ASSERT_TRUE(Open().ok());
  const auto real_bytes = [this] {
    struct stat found = {};
    EXPECT_EQ(stat((Folder() + "/RESERVE").c_str(), &found), 0);
    return static_cast<uint64_t>(found.st_blocks) * 512;
  };
  EXPECT_GE(real_bytes(), kReserveBytes);
  // Of the right length, but hollow.
  test::WriteFile(Folder() + "/RESERVE", "");
  std::filesystem::resize_file(Folder() + "/RESERVE", kReserveBytes);
  EXPECT_FALSE(store_->CheckSpace().low);
  EXPECT_GE(real_bytes(), kReserveBytes);
}

TEST_F(FullDiskTest, WithoutAReserveTheFloorAloneDecides) {
  std::filesystem::create_directory(Folder());
  EXPECT_FALSE(Reserve(Folder(), 0, 1).Check().low);
  EXPECT_TRUE(Reserve(Folder(), 0, kVolumeBytes + 1).Check().low);
  EXPECT_FALSE(ReserveStands());
}

TEST_F(FullDiskTest, ARecoveryGivesTheReserveUpUntilTheNextCheck) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(store_->Recover().ok());
  EXPECT_FALSE(ReserveStands());
  EXPECT_FALSE(store_->CheckSpace().low);
  EXPECT_TRUE(ReserveStands());
}

TEST_F(FullDiskTest, AFullDiskIsNoEndAndLosesNothing) {  // S77
  ASSERT_TRUE(Open().ok());
  const absl::Status full = WriteUntilFull(10 << 10);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  EXPECT_EQ(LastGroup(*store_), synced_);
  const absl::Status recovered = store_->Recover();
  ASSERT_TRUE(recovered.ok()) << recovered;
  // The group that failed may be there.
  ASSERT_GE(LastGroup(*store_), synced_);
  ASSERT_LE(LastGroup(*store_), synced_ + 1);
  synced_ = LastGroup(*store_);
  ASSERT_EQ(JobsWithoutGap(*store_), synced_);
  // The closing may have given much space back.
  EXPECT_EQ(store_->CheckSpace().low, !ReserveStands());
  // What needs little space still works.
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(test::WriteGroup(store_.get(), ++synced_, "small").ok());
  }
  store_.reset();
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(JobsWithoutGap(*store_), synced_);
}

TEST_F(FullDiskTest, RecoveriesThatFindNoSpaceTakeNone) {
  ASSERT_TRUE(Open().ok());
  ASSERT_EQ(WriteUntilFull(10 << 10).code(), absl::StatusCode::kResourceExhausted);
  uint64_t used_bytes = 0;
  for (int refused = 0; refused < 20;) {
    const absl::Status status = store_->Recover();
    if (!status.ok()) {
      ASSERT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      if (refused++ == 0) used_bytes = UsedBytes();
      continue;
    }
    // It still had a reserve, or files that it could do without, to put what is in the log into
    // tables; a recovery that failed may have removed such files. So they are used up as well.
    synced_ = LastGroup(*store_);
    ASSERT_EQ(WriteUntilFull(10 << 10).code(), absl::StatusCode::kResourceExhausted);
    FillVolume();
    refused = 0;
  }
  EXPECT_LE(UsedBytes(), used_bytes + (64 << 10));
}

// Fills the volume to the floor, removes all jobs and waits until space has come back.
class PurgeTest : public FullDiskTest {
 protected:
  void Fill() {
    ASSERT_TRUE(Open().ok());
    while (!store_->CheckSpace().low) {
      ASSERT_TRUE(test::WriteGroup(store_.get(), ++synced_, Noise(10 << 10)).ok());
    }
    ASSERT_GT(UsedBytes(), kVolumeBytes / 2);
  }
  void Write(const Batch& batch) {
    ASSERT_TRUE(store_->Sync(*store_->Commit(batch, store_->epoch())).ok());
  }
  // Ends when space has come back, and else with the time limit of the test.
  void AwaitSpace() {
    while (store_->CheckSpace().low || UsedBytes() > kVolumeBytes / 2) sched_yield();
    EXPECT_TRUE(ReserveStands());
  }
};

TEST_F(PurgeTest, DeletedRowsGiveTheirSpaceBack) {  // S78
  Fill();
  for (uint64_t first = 1; first <= synced_; first += 1000) {
    Batch batch;
    for (uint64_t job = first; job < first + 1000; ++job) {
      batch.Delete(JobRowKey(Family::kJob, {1, job}));
    }
    Write(batch);
  }
  AwaitSpace();
}

TEST_F(PurgeTest, DeletedRangesGiveTheirSpaceBack) {  // S78
  Fill();
  Batch batch;
  batch.DeleteRange(QueueRangeBegin(Family::kJob, 1), QueueRangeEnd(Family::kJob, 1));
  Write(batch);
  AwaitSpace();
}

TEST_F(FullDiskTest, TheFloorComesBeforeTheFullDisk) {
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(ReserveStands());
  while (!store_->CheckSpace().low) {
    ASSERT_TRUE(test::WriteGroup(store_.get(), ++synced_, Noise(10 << 10)).ok());
  }
  EXPECT_FALSE(ReserveStands());
  EXPECT_THAT(log_, HasSubstr("space is low"));
  const absl::StatusOr<Volume> volume = ReadVolume(Folder());
  ASSERT_TRUE(volume.ok());
  EXPECT_GE(volume->free_bytes, kReserveBytes);
}

TEST_F(FullDiskTest, AnotherProcessTakesTheLastByte) {  // S77
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(test::WriteGroup(store_.get(), ++synced_, Noise(1 << 20)).ok());
  FillVolume();
  const absl::Status full = WriteUntilFull(1 << 20);
  ASSERT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  // Reads go on, and the reserve is enough to recover.
  EXPECT_EQ(JobsWithoutGap(*store_), synced_);
  ASSERT_TRUE(store_->Recover().ok());
  synced_ = LastGroup(*store_);
  // Now the reserve is taken as well.
  FillVolume();
  ASSERT_EQ(WriteUntilFull(1 << 20).code(), absl::StatusCode::kResourceExhausted);
  FillVolume();
  const absl::Status again = store_->Recover();
  if (!again.ok()) {
    EXPECT_EQ(again.code(), absl::StatusCode::kResourceExhausted) << again;
    EXPECT_EQ(store_->MultiGet({"x"}).status().code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(store_->Recover().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_TRUE(store_->CheckSpace().low);
  FreeVolume();
  const absl::Status recovered = store_->Recover();
  ASSERT_TRUE(recovered.ok()) << recovered;
  EXPECT_FALSE(store_->CheckSpace().low);
  EXPECT_TRUE(ReserveStands());
  EXPECT_GE(JobsWithoutGap(*store_), synced_);
  EXPECT_TRUE(test::WriteGroup(store_.get(), LastGroup(*store_) + 1, Noise(1 << 20)).ok());
}

TEST_F(FullDiskTest, AStoreOpensOnAFullVolumeByGivingUpItsReserve) {
  ASSERT_TRUE(Open().ok());
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(test::WriteGroup(store_.get(), ++synced_, Noise(10 << 10)).ok());
  }
  store_.reset();
  FillVolume();
  const absl::Status opened = Open();
  ASSERT_TRUE(opened.ok()) << opened;
  EXPECT_FALSE(ReserveStands());
  EXPECT_TRUE(store_->CheckSpace().low);
  EXPECT_EQ(JobsWithoutGap(*store_), synced_);
}

TEST_F(FullDiskTest, AFreshStoreOnAFullVolumeSaysSo) {
  std::filesystem::create_directory(Folder());
  FillVolume();
  const absl::Status full = Open();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted) << full;
  FreeVolume();
  EXPECT_TRUE(Open().ok());
}

}  // namespace
}  // namespace stint::storage

namespace {

// Mounts made from now on are seen by this process alone.
bool EnterMountNamespace() {
  const int flags = geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS;
  return unshare(flags) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  // Before any thread is started: a namespace of users wants a process of one thread.
  if (!EnterMountNamespace()) {
    std::fprintf(stderr,
                 "cannot mount a small volume (%s): run this test as root, or allow user "
                 "namespaces (sysctl kernel.unprivileged_userns_clone=1)\n",
                 std::strerror(errno));
    return 1;
  }
  return RUN_ALL_TESTS();
}
