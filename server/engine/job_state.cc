#include "server/engine/job_state.h"

#include <array>
#include <cstddef>

namespace stint::engine {
namespace {

constexpr size_t kStates = 7;
constexpr size_t kEvents = 11;

// clang-format off
//                                   DELAYED HELD  READY  LEASED COMPL. CANC.  DEAD
constexpr std::array<std::array<bool, kStates>, kEvents> kTable = {{
    /* kDue     */ {{                true,  false, false, false, false, false, false}},
    /* kExpire  */ {{                true,  true,  true,  false, false, false, false}},
    /* kGrant   */ {{                false, false, true,  false, false, false, false}},
    /* kSettle  */ {{                true,  false, true,  true,  false, false, false}},
    /* kRenew   */ {{                true,  false, true,  true,  false, false, false}},
    /* kLapse   */ {{                false, false, false, true,  false, false, false}},
    /* kRevoke  */ {{                false, false, false, true,  false, false, false}},
    /* kCancel  */ {{                true,  true,  true,  true,  false, false, false}},
    /* kRedrive */ {{                false, false, false, false, false, true,  true}},
    /* kUpdate  */ {{                true,  true,  true,  true,  false, false, false}},
    /* kMove    */ {{                true,  false, true,  false, false, false, false}},
}};
// clang-format on

}  // namespace

bool Allows(JobState state, Event event) {
  const auto row = static_cast<size_t>(event);
  const auto column = static_cast<size_t>(state) - 1;
  return row < kEvents && column < kStates && kTable[row][column];
}

}  // namespace stint::engine
