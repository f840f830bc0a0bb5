// Runs simulations: sim_run [--seeds N] [--from S] [--trace] [--all] [--power-after-commit N].
// After a failure it prints the tail of the trace and the line that replays it, and stops,
// unless --all; exit code 1 if there was any.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/sim/simulator.h"

int main(int argc, char** argv) {
  uint64_t seeds = 1000;
  uint64_t from = 1;
  bool trace = false;
  bool all = false;
  int64_t power = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--trace") {
      trace = true;
    } else if (flag == "--all") {
      all = true;
    } else if (flag == "--seeds" && i + 1 < argc) {
      seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--power-after-commit" && i + 1 < argc) {
      power = std::strtoll(argv[++i], nullptr, 10);
    } else if (flag == "--from" && i + 1 < argc) {
      from = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::cerr
          << "usage: sim_run [--seeds N] [--from S] [--trace] [--all] [--power-after-commit N]\n";
      return 2;
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  uint64_t failures = 0;
  uint64_t run = 0;
  int64_t calls = 0;
  int64_t restarts = 0;
  int64_t virtual_ms = 0;
  for (uint64_t seed = from; seed < from + seeds; ++seed) {
    const stint::sim::Report report = stint::sim::Simulate(seed, {trace, power});
    ++run;
    calls += report.calls;
    restarts += report.restarts;
    virtual_ms += report.virtual_ms;
    if (report.failure.empty()) continue;
    ++failures;
    if (!all || seeds == 1) {
      for (const std::string& line : report.tail) std::cout << line << '\n';
    }
    std::cout << "seed " << seed << ": " << report.failure
              << "\nreplay: tests/sim/run.sh --seeds 1 --from " << seed;
    if (power > 0) std::cout << " --power-after-commit " << power;
    std::cout << std::endl;
    if (!all) break;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cout << run << " seeds, " << failures << " failures, " << calls << " calls, " << restarts
            << " restarts, " << virtual_ms / 3'600'000 << " virtual hours, " << took.count()
            << " s\n";
  return failures == 0 ? 0 : 1;
}
