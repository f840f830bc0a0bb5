// Runs a script with bash, with `stint` in the PATH.
#ifndef STINT_TESTS_UNIT_CLI_SHELL_H_
#define STINT_TESTS_UNIT_CLI_SHELL_H_

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "tests/support/temp_folder.h"

namespace stint::testing {

struct ShellRan {
  int code = -1;       // 128 and more: a signal, as shells say it
  std::string output;  // both streams
};

// `folder` is where it runs and where the script is kept.
inline ShellRan RunShell(const std::string& folder, const std::string& script) {
  const std::string path = folder + "/script.sh";
  test::WriteFile(path, script);
  ShellRan ran;
  const std::string command = "cd '" + folder + "' && PATH='" + folder +
                              "':'" STINT_FOLDER "':\"$PATH\" bash script.sh 2>&1 </dev/null";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ran;
  std::array<char, 4096> buffer;
  size_t size = 0;
  while ((size = fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    ran.output.append(buffer.data(), size);
  }
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace stint::testing

#endif  // STINT_TESTS_UNIT_CLI_SHELL_H_
