// The store that the settings name, opened. One owner at a time: while it is open no other
// process can open it.
#ifndef STINT_SERVER_OPEN_STORE_H_
#define STINT_SERVER_OPEN_STORE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/config.h"
#include "storage/store.h"

namespace stint {

// `start_wall_ms` is what a second broker on the folder is told about this one.
absl::StatusOr<std::unique_ptr<storage::Store>> OpenStore(const Config& config,
                                                          int64_t start_wall_ms);

}  // namespace stint

#endif  // STINT_SERVER_OPEN_STORE_H_
