#include "client/cli/exec_handler.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/text.h"

namespace stint::cli {
namespace {

// Linux refuses to execute with a longer argument.
constexpr size_t kMaxArgumentBytes = 128 * 1024 - 1;
// Leaves room for our own words in what the broker keeps of an error.
constexpr size_t kMaxErrorTailBytes = client::kMaxErrorBytes - 256;
constexpr absl::Duration kStoppingKillGrace = absl::Milliseconds(400);
constexpr const char* kOurs[] = {"STINT_JOB=",  "STINT_ATTEMPT=", "STINT_TOKEN=",  "STINT_QUEUE=",
                                 "STINT_KIND=", "STINT_WORKER=",  "STINT_ADDRESS="};

// Readable once the job is cancelled.
class CancelFd {
 public:
  explicit CancelFd(const client::CancelToken& cancel) : fd_(eventfd(0, EFD_CLOEXEC)) {
    if (fd_ < 0) return;
    const int fd = fd_;
    handle_ = cancel.OnCancel([fd](client::CancelReason) { eventfd_write(fd, 1); });
  }
  CancelFd(const CancelFd&) = delete;
  CancelFd& operator=(const CancelFd&) = delete;
  ~CancelFd() {
    handle_.reset();
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  const int fd_;
  std::shared_ptr<void> handle_;
};

}  // namespace

ExecHandler::ExecHandler(Command command, ExecOptions options)
    : command_(std::move(command)), options_(std::move(options)) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    bool ours = false;
    for (const char* const name : kOurs) ours = ours || absl::StartsWith(*entry, name);
    if (!ours) inherited_.emplace_back(*entry);
  }
}

std::vector<std::string> ExecHandler::Environment(const client::JobContext& job) const {
  const std::vector<std::string> parts = absl::StrSplit(job.job(), '/');
  std::vector<std::string> environment = inherited_;
  environment.push_back("STINT_JOB=" + job.job());
  environment.push_back(absl::StrCat("STINT_ATTEMPT=", job.attempt()));
  environment.push_back(absl::StrCat("STINT_TOKEN=", job.fencing_token()));
  environment.push_back("STINT_QUEUE=" + (parts.size() == 4 ? parts[1] : ""));
  environment.push_back("STINT_KIND=" + job.lease().kind());
  environment.push_back("STINT_WORKER=" + options_.worker);
  environment.push_back("STINT_ADDRESS=" + options_.address);
  return environment;
}

client::Result ExecHandler::Handle(client::JobContext& job) const {
  const CancelFd cancel(job.cancel());
  if (cancel.get() < 0) {
    return client::Result::Fail(
        absl::StrCat("cannot make an event descriptor: ", std::strerror(errno)));
  }
  ChildOptions child;
  child.environment = Environment(job);
  child.max_output_bytes = options_.max_result_bytes;
  child.max_error_bytes = kMaxErrorTailBytes;
  child.cancel_fd = cancel.get();
  child.run_limit = options_.run_limit;
  child.kill_grace = [this, &job] {
    return job.cancel().reason() == client::CancelReason::kStopping ? kStoppingKillGrace
                                                                    : options_.kill_grace;
  };
  if (!options_.payload_as_argument) {
    child.input = job.payload();
  } else if (job.payload().size() > kMaxArgumentBytes ||
             absl::StrContains(job.payload(), absl::string_view("\0", 1))) {
    return client::Result::Fail(
               "the payload cannot be an argument: it is over 128 KiB or has a zero byte")
        .NoRetry();
  } else {
    child.argument = &job.payload();
  }
  absl::StatusOr<ChildResult> run = RunChild(command_, child);
  if (!run.ok()) return client::Result::Fail(std::string(run.status().message()));
  return Judge(job, *std::move(run));
}

client::Result ExecHandler::Judge(const client::JobContext& job, ChildResult child) const {
  if (child.cancelled) {
    // A worker that stops hands the job back; for everything else the broker knows already.
    return client::Result::Fail(
        absl::StrCat("the command was ended: ", client::Describe(job.cancel().reason())));
  }
  const std::string tail = child.error_tail.empty() ? "" : "\n" + child.error_tail;
  // The cause comes first, so that it stays when the broker shortens the text.
  if (child.over_run_limit) {
    return client::Result::Fail(absl::StrCat("the command was ended after ",
                                             absl::FormatDuration(options_.run_limit), tail));
  }
  if (child.signal != 0) {
    return client::Result::Fail(absl::StrCat("the command was killed by signal ", child.signal,
                                             " (", sigdescr_np(child.signal), ")", tail));
  }
  if (child.exit_code == 0) {
    if (child.output_bytes > options_.max_result_bytes) {
      return client::Result::Fail(absl::StrCat("the command printed ", child.output_bytes,
                                               " bytes; a result is at most ",
                                               options_.max_result_bytes, " bytes"));
    }
    return client::Result::Complete(std::move(child.output));
  }
  client::Result failed = client::Result::Fail(absl::StrCat("exit code ", child.exit_code, tail));
  if (child.exit_code == kNoRetryExitCode) return std::move(failed).NoRetry();
  return failed;
}

}  // namespace stint::cli
