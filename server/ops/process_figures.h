// What the operating system and the allocator say about this process. Thread-safe.
#ifndef STINT_SERVER_OPS_PROCESS_FIGURES_H_
#define STINT_SERVER_OPS_PROCESS_FIGURES_H_

#include <cstdint>

namespace stint::ops {

struct ProcessFigures {
  double cpu_seconds = 0;
  int64_t resident_bytes = 0;
  // By malloc, and not freed.
  int64_t allocated_bytes = 0;
  int64_t threads = 0;
  int64_t open_files = 0;
  int64_t max_files = 0;
  // Since 1970.
  double start_seconds = 0;
};

// Zeros for what cannot be read.
ProcessFigures ReadProcessFigures();

}  // namespace stint::ops

#endif  // STINT_SERVER_OPS_PROCESS_FIGURES_H_
