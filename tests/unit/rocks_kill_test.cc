// The store's process killed at any moment: what it said was synced is there, and a first start
// that was killed leaves a folder that opens.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "storage/rocks_store.h"
#include "tests/support/groups.h"
#include "tests/support/temp_folder.h"

namespace stint::storage {
namespace {

// store_writer (tests/support) at work on a folder.
class Writer {
 public:
  explicit Writer(const std::string& folder) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
    output_ = ends[0];
    pid_ = fork();
    if (pid_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(STORE_WRITER, STORE_WRITER, folder.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
  }
  ~Writer() {
    Kill();
    close(output_);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // The next line it writes; empty when it is gone.
  std::string NextLine() {
    size_t end = 0;
    while ((end = text_.find('\n')) == std::string::npos) {
      std::array<char, 4096> bytes{};
      const ssize_t n = read(output_, bytes.data(), bytes.size());
      if (n <= 0) return "";
      text_.append(bytes.data(), static_cast<size_t>(n));
    }
    const std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }

  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  int output_ = -1;
  pid_t pid_ = -1;
  std::string text_;
};

std::unique_ptr<Store> Open(const std::string& folder) {
  RocksOptions options;
  options.folder = folder;
  options.reserve_bytes = 1 << 20;
  auto store = RocksStore::Open(options);
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? *std::move(store) : nullptr;
}

TEST(RocksKill, WhatWasSyncedOutlivesAKill) {
  const test::TempFolder folder;
  uint64_t synced = 0;
  for (int round = 0; round < 8; ++round) {
    Writer writer(folder.path());
    ASSERT_EQ(writer.NextLine(), "opened") << "round " << round;
    for (int i = 0; i < 200 + 37 * round; ++i) {
      uint64_t group = 0;
      ASSERT_TRUE(absl::SimpleAtoi(writer.NextLine(), &group));
      ASSERT_EQ(group, synced + 1);
      synced = group;
    }
    writer.Kill();
    // It may have written on before the kill.
    for (std::string line = writer.NextLine(); !line.empty(); line = writer.NextLine()) {
      ASSERT_TRUE(absl::SimpleAtoi(line, &synced));
    }
    const std::unique_ptr<Store> store = Open(folder.path());
    ASSERT_NE(store, nullptr) << "round " << round;
    ASSERT_GE(test::LastGroup(*store), synced);
    ASSERT_EQ(test::JobsWithoutGap(*store), test::LastGroup(*store));
    synced = test::LastGroup(*store);
  }
}

// Kills the first start of a store as soon as it has changed so many names in its folder.
TEST(RocksKill, AFirstStartKilledAtAnyFileOpensAgain) {  // S79
  for (int changes = 1; changes <= 24; ++changes) {
    const test::TempFolder folder;
    const int watch = inotify_init1(IN_CLOEXEC);
    ASSERT_GE(inotify_add_watch(watch, folder.path().c_str(),
                                IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_CLOSE_WRITE),
              0);
    {
      Writer writer(folder.path());
      for (int seen = 0; seen < changes;) {
        alignas(inotify_event) std::array<char, 4096> events{};
        const ssize_t n = read(watch, events.data(), events.size());
        ASSERT_GT(n, 0);
        for (ssize_t at = 0; at < n; ++seen) {
          inotify_event event{};
          std::memcpy(&event, events.data() + at, sizeof(event));
          at += static_cast<ssize_t>(sizeof(event) + event.len);
        }
      }
      writer.Kill();
    }
    close(watch);
    const std::unique_ptr<Store> store = Open(folder.path());
    ASSERT_NE(store, nullptr) << changes << " changes";
    ASSERT_EQ(test::JobsWithoutGap(*store), test::LastGroup(*store));
    ASSERT_TRUE(test::WriteGroup(store.get(), test::LastGroup(*store) + 1).ok());
  }
}

}  // namespace
}  // namespace stint::storage
