// Reading the broker's errors.
//
// Every call of this library returns an absl::Status or absl::StatusOr. A refusal of the
// broker carries its reason, the fields it objects to and when to try again; the functions
// here read them. Decide by code and reason, never by the message text: the text is for
// people and changes.
//
//   auto answer = client.EnqueueJob(request);
//   if (!answer.ok() && ErrorReason(answer.status()) == "JOB_EXISTS") ...
//
// The reasons are those of stint.v1.ErrorReason without the prefix ERROR_REASON_.
//
// Thread rule: functions without state.
#ifndef STINT_CLIENT_CPP_STATUS_H_
#define STINT_CLIENT_CPP_STATUS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace google::rpc {
class Status;
}  // namespace google::rpc

namespace stint::client {

// One field of the request that the broker did not accept.
struct FieldViolation {
  // Path of the field, such as `job.labels`.
  std::string field;
  // What is wrong with it.
  std::string description;
};

// The reason, such as `LEASE_LOST`; empty when the error did not come from the broker itself
// (it cannot be reached, a proxy answered, the call was cancelled here).
std::string ErrorReason(const absl::Status& status);

// A detail beside the reason, such as `worker` of LEASE_LOST; empty when it is not there.
std::string ErrorMetadata(const absl::Status& status, absl::string_view key);

// The fields the broker did not accept; empty for every error but INVALID_REQUEST.
std::vector<FieldViolation> FieldViolations(const absl::Status& status);

// How long the broker asks to wait before the call is repeated, if it said so.
std::optional<absl::Duration> RetryDelay(const absl::Status& status);

// Whether the same call may be sent again and can still succeed: the broker could not be
// reached, is overloaded, or the call's deadline passed. The outcome of the failed call is
// unknown, so a call that changes something must carry a `request_id` or a token; Client and
// Worker see to that.
bool IsSafeToRepeat(const absl::Status& status);

// The same error in the form the API carries it inside answers (SettleResult.error).
absl::Status FromRpcStatus(const google::rpc::Status& status);

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_STATUS_H_
