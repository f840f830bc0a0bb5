#include "storage/owner.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace stint::storage {
namespace {

constexpr size_t kMostBytes = 1024;
constexpr absl::string_view kUnknown = "unknown";

std::string HostName() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') {
    return std::string(kUnknown);
  }
  return std::string(name.data());
}

// Who the file says holds the folder. Nothing in it is trusted to be there.
struct Holder {
  std::string host{kUnknown};
  std::string pid{kUnknown};
  std::string started{kUnknown};
};

Holder ReadHolder(int fd) {
  std::string text(kMostBytes, '\0');
  const ssize_t n = pread(fd, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  Holder holder;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    for (const auto& [name, field] :
         {std::pair<absl::string_view, std::string*>{"host: ", &holder.host},
          {"pid: ", &holder.pid},
          {"started: ", &holder.started}}) {
      absl::string_view value = line;
      if (!absl::ConsumePrefix(&value, name) || value.empty()) continue;
      field->clear();
      for (const char c : value) {
        field->push_back(absl::ascii_isprint(static_cast<unsigned char>(c)) ? c : '?');
      }
    }
  }
  return holder;
}

// For people only, so a full disk does not matter here: the lock is what counts.
void WriteHolder(int fd, absl::string_view start_time) {
  const std::string text =
      absl::StrCat("host: ", HostName(), "\npid: ", getpid(), "\nstarted: ", start_time, "\n");
  const ssize_t written = pwrite(fd, text.data(), text.size(), 0);
  if (ftruncate(fd, written > 0 ? written : 0) != 0) return;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Owner>> Owner::Take(const std::string& folder,
                                                   absl::string_view start_time) {
  const std::string path = absl::StrCat(folder, "/OWNER");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (fd < 0) {
    const bool forbidden = errno == EACCES || errno == EPERM || errno == EROFS;
    const absl::Status why = absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
    return absl::FailedPreconditionError(
        forbidden ? absl::StrCat(why.message(), "; the data folder has to be writable for user id ",
                                 geteuid())
                  : std::string(why.message()));
  }
  std::unique_ptr<Owner> owner(new Owner(fd, path));
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
    if (errno != EAGAIN && errno != EACCES) {
      return absl::FailedPreconditionError(
          absl::StrCat(absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", path)).message(),
                       "; the data folder has to be on a file system that knows locks"));
    }
    const Holder holder = ReadHolder(fd);
    return absl::FailedPreconditionError(
        absl::StrCat("the data folder ", folder, " is in use by a broker on host ", holder.host,
                     ", pid ", holder.pid, ", started ", holder.started,
                     ". Stop that one first, or give this one a folder of its own"));
  }
  WriteHolder(fd, start_time);
  return owner;
}

Owner::~Owner() { close(fd_); }

bool Owner::StillInPlace() const {
  struct stat held = {};
  struct stat found = {};
  return fstat(fd_, &held) == 0 && stat(path_.c_str(), &found) == 0 &&
         held.st_dev == found.st_dev && held.st_ino == found.st_ino;
}

}  // namespace stint::storage
