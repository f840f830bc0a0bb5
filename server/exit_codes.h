// What stintd's exit code says; `stintd --help` and OPERATIONS.md repeat it.
#ifndef STINT_SERVER_EXIT_CODES_H_
#define STINT_SERVER_EXIT_CODES_H_

namespace stint {

enum class ExitCode : int {
  // Or: did what was asked, as --help, --print-config and --check-store.
  kDrained = 0,
  // A second signal came before the drain had ended. Nothing acknowledged is lost.
  kImpatient = 1,
  // A flag, a setting, or a file that a setting names.
  kUsage = 2,
  kStoreRefused = 3,
  kStoreFailed = 4,
  kCannotListen = 5,
  // --check-store found rows that do not fit together.
  kStoreUnsound = 6,
};

}  // namespace stint

#endif  // STINT_SERVER_EXIT_CODES_H_
