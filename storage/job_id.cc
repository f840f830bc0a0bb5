#include "storage/job_id.h"

#include <cstddef>

namespace stint::storage {
namespace {

constexpr absl::string_view kMark = "j-";
constexpr absl::string_view kDigits = "0123456789abcdefghijklmnopqrstuv";
constexpr size_t kLength = 13;  // 64 bits in base 32

}  // namespace

std::string MakeJobId(uint64_t sequence) {
  std::string id(kMark.data(), kMark.size());
  id.resize(kMark.size() + kLength);
  for (size_t i = kLength; i > 0; --i) {
    id[kMark.size() + i - 1] = kDigits[sequence & 31];
    sequence >>= 5;
  }
  return id;
}

std::optional<uint64_t> SequenceOfJobId(absl::string_view job_id) {
  if (job_id.size() != kMark.size() + kLength || job_id.substr(0, kMark.size()) != kMark) {
    return std::nullopt;
  }
  const absl::string_view digits = job_id.substr(kMark.size());
  if (kDigits.find(digits[0]) > 15) return std::nullopt;  // would not fit into 64 bits
  uint64_t sequence = 0;
  for (const char c : digits) {
    const size_t digit = kDigits.find(c);
    if (digit == absl::string_view::npos) return std::nullopt;
    sequence = sequence << 5 | digit;
  }
  return sequence;
}

}  // namespace stint::storage
