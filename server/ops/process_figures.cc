#include "server/ops/process_figures.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace stint::ops {
namespace {

std::string ReadAll(const char* path) {
  const std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

double Number(absl::string_view text) {
  double number = 0;
  return absl::SimpleAtod(text, &number) ? number : 0;
}

int64_t CountOpenFiles() {
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  int64_t entries = 0;
  while (readdir(folder) != nullptr) ++entries;
  closedir(folder);
  // ".", "..", and the one that reading them took.
  return entries - 3;
}

double BootSeconds() {
  for (const absl::string_view line : absl::StrSplit(ReadAll("/proc/stat"), '\n')) {
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "btime ")) return Number(rest);
  }
  return 0;
}

}  // namespace

ProcessFigures ReadProcessFigures() {
  ProcessFigures figures;
  // proc(5): after the name in parentheses come state (field 3) and numbers.
  const std::string stat = ReadAll("/proc/self/stat");
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(stat).substr(stat.rfind(')') + 1), ' ', absl::SkipEmpty());
  const auto field = [&fields](size_t number) {
    return number - 3 < fields.size() ? Number(fields[number - 3]) : 0.0;
  };
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  figures.cpu_seconds = (field(14) + field(15)) / ticks;
  figures.threads = static_cast<int64_t>(field(20));
  figures.start_seconds = BootSeconds() + field(22) / ticks;
  figures.resident_bytes = static_cast<int64_t>(field(24)) * sysconf(_SC_PAGESIZE);
  const struct mallinfo2 allocated = mallinfo2();
  figures.allocated_bytes = static_cast<int64_t>(allocated.uordblks + allocated.hblkhd);
  figures.open_files = CountOpenFiles();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    figures.max_files = static_cast<int64_t>(limit.rlim_cur);
  }
  return figures;
}

}  // namespace stint::ops
