#include "client/cli/stop_signals.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "client/cpp/clock.h"

namespace stint::cli {

StopSignals::StopSignals() {
  sigset_t stop;
  sigemptyset(&stop);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    // Who started us with a signal ignored (nohup, a shell's background) wants it so.
    struct sigaction action {};
    if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN) continue;
    sigaddset(&stop, signal);
  }
  pthread_sigmask(SIG_BLOCK, &stop, &before_);
  fd_ = signalfd(-1, &stop, SFD_CLOEXEC);
}

StopSignals::~StopSignals() {
  if (fd_ >= 0) close(fd_);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void StopSignals::Take() const {
  signalfd_siginfo info;
  if (read(fd_, &info, sizeof(info)) < 0) return;
}

bool StopSignals::WaitFor(absl::Duration limit) const {
  client::Clock* const clock = client::Clock::System();
  const absl::Duration until = clock->Now() + limit;
  while (true) {
    const absl::Duration left =
        std::clamp(until - clock->Now(), absl::ZeroDuration(), absl::Hours(24));
    pollfd polled = {fd_, POLLIN, 0};
    const int64_t wait_ms = absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1)));
    if (poll(&polled, 1, static_cast<int>(wait_ms)) > 0) return true;
    if (left == absl::ZeroDuration()) return false;
  }
}

}  // namespace stint::cli
