// CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), the checksum of the store's logs, and
// the masked form in which it is stored there.
//
// Threads: any.
#ifndef STINT_STORAGE_CRC32C_H_
#define STINT_STORAGE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace stint::storage {

// The checksum of `data` after the bytes whose checksum is `crc`.
uint32_t ExtendCrc32c(uint32_t crc, absl::string_view data);

inline uint32_t Crc32c(absl::string_view data) { return ExtendCrc32c(0, data); }

// A checksum of bytes that contain checksums is weak, so the stored form is rotated and shifted.
inline uint32_t MaskCrc32c(uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

}  // namespace stint::storage

#endif  // STINT_STORAGE_CRC32C_H_
