// SIGTERM, SIGINT and SIGHUP as something to poll, while it lives, so that a command that would
// go on for ever ends in an orderly way.
// It has to exist before any thread is started, so that all of them have the signals blocked.
// Thread rule: one thread makes it and ends it; the rest is any thread's.
#ifndef STINT_CLIENT_CLI_STOP_SIGNALS_H_
#define STINT_CLIENT_CLI_STOP_SIGNALS_H_

#include <csignal>

#include "absl/time/time.h"

namespace stint::cli {

class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  // Readable when a signal has come.
  int fd() const { return fd_; }
  // Takes the oldest one.
  void Take() const;
  // Waits for one, at most so long. True: it came, and is not taken.
  bool WaitFor(absl::Duration limit) const;

 private:
  sigset_t before_;
  int fd_ = -1;
};

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_STOP_SIGNALS_H_
