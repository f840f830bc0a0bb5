#include "client/cli/watch.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/arguments.h"
#include "client/cli/output.h"
#include "client/cpp/clock.h"
#include "sync/mutex.h"

namespace stint::cli {
namespace {

constexpr absl::Duration kLeastInterval = absl::Milliseconds(100);

std::string AsOneLine(const std::string& lines, absl::string_view json_list) {
  if (json_list.empty()) return lines;
  const std::vector<absl::string_view> parts = absl::StrSplit(lines, '\n', absl::SkipEmpty());
  return absl::StrCat("{\"", json_list, "\":[", absl::StrJoin(parts, ","), "]}\n");
}

}  // namespace

void AddIntervalFlags(CLI::App* command, WatchOptions* options, absl::string_view interval) {
  options->interval = std::string(interval);
  command->add_option("--interval", options->interval, "From one reading to the next")
      ->capture_default_str();
  command->add_option("--count", options->count, "End after so many readings")
      ->check(CLI::PositiveNumber);
}

void AddWatchFlags(CLI::App* command, WatchOptions* options) {
  CLI::Option* const watch = command->add_flag(
      "--watch", options->watch,
      "Read again and again: drawn over on a terminal, one line a reading with --json");
  AddIntervalFlags(command, options, "2s");
  command->get_option("--interval")->needs(watch);
  command->get_option("--count")->needs(watch);
}

absl::StatusOr<absl::Duration> ParseInterval(absl::string_view text) {
  const auto interval = ParseDuration(text);
  if (interval.ok() && *interval < kLeastInterval) {
    return absl::InvalidArgumentError(
        absl::StrCat("--interval ", text, " is too short; the shortest is 100ms"));
  }
  return interval;
}

void WaitInterval(absl::Duration interval) {
  client::Clock* const clock = client::Clock::System();
  Mutex mutex;
  Condition never;
  const MutexLock lock(mutex);
  const absl::Duration until = clock->Now() + interval;
  while (clock->Now() < until) clock->Wait(never, mutex, until);
}

int Screen::Rows() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}

void Screen::Draw(absl::string_view text) {
  std::ostream& out = session_.out();
  if (!session_.align()) {
    // A line of JSON is a reading of its own.
    if (drawn_ && !session_.json()) out << '\n';
    out << text;
  } else if (session_.json()) {
    out << text;
  } else {
    std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
    if (!lines.empty() && lines.back().empty()) lines.pop_back();
    const auto rows = static_cast<size_t>(Rows());
    std::string more;
    if (rows > 1 && lines.size() >= rows) {
      more = absl::StrCat("(", lines.size() - rows + 2, " more lines)");
      lines.resize(rows - 2);
      lines.push_back(more);
    }
    // Home; no line wraps; each line and then the screen is cleared to its end.
    out << (drawn_ ? "\x1b[H" : "\x1b[2J\x1b[H") << "\x1b[?7l";
    for (const absl::string_view line : lines) out << line << "\x1b[K\n";
    out << "\x1b[J\x1b[?7h";
  }
  out.flush();
  drawn_ = true;
}

int RunWatched(const WatchOptions& options, Session& session, absl::string_view json_list,
               const std::function<int()>& print) {
  if (!options.watch) return print();
  const auto interval = ParseInterval(options.interval);
  if (!interval.ok()) return session.Misuse(interval.status());
  Screen screen(session);
  for (int64_t reading = 1;; ++reading) {
    std::ostringstream printed;
    session.Capture(&printed);
    const int code = print();
    session.Capture(nullptr);
    if (code != kOk) return code;
    screen.Draw(session.json() ? AsOneLine(printed.str(), json_list) : printed.str());
    if (reading == options.count || !session.out()) return kOk;
    WaitInterval(*interval);
  }
}

}  // namespace stint::cli
