#include "storage/reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"

namespace stint::storage {
namespace {

constexpr uint64_t kSmallVolumeShare = 8;
constexpr uint64_t kStatBlockBytes = 512;

}  // namespace

absl::StatusOr<Volume> ReadVolume(const std::string& folder) {
  struct statvfs found = {};
  if (statvfs(folder.c_str(), &found) != 0) {
    return absl::InternalError(absl::StrCat("cannot look at the volume of ", folder, ": ",
                                            absl::ErrnoToStatus(errno, "statvfs").message()));
  }
  return Volume{found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize};
}

uint64_t ReserveBytes(uint64_t wanted_bytes, const Volume& volume) {
  return std::min(wanted_bytes, volume.total_bytes / kSmallVolumeShare);
}

Reserve::Reserve(const std::string& folder, uint64_t bytes, uint64_t floor_bytes)
    : folder_(folder),
      path_(absl::StrCat(folder, "/RESERVE")),
      bytes_(bytes),
      floor_bytes_(floor_bytes == 0 ? bytes : floor_bytes) {}

Space Reserve::Check() {
  absl::StatusOr<Volume> volume = ReadVolume(folder_);
  // A volume that cannot be asked is taken for full: nothing is added to it.
  if (!volume.ok()) return {0, true, true};
  if (volume->free_bytes < floor_bytes_) {
    Release();
    return {volume->free_bytes, true, true};
  }
  const bool tight = volume->free_bytes < 2 * floor_bytes_;
  const bool may_build = volume->free_bytes >= floor_bytes_ + bytes_ + bytes_ / 4;
  return {volume->free_bytes, !Stands(may_build), tight};
}

void Reserve::Release() { unlink(path_.c_str()); }

bool Reserve::Stands(bool may_build) {
  if (bytes_ == 0) return true;
  struct stat found = {};
  if (stat(path_.c_str(), &found) == 0 &&
      static_cast<uint64_t>(found.st_blocks) * kStatBlockBytes >= bytes_) {
    return true;
  }
  if (!may_build) return false;
  const int fd = open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  if (fd < 0) return false;
  const bool built = posix_fallocate(fd, 0, static_cast<off_t>(bytes_)) == 0;
  close(fd);
  if (!built) Release();
  return built;
}

}  // namespace stint::storage
