// Room on the volume, and the file RESERVE that keeps some of it back, so that a broker on a
// full disk can still settle, cancel, purge and delete.
//
// How it is used: Check about once a second; Release when something ran out of space. The file
// consists of real blocks. It is given up when less than `floor_bytes` are free, and built again
// when so much has become free that the floor holds with it and a quarter of it to spare.
//
// What it does not do: free anything else, or keep time.
//
// Threads: one at a time.
#ifndef STINT_STORAGE_RESERVE_H_
#define STINT_STORAGE_RESERVE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "storage/store.h"

namespace stint::storage {

struct Volume {
  uint64_t total_bytes = 0;
  uint64_t free_bytes = 0;  // for us, without what only root may use
};

absl::StatusOr<Volume> ReadVolume(const std::string& folder);

// `wanted_bytes`, or less on a small volume: an eighth of it.
uint64_t ReserveBytes(uint64_t wanted_bytes, const Volume& volume);

class Reserve {
 public:
  // `bytes` 0: there is no reserve. `floor_bytes` 0: as large as the reserve.
  Reserve(const std::string& folder, uint64_t bytes, uint64_t floor_bytes);

  // Looks at the volume, gives the reserve up or builds it.
  Space Check();

  // Gives the reserve up. Space is low from now on until Check has built it again.
  void Release();

  uint64_t floor_bytes() const { return floor_bytes_; }

 private:
  // Whether the file is there in full, building it if `may_build`.
  bool Stands(bool may_build);

  const std::string folder_;
  const std::string path_;
  const uint64_t bytes_;
  const uint64_t floor_bytes_;
};

}  // namespace stint::storage

#endif  // STINT_STORAGE_RESERVE_H_
