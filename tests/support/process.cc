#include "tests/support/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace stint::testing {
namespace {

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

Process::Process(const std::string& binary, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& variables) {
  const char* const folder = std::getenv("STINT_BIN");
  std::vector<std::string> words = {(folder == nullptr ? "." : folder) + ("/" + binary)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (variable.rfind("STINT_", 0) != 0) environment.push_back(variable);
  }
  // All brokers have the same default port.
  environment.emplace_back("STINT_HTTP_LISTEN=none");
  environment.insert(environment.end(), variables.begin(), variables.end());
  const std::vector<char*> argv = Pointers(&words);
  const std::vector<char*> envp = Pointers(&environment);

  int ends[2];
  if (pipe(ends) != 0) std::abort();
  pid_ = fork();
  if (pid_ < 0) std::abort();
  if (pid_ == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(ends[1]);
  error_ = ends[0];
}

Process::~Process() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(error_);
}

bool Process::ReadMore() {
  char bytes[4096];
  ssize_t got = 0;
  do {
    got = read(error_, bytes, sizeof(bytes));
  } while (got < 0 && errno == EINTR);
  if (got <= 0) return false;
  output_.append(bytes, static_cast<size_t>(got));
  return true;
}

std::string Process::WaitForLine(const std::string& text) {
  while (true) {
    const size_t end = output_.find('\n', looked_at_);
    if (end == std::string::npos) {
      if (!ReadMore()) return "";
      continue;
    }
    const std::string line = output_.substr(looked_at_, end - looked_at_);
    looked_at_ = end + 1;
    if (line.find(text) != std::string::npos) return line;
  }
}

void Process::Signal(int signal) { kill(pid_, signal); }

int Process::WaitForExit() {
  while (ReadMore()) {
  }
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace stint::testing
