// The simulator over seeds of fixed bugs and over fixed seeds. A failure prints the line that
// replays it.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "tests/sim/simulator.h"

namespace stint::sim {
namespace {

// What a failure shows; empty: none.
std::string FailureOf(uint64_t seed, int64_t power_after_commit = 0) {
  const Report report = Simulate(seed, {false, power_after_commit});
  if (report.failure.empty()) return "";
  SimulationOptions fewer{false, power_after_commit};
  fewer.skip = Shrink(seed, fewer);
  std::ostringstream text;
  for (const std::string& line : Simulate(seed, fewer).tail) text << line << '\n';
  text << "seed " << seed << ": " << report.failure
       << "\nreplay: tests/sim/run.sh --seeds 1 --from " << seed;
  if (power_after_commit > 0) text << " --power-after-commit " << power_after_commit;
  return text.str();
}

TEST(SimTest, SeedsOfFixedBugs) {
  std::ifstream file("tests/sim/regressions.txt");
  ASSERT_TRUE(file.is_open()) << "tests/sim/regressions.txt, from the root of the sources";
  int seeds = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    ++seeds;
    ASSERT_EQ(FailureOf(std::strtoull(line.c_str(), nullptr, 10)), "");
  }
  EXPECT_GT(seeds, 0);
}

TEST(SimTest, FixedSeeds) {
  for (uint64_t seed = 1; seed <= 500; ++seed) ASSERT_EQ(FailureOf(seed), "");
}

// Each run of the tests looks where none has looked before. A failure names its seed.
TEST(SimTest, FreshSeeds) {
  std::random_device device;
  const uint64_t first = (uint64_t{device()} << 31) + 1'000'000;
  for (uint64_t seed = first; seed < first + 200; ++seed) ASSERT_EQ(FailureOf(seed), "");
}

// By chance the power goes anywhere; here it goes once at every commit of a history.
TEST(SimTest, PowerLossAfterEveryCommit) {
  for (uint64_t seed = 1001; seed <= 1005; ++seed) {
    const int64_t commits = Simulate(seed).commits;
    ASSERT_GT(commits, 0);
    for (int64_t commit = 1; commit <= commits; ++commit) {
      ASSERT_EQ(FailureOf(seed, commit), "");
    }
  }
}

TEST(SimTest, SameSeedSameTrace) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_EQ(Simulate(seed).trace_hash, Simulate(seed).trace_hash) << "seed " << seed;
  }
  EXPECT_NE(Simulate(1).trace_hash, Simulate(2).trace_hash);
}

}  // namespace
}  // namespace stint::sim
