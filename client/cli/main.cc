#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "client/cli/cli.h"

namespace {

// Not for /dev/null, a closed input or a socket, with which services and remote shells start what
// has no input at all.
bool InputIsRedirected() {
  struct stat input {};
  return fstat(STDIN_FILENO, &input) == 0 && (S_ISFIFO(input.st_mode) || S_ISREG(input.st_mode));
}

}  // namespace

int main(int argc, char** argv) {
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
  std::cout.flush();
  return code;
}
