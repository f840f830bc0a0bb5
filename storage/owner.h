// The fence around a data folder: whoever holds the lock on its file OWNER may write there, and
// nobody else, so two brokers on one folder are impossible.
//
// How it is used: taken before anything else in the folder is looked at, held until the process
// is done with the folder, also while the store inside is closed and opened again. The file says
// in text who holds it.
//
// The lock belongs to the open file, not to the process: a second opening in the same process is
// refused as well, and the kernel drops the lock when the process dies. The file stays.
//
// What it does not do: fence machines that share a folder over a network file system without
// locks.
//
// Threads: any, one at a time.
#ifndef STINT_STORAGE_OWNER_H_
#define STINT_STORAGE_OWNER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stint::storage {

class Owner {
 public:
  // `start_time` is for people and may be empty. kFailedPrecondition: somebody else holds the
  // folder (the text names host, pid and start time), or the file cannot be opened.
  static absl::StatusOr<std::unique_ptr<Owner>> Take(const std::string& folder,
                                                     absl::string_view start_time);
  ~Owner();
  // False: the file that is locked is no longer the one in the folder, which was deleted or
  // replaced under us.
  bool StillInPlace() const;
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

 private:
  Owner(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  const int fd_;
  const std::string path_;
};

}  // namespace stint::storage

#endif  // STINT_STORAGE_OWNER_H_
