// A process to be killed: opens the store in argv[1], writes "opened" to standard output, then
// commits and syncs group after group for ever and writes the number of each once its sync has
// returned. tests/unit/rocks_store_test.cc kills it.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "storage/rocks_store.h"
#include "tests/support/groups.h"

namespace {

bool Say(const std::string& line) {
  return write(STDOUT_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  stint::storage::RocksOptions options;
  options.folder = argv[1];
  options.reserve_bytes = 1 << 20;
  // Flushes often, so that it is killed in flushes as well.
  options.write_buffer_bytes = 256 << 10;
  options.flush_after_keys = 500;
  auto store = stint::storage::RocksStore::Open(options);
  if (!store.ok()) {
    std::fprintf(stderr, "%s\n", store.status().ToString().c_str());
    return 1;
  }
  if (!Say("opened\n")) return 3;
  uint64_t group = stint::test::LastGroup(**store);
  while (true) {
    const absl::Status status = stint::test::WriteGroup(store->get(), ++group);
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      return 1;
    }
    if (!Say(absl::StrCat(group, "\n"))) return 3;
  }
}
