// Bytes to a request message, with a reason when they are none: gRPC itself would answer
// UNIMPLEMENTED without a word. Thread-safe: functions without state.
#ifndef STINT_SERVER_API_PARSE_REQUEST_H_
#define STINT_SERVER_API_PARSE_REQUEST_H_

#include "absl/status/status.h"
#include "google/protobuf/io/zero_copy_stream.h"
#include "google/protobuf/message.h"

namespace stint::api {

// INVALID_REQUEST, naming the field when it was a text that is not UTF-8.
absl::Status ParseRequest(google::protobuf::io::ZeroCopyInputStream* bytes,
                          google::protobuf::Message* request);

}  // namespace stint::api

#endif  // STINT_SERVER_API_PARSE_REQUEST_H_
