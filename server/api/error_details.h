// The one conversion of refusals to what callers see: google.rpc.Status with details.
// ErrorInfo (reason, domain `stint.dev`, metadata) always; BadRequest with the violations;
// RetryInfo with RESOURCE_EXHAUSTED and UNAVAILABLE; ResourceInfo with NOT_FOUND and
// ALREADY_EXISTS. Message and details are kept small, so that they fit into the trailers of
// every client. Thread-safe: functions without state.
#ifndef STINT_SERVER_API_ERROR_DETAILS_H_
#define STINT_SERVER_API_ERROR_DETAILS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/rpc/status.pb.h"

namespace stint::api {

inline constexpr absl::string_view kErrorDomain = "stint.dev";

// Of a whole call: at most 4 KiB.
google::rpc::Status ToRpcStatus(const absl::Status& status);

// Of one item of an answer with many: at most 1 KiB and the message.
google::rpc::Status ToItemStatus(const absl::Status& status);

}  // namespace stint::api

#endif  // STINT_SERVER_API_ERROR_DETAILS_H_
