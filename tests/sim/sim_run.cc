// Runs simulations; see Usage. After a failure it prints the history without the turns that it does
// not need, and the line that replays it, and stops, unless --all; exit code 1 if there was any.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/sim/simulator.h"

namespace stint::sim {
namespace {

constexpr char kUsage[] =
    "usage: sim_run [--seeds N | --minutes N] [--from S] [--trace] [--all] "
    "[--power-after-commit N]\n";

struct Settings {
  uint64_t seeds = 1000;
  uint64_t from = 1;
  std::chrono::minutes minutes{0};
  bool all = false;
  SimulationOptions options;
};

bool Parse(int argc, char** argv, Settings* settings) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--trace") {
      settings->options.echo = true;
    } else if (flag == "--all") {
      settings->all = true;
    } else if (i + 1 == argc) {
      return false;
    } else if (flag == "--seeds") {
      settings->seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag == "--minutes") {
      settings->minutes = std::chrono::minutes(std::strtoll(argv[++i], nullptr, 10));
      settings->seeds = UINT64_MAX;
    } else if (flag == "--power-after-commit") {
      settings->options.power_after_commit = std::strtoll(argv[++i], nullptr, 10);
    } else if (flag == "--from") {
      settings->from = std::strtoull(argv[++i], nullptr, 10);
    } else {
      return false;
    }
  }
  return true;
}

void ShowFailure(uint64_t seed, const SimulationOptions& options, const Report& report) {
  SimulationOptions fewer = options;
  fewer.skip = Shrink(seed, options);
  const auto skipped = std::count(fewer.skip.begin(), fewer.skip.end(), true);
  const Report shrunk = Simulate(seed, fewer);
  for (const std::string& line : shrunk.tail) std::cout << line << '\n';
  std::cout << "with " << report.turns - static_cast<size_t>(skipped) << " of its " << report.turns
            << " turns: " << shrunk.failure << "\nseed " << seed << ": " << report.failure
            << "\nreplay: tests/sim/run.sh --seeds 1 --from " << seed;
  if (options.power_after_commit > 0) {
    std::cout << " --power-after-commit " << options.power_after_commit;
  }
  std::cout << std::endl;
}

int Run(const Settings& settings) {
  const auto begin = std::chrono::steady_clock::now();
  const auto end = begin + settings.minutes;
  uint64_t failures = 0;
  uint64_t run = 0;
  Report total;
  for (; run < settings.seeds; ++run) {
    if (settings.minutes.count() > 0 && std::chrono::steady_clock::now() >= end) break;
    const uint64_t seed = settings.from + run;
    const Report report = Simulate(seed, settings.options);
    total.calls += report.calls;
    total.commits += report.commits;
    total.restarts += report.restarts;
    total.virtual_ms += report.virtual_ms;
    if (report.failure.empty()) continue;
    ++failures;
    ShowFailure(seed, settings.options, report);
    if (!settings.all) break;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cout << run << " seeds from " << settings.from << ", " << failures << " failures, "
            << total.calls << " calls, " << total.commits << " commits, " << total.restarts
            << " restarts, " << total.virtual_ms / 3'600'000 << " virtual hours, " << took.count()
            << " s\n";
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace stint::sim

int main(int argc, char** argv) {
  stint::sim::Settings settings;
  if (!stint::sim::Parse(argc, argv, &settings)) {
    std::cerr << stint::sim::kUsage;
    return 2;
  }
  return stint::sim::Run(settings);
}
