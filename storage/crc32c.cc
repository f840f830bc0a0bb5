#include "storage/crc32c.h"

#include <array>
#include <cstddef>

namespace stint::storage {
namespace {

// tables[k][b] is the checksum of byte b followed by k zero bytes: eight bytes a step.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    tables[0][b] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t b = 0; b < 256; ++b) {
      const uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

uint32_t ExtendCrc32c(uint32_t crc, absl::string_view data) {
  const auto byte = [&data](size_t i) {
    return static_cast<uint32_t>(static_cast<unsigned char>(data[i]));
  };
  uint32_t state = ~crc;
  while (data.size() >= 8) {
    const uint32_t low = state ^ (byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24);
    state = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^
            kTables[5][(low >> 16) & 0xff] ^ kTables[4][low >> 24] ^ kTables[3][byte(4)] ^
            kTables[2][byte(5)] ^ kTables[1][byte(6)] ^ kTables[0][byte(7)];
    data.remove_prefix(8);
  }
  for (const char c : data) {
    state = (state >> 8) ^ kTables[0][(state ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return ~state;
}

}  // namespace stint::storage
