// What a repeated call is compared by: a 64-bit hash of the method and of what the request
// says, without its `request_id`. Equal content gives an equal hash whatever the order of the
// bytes on the wire, after a restart, and in every release (a field a newer release adds
// counts only when set), because the hash is remembered in the store.
//
// The hash: SHA-256 over the method's name and then, for each set field in order of its
// number: the number, the kind of value, the value; numbers big-endian in 8 bytes, texts and
// messages with their length or their end marked, entries of a map in order of their keys.
// The first 8 bytes are the fingerprint. Thread-safe: a function without state.
#ifndef STINT_SERVER_API_FINGERPRINT_H_
#define STINT_SERVER_API_FINGERPRINT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace stint::api {

// `method` such as "EnqueueJob".
uint64_t Fingerprint(absl::string_view method, const google::protobuf::Message& request);

}  // namespace stint::api

#endif  // STINT_SERVER_API_FINGERPRINT_H_
