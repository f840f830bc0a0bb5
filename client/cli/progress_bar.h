// How far a long command is, drawn over and over in one line of standard error. Only for a
// terminal.
// Thread rule: one thread.
#ifndef STINT_CLIENT_CLI_PROGRESS_BAR_H_
#define STINT_CLIENT_CLI_PROGRESS_BAR_H_

#include <cstdint>
#include <ostream>

namespace stint::cli {

class ProgressBar {
 public:
  // `expected` 0: not known, only a number is shown. `shown` false: does nothing.
  ProgressBar(std::ostream& err, bool shown, int64_t expected)
      : err_(err), shown_(shown), expected_(expected) {}

  void Show(int64_t done);
  // Ends the line, if Show has begun one and not ended it.
  void Finish();

 private:
  std::ostream& err_;
  const bool shown_;
  const int64_t expected_;
  bool line_open_ = false;
};

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_PROGRESS_BAR_H_
