// The switch of the deliberate faults that faults.py lists. Only what is linked with the copies it
// makes has them. Used by one thread.
#ifndef STINT_TESTS_SIM_FAULT_SWITCH_H_
#define STINT_TESTS_SIM_FAULT_SWITCH_H_

#include <vector>

namespace stint::sim {

struct Fault {
  const char* name;
  const char* breaks;
};

// All of them; faults.py makes it.
std::vector<Fault> Faults();

// The place of the one that is on; -1: none.
inline int active_fault = -1;

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_FAULT_SWITCH_H_
