#include "client/cli/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/clock.h"

namespace stint::cli {
namespace {

constexpr char kShell[] = "/bin/sh";
constexpr size_t kChunk = 64 * 1024;

// A file descriptor that closes itself.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { Close(); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct Pipe {
  Fd read;
  Fd write;
};

// Readable once the process has ended. The C library's own declaration (2.36) cannot be linked
// from C++.
Fd OpenProcess(pid_t pid) { return Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

// Our own end does not block; the child's does.
bool MakePipe(Pipe* pipe, bool we_read) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  pipe->read = Fd(ends[0]);
  pipe->write = Fd(ends[1]);
  return fcntl(we_read ? ends[0] : ends[1], F_SETFL, O_NONBLOCK) == 0;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  // execve takes char* and changes nothing.
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Where `program` is in PATH; empty when it is not there.
std::string FindProgram(const std::string& program) {
  if (program.find('/') != std::string::npos) {
    return access(program.c_str(), X_OK) == 0 ? program : "";
  }
  const char* const path = std::getenv("PATH");
  for (const absl::string_view folder :
       absl::StrSplit(path == nullptr ? "/usr/bin:/bin" : path, ':')) {
    const std::string candidate = absl::StrCat(folder.empty() ? "." : folder, "/", program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

class Child {
 public:
  Child(const Command& command, const ChildOptions& options)
      : command_(command), options_(options) {}

  absl::Status Start() {
    Pipe in, out, err;
    if (!MakePipe(&in, false) || !MakePipe(&out, true) || !MakePipe(&err, true)) {
      return absl::ErrnoToStatus(errno, "cannot make a pipe");
    }
    const absl::Status status = Spawn(in.read.get(), out.write.get(), err.write.get());
    if (!status.ok()) return status;
    input_ = std::move(in.write);
    output_ = std::move(out.read);
    error_ = std::move(err.read);
    process_ = OpenProcess(pid_);
    if (process_.get() < 0) {
      const int error = errno;
      kill(-pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      return absl::ErrnoToStatus(error, "cannot watch the process (pidfd_open)");
    }
    return absl::OkStatus();
  }

  // Serves pipes, cancel and limits until the process has ended.
  ChildResult Finish() {
    const absl::Duration started = Now();
    limit_at_ = started + options_.run_limit;
    WriteInput();
    while (!ended_) WaitAndServe();
    ReadAll(output_, /*is_output=*/true);
    ReadAll(error_, /*is_output=*/false);
    // Not reaped yet, so the group's number is still ours.
    if (stopping_) kill(-pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) result_.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
    if (result_.error_tail.size() > options_.max_error_bytes) {
      result_.error_tail.erase(0, result_.error_tail.size() - options_.max_error_bytes);
    }
    return std::move(result_);
  }

 private:
  static absl::Duration Now() { return client::Clock::System()->Now(); }

  absl::Status Spawn(int in, int out, int err) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none, defaults;
    sigemptyset(&none);
    sigemptyset(&defaults);
    for (const int signal : {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD}) {
      sigaddset(&defaults, signal);
    }
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes,
        static_cast<short>(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    const std::vector<std::string> arguments = command_.Arguments(options_.argument);
    const int error =
        posix_spawn(&pid_, command_.path().c_str(), &actions, &attributes,
                    Pointers(arguments).data(), Pointers(options_.environment).data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error == 0) return absl::OkStatus();
    return absl::ErrnoToStatus(error, absl::StrCat("cannot start ", arguments.front()));
  }

  void WaitAndServe() {
    const absl::Duration now = Now();
    if (!stopping_ && now >= limit_at_) {
      result_.over_run_limit = true;
      BeginStop(now);
    }
    if (stopping_ && now >= kill_at_) {
      kill(-pid_, SIGKILL);
      kill_at_ = absl::InfiniteDuration();
    }
    pollfd polled[5] = {{process_.get(), POLLIN, 0},
                        {output_.get(), POLLIN, 0},
                        {error_.get(), POLLIN, 0},
                        {input_.get(), POLLOUT, 0},
                        {stopping_ ? -1 : options_.cancel_fd, POLLIN, 0}};
    const absl::Duration wake = stopping_ ? kill_at_ : limit_at_;
    int timeout_ms = -1;
    if (wake != absl::InfiniteDuration()) {
      const absl::Duration rest = std::min(wake - now, absl::Hours(1));
      timeout_ms = static_cast<int>(absl::ToInt64Milliseconds(rest)) + 1;
    }
    if (poll(polled, 5, timeout_ms) <= 0) return;
    if (polled[1].revents != 0) ReadAll(output_, /*is_output=*/true);
    if (polled[2].revents != 0) ReadAll(error_, /*is_output=*/false);
    if (polled[3].revents != 0) WriteInput();
    if (polled[4].revents != 0) {
      result_.cancelled = true;
      BeginStop(Now());
    }
    ended_ = polled[0].revents != 0;
  }

  void BeginStop(absl::Duration now) {
    stopping_ = true;
    kill_at_ = now + options_.kill_grace();
    kill(-pid_, SIGTERM);
  }

  // Reads what is there. Closes the pipe at its end.
  void ReadAll(Fd& from, bool is_output) {
    char buffer[kChunk];
    // A command that prints without end must not keep us from its end or a cancel.
    for (int chunks = 0; chunks < 64 && from.get() >= 0; ++chunks) {
      const ssize_t got = read(from.get(), buffer, sizeof(buffer));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) {
        from.Close();
        return;
      }
      Keep(absl::string_view(buffer, static_cast<size_t>(got)), is_output);
    }
  }

  void Keep(absl::string_view bytes, bool is_output) {
    if (is_output) {
      result_.output_bytes += bytes.size();
      const size_t room = options_.max_output_bytes - result_.output.size();
      result_.output.append(bytes.data(), std::min(room, bytes.size()));
      return;
    }
    std::string& tail = result_.error_tail;
    tail.append(bytes.data(), bytes.size());
    // Cut seldom, so that each byte is moved about once.
    if (tail.size() > 2 * options_.max_error_bytes + kChunk) {
      tail.erase(0, tail.size() - options_.max_error_bytes);
    }
  }

  void WriteInput() {
    while (input_.get() >= 0) {
      if (written_ == options_.input.size()) {
        input_.Close();
        return;
      }
      const ssize_t put =
          write(input_.get(), options_.input.data() + written_, options_.input.size() - written_);
      if (put < 0 && errno == EINTR) continue;
      if (put < 0 && errno == EAGAIN) return;
      if (put < 0) {
        input_.Close();  // it does not read its input; its exit code says whether that is well
        return;
      }
      written_ += static_cast<size_t>(put);
    }
  }

  const Command& command_;
  const ChildOptions& options_;
  pid_t pid_ = -1;
  Fd process_, input_, output_, error_;
  size_t written_ = 0;
  bool ended_ = false;
  bool stopping_ = false;
  absl::Duration limit_at_ = absl::InfiniteDuration();
  absl::Duration kill_at_ = absl::InfiniteDuration();
  ChildResult result_;
};

}  // namespace

absl::StatusOr<Command> Command::Parse(absl::string_view text) {
  Command command;
  const std::vector<std::string> words = absl::StrSplit(text, ' ', absl::SkipWhitespace());
  if (words.empty()) return absl::InvalidArgumentError("the command is empty");
  // Characters that mean something to a shell; `=` could be an assignment.
  const bool plain =
      text.find_first_of("|&;<>()$`\\\"'*?[]#~=%!{}\t\r\n") == absl::string_view::npos;
  if (plain) command.path_ = FindProgram(words.front());
  command.shell_ = command.path_.empty();
  if (plain && command.shell_) command.unfound_ = words.front();
  if (command.shell_) {
    command.path_ = kShell;
    command.arguments_ = {"sh", "-c", std::string(text)};
  } else {
    command.arguments_ = words;
  }
  return command;
}

absl::Status Command::CheckKnown() const {
  if (unfound_.empty()) return absl::OkStatus();
  std::vector<std::string> arguments = {"sh", "-c", "command -v -- \"$1\" >/dev/null 2>&1", "sh",
                                        unfound_};
  pid_t pid = -1;
  int status = 0;
  // A shell that cannot be asked is no reason to refuse the command.
  if (posix_spawn(&pid, kShell, nullptr, nullptr, Pointers(arguments).data(), environ) != 0) {
    return absl::OkStatus();
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("there is no command '", unfound_,
                   "': it is not in PATH, and the shell does not know it; no job was taken"));
}

std::vector<std::string> Command::Arguments(const std::string* extra) const {
  std::vector<std::string> arguments = arguments_;
  if (extra == nullptr) return arguments;
  if (shell_) {
    arguments.back() += " \"$@\"";
    arguments.emplace_back("sh");
  }
  arguments.push_back(*extra);
  return arguments;
}

absl::Status CheckCanRunChildren() {
  if (OpenProcess(getpid()).get() >= 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this kernel or sandbox does not let a process watch its children (pidfd_open: ",
                   std::strerror(errno), "); Linux 5.3 or later is needed"));
}

absl::StatusOr<ChildResult> RunChild(const Command& command, const ChildOptions& options) {
  Child child(command, options);
  const absl::Status started = child.Start();
  if (!started.ok()) return started;
  return child.Finish();
}

}  // namespace stint::cli
