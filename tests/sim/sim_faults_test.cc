// Whether the simulator can fail: for each deliberate fault of faults.py, turned on alone, it has
// to find a broken promise within a stated number of seeds.
#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "tests/sim/fault_switch.h"
#include "tests/sim/simulator.h"

namespace stint::sim {
namespace {

constexpr uint64_t kMostSeeds = 400;

class SimFaultsTest : public ::testing::TestWithParam<int> {
 protected:
  ~SimFaultsTest() override { active_fault = -1; }
};

TEST_P(SimFaultsTest, IsFound) {
  active_fault = GetParam();
  const char* breaks = Faults()[static_cast<size_t>(active_fault)].breaks;
  for (uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    const std::string failure = Simulate(seed).failure;
    if (failure.empty()) continue;
    std::cout << breaks << ": found by seed " << seed << ": "
              << failure.substr(0, failure.find('\n')) << '\n';
    return;
  }
  ADD_FAILURE() << breaks << ": not found by " << kMostSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(All, SimFaultsTest, ::testing::Range(0, static_cast<int>(Faults().size())),
                         [](const auto& number) {
                           return std::string(Faults()[static_cast<size_t>(number.param)].name);
                         });

// The copies with the faults in them are sound as long as none is on.
TEST(SimFaults, NoneIsFoundWhereNoneIs) {
  for (uint64_t seed = 1; seed <= 100; ++seed) ASSERT_EQ(Simulate(seed).failure, "") << seed;
}

}  // namespace
}  // namespace stint::sim
