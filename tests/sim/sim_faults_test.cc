// Whether the simulator can fail: for each deliberate fault of faults.py, turned on alone, it has
// to find a broken promise within a stated number of seeds.
#include "sim_faults.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "tests/sim/simulator.h"

namespace stint::sim {

Fault active_fault = Fault::kNone;

namespace {

constexpr uint64_t kMostSeeds = 400;

class SimFaultsTest : public ::testing::TestWithParam<FaultText> {
 protected:
  ~SimFaultsTest() override { active_fault = Fault::kNone; }
};

TEST_P(SimFaultsTest, IsFound) {
  active_fault = GetParam().fault;
  for (uint64_t seed = 1; seed <= kMostSeeds; ++seed) {
    const std::string failure = Simulate(seed).failure;
    if (failure.empty()) continue;
    std::cout << GetParam().breaks << ": found by seed " << seed << ": "
              << failure.substr(0, failure.find('\n')) << '\n';
    return;
  }
  ADD_FAILURE() << GetParam().breaks << ": not found by " << kMostSeeds << " seeds";
}

INSTANTIATE_TEST_SUITE_P(All, SimFaultsTest, ::testing::ValuesIn(kFaults),
                         [](const auto& fault) { return std::string(fault.param.name); });

// The copies with the faults in them are sound as long as none is on.
TEST(SimFaults, NoneIsFoundWhereNoneIs) {
  for (uint64_t seed = 1; seed <= 100; ++seed) ASSERT_EQ(Simulate(seed).failure, "") << seed;
}

}  // namespace
}  // namespace stint::sim
