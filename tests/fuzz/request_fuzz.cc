// Requests as they come off the wire: parsed, checked, converted, and refused in words that fit
// into an answer.
//
// Input: one byte, the method; the rest is the request.
#include <array>
#include <string>
#include <utility>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/api/convert.h"
#include "server/api/error_details.h"
#include "server/api/fingerprint.h"
#include "server/api/parse_request.h"
#include "server/api/validate.h"
#include "server/engine/error.h"
#include "tests/fuzz/fuzz_input.h"

namespace stint::api {
namespace {

using test::Require;

const EdgeLimits kLimits{.max_payload_bytes = 256, .max_call_bytes = 512};
constexpr int64_t kWaitMs = 1000;
constexpr size_t kMaxRefusalBytes = 4096;

void CheckRefusal(const absl::Status& status) {
  Require(engine::ReasonOf(status) != engine::Reason::kNone, "a refusal has a reason");
  const google::rpc::Status whole = ToRpcStatus(status);
  Require(whole.ByteSizeLong() <= kMaxRefusalBytes, "a refusal fits into the trailers");
  // Parsing checks what serialising only complains about: that each text is UTF-8.
  google::rpc::Status copy;
  Require(copy.ParseFromString(whole.SerializeAsString()), "a refusal is UTF-8");
  Require(copy.ParseFromString(ToItemStatus(status).SerializeAsString()), "an item's too");
}

// Calls `accept` with a request that passes `validate`.
template <typename Request, typename Validator, typename Accept>
void Run(absl::string_view bytes, Validator validate, Accept accept) {
  Request request;
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  absl::Status status = ParseRequest(&stream, &request);
  if (status.ok()) status = validate(request);
  if (!status.ok()) return CheckRefusal(status);
  Request again;
  Require(again.ParseFromString(request.SerializeAsString()), "a request can be sent on");
  Require(Fingerprint("Fuzz", again) == Fingerprint("Fuzz", request),
          "the fingerprint is of the content");
  accept(std::move(request));
}

template <typename Request>
void RunCommand(absl::string_view bytes) {
  Run<Request>(
      bytes, [](const Request& request) { return Validate(request); },
      [](Request&& request) { ToCommand(request, "identity"); });
}

template <typename Request>
void RunEnqueue(absl::string_view bytes) {
  Run<Request>(
      bytes, [](const Request& request) { return Validate(request, kLimits); },
      [](Request&& request) { ToCommand(std::move(request), "identity"); });
}

template <typename Request>
void RunSettle(absl::string_view bytes) {
  Run<Request>(
      bytes,
      [](const Request& request) {
        if constexpr (std::is_same_v<Request, v1::CompleteJobRequest> ||
                      std::is_same_v<Request, v1::SettleItem>) {
          return Validate(request, kLimits);
        } else {
          return Validate(request);
        }
      },
      [](Request&& request) { ToItem(std::move(request)); });
}

template <typename Request>
void RunRead(absl::string_view bytes) {
  Run<Request>(
      bytes, [](const Request& request) { return Validate(request); }, [](Request&&) {});
}

void RunWait(absl::string_view bytes) {
  Run<v1::WaitJobRequest>(
      bytes, [](const v1::WaitJobRequest& request) { return Validate(request); },
      [](v1::WaitJobRequest&& request) { ToCommand(request, kWaitMs); });
}

void RunLease(absl::string_view bytes) {
  Run<v1::LeaseJobsRequest>(
      bytes, [](const v1::LeaseJobsRequest& request) { return Validate(request); },
      [](v1::LeaseJobsRequest&& request) { ToCommand(std::move(request), kWaitMs); });
}

void RunHeartbeat(absl::string_view bytes) {
  Run<v1::HeartbeatRequest>(
      bytes, [](const v1::HeartbeatRequest& request) { return Validate(request); },
      [](v1::HeartbeatRequest&& request) { ToCommand(request); });
}

// Corpora name methods by their place: only append.
constexpr std::array kMethods = {
    RunEnqueue<v1::EnqueueJobRequest>,
    RunEnqueue<v1::BatchEnqueueJobsRequest>,
    RunRead<v1::GetJobRequest>,
    RunRead<v1::ListJobsRequest>,
    RunWait,
    RunCommand<v1::CancelJobRequest>,
    RunCommand<v1::RedriveJobRequest>,
    RunCommand<v1::DeleteJobRequest>,
    RunCommand<v1::UpdateJobRequest>,
    RunLease,
    RunHeartbeat,
    RunSettle<v1::CompleteJobRequest>,
    RunSettle<v1::FailJobRequest>,
    RunSettle<v1::ReleaseJobRequest>,
    RunRead<v1::SettleJobsRequest>,
    RunSettle<v1::SettleItem>,
    RunCommand<v1::CreateQueueRequest>,
    RunRead<v1::GetQueueRequest>,
    RunRead<v1::ListQueuesRequest>,
    RunCommand<v1::UpdateQueueRequest>,
    RunCommand<v1::DeleteQueueRequest>,
    RunCommand<v1::PauseQueueRequest>,
    RunCommand<v1::ResumeQueueRequest>,
    RunCommand<v1::PurgeQueueRequest>,
    RunRead<v1::GetQueueStatsRequest>,
};

}  // namespace
}  // namespace stint::api

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stint::test::Input input(data, size);
  stint::api::kMethods[input.U8() % stint::api::kMethods.size()](input.Rest());
  return 0;
}
