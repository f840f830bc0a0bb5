// What happened in a simulation, line by line: a hash over all lines, to compare two runs of
// one seed, and the last lines, to read after a failure. Used by one thread.
#ifndef STINT_TESTS_SIM_TRACE_H_
#define STINT_TESTS_SIM_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iostream>
#include <string>
#include <utility>

namespace stint::sim {

class Trace {
 public:
  // `echo`: lines go to standard output as well.
  explicit Trace(bool echo) : echo_(echo) {}

  void Add(std::string line) {
    // FNV-1a.
    for (const char c : line) hash_ = (hash_ ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    if (echo_) std::cout << line << '\n';
    lines_.push_back(std::move(line));
    if (lines_.size() > kKept) lines_.pop_front();
  }

  uint64_t hash() const { return hash_; }
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  static constexpr size_t kKept = 5000;
  const bool echo_;
  uint64_t hash_ = 0xcbf29ce484222325;
  std::deque<std::string> lines_;
};

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_TRACE_H_
