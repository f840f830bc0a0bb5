// Epochs for the stores of one process: each opening gets a number that no other opening has.
//
// What it does not do: tell processes apart. Between processes the lock on the folder does
// that (owner.h).
//
// Threads: any.
#ifndef STINT_STORAGE_EPOCH_H_
#define STINT_STORAGE_EPOCH_H_

#include <atomic>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "storage/store.h"

namespace stint::storage {

// Epochs start at 1, so that 0 is never valid.
inline Epoch NextEpoch() {
  static std::atomic<Epoch> last{0};
  return ++last;
}

inline absl::Status WrongEpoch(Epoch fence, Epoch current) {
  return absl::FailedPreconditionError(absl::StrCat(
      "a write under epoch ", fence, " was refused: the store is now at epoch ", current));
}

}  // namespace stint::storage

#endif  // STINT_STORAGE_EPOCH_H_
