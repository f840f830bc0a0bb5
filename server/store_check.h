// `stintd --check-store`: opens the store as a start would, reads all of it, and says whether its
// rows fit together (storage/fsck).
#ifndef STINT_SERVER_STORE_CHECK_H_
#define STINT_SERVER_STORE_CHECK_H_

#include <string>

#include "server/config.h"
#include "server/exit_codes.h"

namespace stint {

// kDrained: sound. kStoreUnsound: `*text` names what was found, one a line. kStoreRefused: there is
// none, or it cannot be opened or read, and the log says why. kUsage: the store is in memory.
ExitCode CheckStore(const Config& config, std::string* text);

}  // namespace stint

#endif  // STINT_SERVER_STORE_CHECK_H_
