#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "client/cli/cli.h"
#include "client/cli/exit_code.h"

namespace {

// Not for /dev/null, a closed input or a socket, with which services and remote shells start what
// has no input at all.
bool InputIsRedirected() {
  struct stat input {};
  return fstat(STDIN_FILENO, &input) == 0 && (S_ISFIFO(input.st_mode) || S_ISREG(input.st_mode));
}

// Of a closed standard descriptor the system would make one of our own files or connections, and
// what is printed would go there. A library that has taken one before main keeps it.
void KeepStandardDescriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(descriptor, F_GETFD) < 0) open("/dev/null", O_RDWR);
  }
}

// What could not be printed is lost, unless it is the reader that has gone (`| head`).
bool LostOutput() {
  std::cout.flush();
  if (std::cout) return false;
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) < 0 || (out.revents & (POLLERR | POLLHUP)) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  KeepStandardDescriptors();
  // A reader that has gone (`stint jobs list | head`) or a command that does not read its
  // input is seen as a failed write.
  std::signal(SIGPIPE, SIG_IGN);
  const char* const no_color = std::getenv("NO_COLOR");
  const stint::cli::Streams streams{std::cin,
                                    std::cout,
                                    std::cerr,
                                    isatty(STDOUT_FILENO) == 1,
                                    isatty(STDERR_FILENO) == 1,
                                    no_color != nullptr && *no_color != '\0',
                                    isatty(STDIN_FILENO) == 1,
                                    InputIsRedirected()};
  const int code = stint::cli::Run(std::vector<std::string>(argv + 1, argv + argc), streams);
  if (code == stint::cli::kOk && LostOutput()) {
    std::cerr << "stint: done, but the output could not be written; is the disk full?\n";
    return stint::cli::kRefused;
  }
  return code;
}
