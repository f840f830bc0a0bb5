// What the fuzzers share: taking the bytes of an input apart, and saying what did not hold.
//
// An Input gives numbers and texts off the front of the bytes and, at their end, zeros and empty
// texts, so that every input means something.
//
// Threads: one.
#ifndef STINT_TESTS_FUZZ_FUZZ_INPUT_H_
#define STINT_TESTS_FUZZ_FUZZ_INPUT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>

#include "absl/strings/string_view.h"

namespace stint::test {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  uint8_t U8() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return value;
  }
  uint16_t U16() {
    const uint8_t high = U8();
    return static_cast<uint16_t>(high << 8 | U8());
  }
  // The next `size` bytes, or as many as there are.
  absl::string_view Bytes(size_t size) {
    const absl::string_view bytes = rest_.substr(0, std::min(size, rest_.size()));
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  // A text with its length, one byte, in front.
  absl::string_view Text() { return Bytes(U8()); }
  absl::string_view Rest() { return Bytes(rest_.size()); }

 private:
  absl::string_view rest_;
};

// Ends the process, which is how a fuzzer reports an input.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "does not hold: " << what << std::endl;
  std::abort();
}

}  // namespace stint::test

#endif  // STINT_TESTS_FUZZ_FUZZ_INPUT_H_
