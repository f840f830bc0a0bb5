// What a seed decides before a simulation begins: how hostile the broker's settings, the
// machine and the callers are, and which calls are switched off.
#ifndef STINT_TESTS_SIM_PROFILE_H_
#define STINT_TESTS_SIM_PROFILE_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "server/runtime/loop.h"
#include "tests/sim/faulty_store.h"
#include "tests/sim/random.h"

namespace stint::sim {

// What callers do. Some are switched off in some runs, so that states pile up that calls of
// that kind would clear away.
enum class Act {
  kEnqueue,
  kLease,
  kHeartbeat,
  kSettle,
  kSettleAgain,
  kLie,
  kForget,
  kCancel,
  kRedrive,
  kDelete,
  kUpdate,
  kWait,
  kCreateQueue,
  kUpdateQueue,
  kDeleteQueue,
  kPause,
  kResume,
  kPurge,
  kStats,
  kRepeat,
  kAbandon,
  kBatch,
  kStream,
  kCount
};
inline constexpr size_t kActs = static_cast<size_t>(Act::kCount);

struct Profile {
  runtime::LoopOptions options;
  StoreFaults faults;
  int turns = 0;
  // All rows are checked after every commit, not only now and then.
  bool look_always = false;
  std::vector<std::string> queues;
  // How often, in relation to each other; 0: switched off.
  std::array<int, kActs> weights{};
  // In 1000 turns.
  int crash = 0;
  int freeze = 0;
  int wall_step = 0;
  int low_space = 0;
  int drain = 0;
  int long_time = 0;
  // In 1000 answers: the machine dies while it gives them out; the caller never sees it.
  int power_at_answer = 0;
  int lost_answer = 0;
  // In 1000.
  int request_ids = 0;
  int own_ids = 0;
  int big_payloads = 0;
  std::vector<int64_t> lease_ms;
  std::vector<int64_t> wait_ms;
};

Profile MakeProfile(Random* random);
// Settings of a queue, few of them friendly.
record::QueueSettings RandomSettings(Random* random);

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_PROFILE_H_
