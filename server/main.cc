// stintd: reads settings, waits for signals, runs the broker.

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "server/broker.h"
#include "server/config.h"
#include "server/exit_codes.h"
#include "server/ops/log.h"
#include "server/store_check.h"

namespace stint {
namespace {

int Exit(ExitCode code) { return static_cast<int>(code); }

void Print(std::FILE* to, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

void StartLog(const Config& config) {
  ops::LogLevel level = ops::LogLevel::kInfo;
  if (config.log_level == "debug") level = ops::LogLevel::kDebug;
  if (config.log_level == "warning") level = ops::LogLevel::kWarning;
  if (config.log_level == "error") level = ops::LogLevel::kError;
  ops::StartLog(level, config.log_format == "json" ? ops::LogFormat::kJson : ops::LogFormat::kText);
}

// The first signal drains, the second ends the process. Never returns.
void WatchSignals(const sigset_t& signals, Broker* broker) {
  int signal = 0;
  sigwait(&signals, &signal);
  broker->RequestDrain();
  sigwait(&signals, &signal);
  ops::LogWarning("second signal: stopping at once");
  std::_Exit(Exit(ExitCode::kImpatient));
}

// Of a closed standard descriptor the system would make one of our own files or connections, and
// what is printed would go there. A library that has taken one before main keeps it.
void KeepStandardDescriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", O_RDWR);
  }
}

int Main(const std::vector<std::string>& arguments) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  const auto loaded = LoadConfig(arguments, environment);
  if (!loaded.ok()) {
    Print(stderr, "stintd: " + std::string(loaded.status().message()) + "\n");
    return Exit(ExitCode::kUsage);
  }
  if (loaded->action == Action::kShowText) {
    Print(stdout, loaded->text);
    return Exit(ExitCode::kDrained);
  }
  if (loaded->action == Action::kPrintConfig) {
    Print(stdout, FormatSettings(loaded->settings));
    return Exit(ExitCode::kDrained);
  }
  if (loaded->action == Action::kCheckStore) {
    StartLog(loaded->config);
    std::string text;
    const ExitCode code = CheckStore(loaded->config, &text);
    Print(stdout, text);
    return Exit(code);
  }
  absl::Status listening = CheckHost(loaded->config.listen);
  if (listening.ok()) listening = CheckListening(loaded->config);
  if (!listening.ok()) {
    Print(stderr, "stintd: " + std::string(listening.message()) + "\n");
    return Exit(ExitCode::kUsage);
  }
  StartLog(loaded->config);
  for (const std::string& warning : loaded->warnings) ops::LogWarning(warning);

  // Before any other thread begins, so that all of them leave these signals to one.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  // The end of a terminal, unless nohup has taken care of it.
  if (std::signal(SIGHUP, SIG_IGN) != SIG_IGN) {
    std::signal(SIGHUP, SIG_DFL);
    sigaddset(&signals, SIGHUP);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // As process 1 of a container it inherits orphans; so none of them stays as a zombie.
  std::signal(SIGCHLD, SIG_IGN);

  Broker broker(loaded->config);
  std::thread(WatchSignals, signals, &broker).detach();
  const ExitCode code = broker.Run();
  // Not through the destructors of globals: the watching thread may still use them.
  std::fflush(nullptr);
  std::_Exit(Exit(code));
}

}  // namespace
}  // namespace stint

int main(int argc, char** argv) {
  stint::KeepStandardDescriptors();
  return stint::Main(std::vector<std::string>(argv + 1, argv + argc));
}
