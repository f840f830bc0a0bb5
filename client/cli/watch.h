// Prints something again and again: the loop and the screen of --watch and of `stint top`.
//
// On a terminal each reading is drawn over the one before, cut to the height of the screen.
// Anywhere else readings follow each other, with an empty line between them; with --json each is
// one line. It ends after --count readings, or by a signal, as `tail -f` does: the screen is whole
// after each drawing.
//
// Thread rule: one thread.
#ifndef STINT_CLIENT_CLI_WATCH_H_
#define STINT_CLIENT_CLI_WATCH_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/session.h"

namespace stint::cli {

struct WatchOptions {
  bool watch = false;
  std::string interval;
  int64_t count = 0;  // 0: for ever
};

// Adds --interval and --count, which bound every repeated reading.
void AddIntervalFlags(CLI::App* command, WatchOptions* options, absl::string_view interval);
// Adds --watch as well; the other two need it.
void AddWatchFlags(CLI::App* command, WatchOptions* options);

// INVALID_ARGUMENT under 100 ms: a broker has better things to do.
absl::StatusOr<absl::Duration> ParseInterval(absl::string_view text);

// Waits; nothing but a signal ends it earlier.
void WaitInterval(absl::Duration interval);

// Where readings are drawn.
class Screen {
 public:
  explicit Screen(Session& session) : session_(session) {}

  // Lines that fit on it; 0: however many.
  static int Rows();
  void Draw(absl::string_view text);

 private:
  Session& session_;
  bool drawn_ = false;
};

// Calls `print` once, or every interval with --watch; what it prints is one reading. A reading that
// fails (anything but kOk) ends it. With --json and `json_list` the lines of a reading become
// `{"json_list":[LINE,…]}`; a reading of one line stays as it is without.
int RunWatched(const WatchOptions& options, Session& session, absl::string_view json_list,
               const std::function<int()>& print);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_WATCH_H_
