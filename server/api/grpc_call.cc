#include "server/api/grpc_call.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/api/error_details.h"
#include "server/api/violations.h"
#include "server/engine/error.h"
#include "server/engine/limits.h"

namespace stint::api {
namespace {

class UnaryReactor final : public grpc::ServerUnaryReactor {
 public:
  UnaryReactor(std::shared_ptr<std::atomic<bool>> gone, std::shared_ptr<AnswerBudget> answers)
      : gone_(std::move(gone)), answers_(std::move(answers)) {}
  ~UnaryReactor() override { answers_->Give(answer_bytes_); }

  // Before an answer of this size; false: there is no room for it.
  bool TakeRoom(size_t bytes) {
    if (!answers_->Take(bytes)) return false;
    answer_bytes_ = bytes;
    return true;
  }

  void OnCancel() override { gone_->store(true, std::memory_order_release); }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<std::atomic<bool>> gone_;
  const std::shared_ptr<AnswerBudget> answers_;
  size_t answer_bytes_ = 0;
};

class GrpcExchange final : public Exchange {
 public:
  GrpcExchange(UnaryReactor* reactor, std::shared_ptr<std::atomic<bool>> gone,
               grpc::ByteBuffer* response, const Door& door, CallStart start, std::string identity,
               size_t request_bytes, std::optional<int64_t> remaining_ms)
      : Exchange(std::move(identity), request_bytes, remaining_ms),
        reactor_(reactor),
        gone_(std::move(gone)),
        response_(response),
        calls_(door.calls),
        counts_(door.counts),
        start_(start) {
    calls_->Begin();
  }

  ~GrpcExchange() override {
    Refuse(engine::MakeError(engine::Reason::kStoreFailed,
                             "the broker stopped before it answered; the outcome is unknown: "
                             "repeat with the same request_id or token"));
  }

  bool gone() const override { return gone_->load(std::memory_order_acquire); }

  bool TryReply(const google::protobuf::Message& response) override {
    if (answered_.exchange(true)) return true;
    const size_t size = response.ByteSizeLong();
    if (!reactor_->TakeRoom(size)) {
      engine::ErrorDetails details;
      details.reason = engine::Reason::kOverloaded;
      details.retry_after_ms = engine::kSecondMs;
      Finish(engine::MakeError(std::move(details),
                               "callers have left too many answers unread; try again later"));
      return false;
    }
    grpc::Slice slice(size);
    response.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
    *response_ = grpc::ByteBuffer(&slice, 1);
    Finish(absl::OkStatus());
    return true;
  }

  void Refuse(const absl::Status& status) override {
    if (answered_.exchange(true)) return;
    Finish(status);
  }

 private:
  void Finish(const absl::Status& status) {
    // In this order: after Finish the server may go, and the counts with it.
    CountEnd(counts_, start_, status);
    calls_->End();
    reactor_->Finish(ToGrpcStatus(status));
  }

  // Valid until it is finished.
  UnaryReactor* const reactor_;
  const std::shared_ptr<std::atomic<bool>> gone_;
  grpc::ByteBuffer* const response_;
  const std::shared_ptr<CallsUnderWay> calls_;
  ops::RpcCounts* const counts_;
  const CallStart start_;
  std::atomic<bool> answered_ = false;
};

std::optional<int64_t> RemainingMillis(const grpc::CallbackServerContext& context) {
  const gpr_timespec deadline = context.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return std::nullopt;
  const gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  return std::max<int64_t>(0, gpr_time_to_millis(left));
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const google::rpc::Status details = ToRpcStatus(status);
  return grpc::Status(static_cast<grpc::StatusCode>(details.code()), details.message(),
                      details.SerializeAsString());
}

absl::StatusOr<std::string> Authenticate(const Authenticator& authenticator,
                                         const grpc::CallbackServerContext& context) {
  Credentials credentials;
  const auto& metadata = context.client_metadata();
  if (const auto header = metadata.find("authorization"); header != metadata.end()) {
    credentials.authorization = absl::string_view(header->second.data(), header->second.size());
  }
  const std::shared_ptr<const grpc::AuthContext> peer = context.auth_context();
  if (peer != nullptr && peer->IsPeerAuthenticated()) {
    const std::vector<grpc::string_ref> names =
        peer->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
    if (!names.empty()) {
      credentials.certificate = std::string(names.front().data(), names.front().size());
    }
  }
  return authenticator.Check(credentials);
}

absl::Status CheckCallSize(size_t bytes, size_t max_bytes) {
  if (bytes <= max_bytes) return absl::OkStatus();
  Violations violations;
  violations.Add("", absl::StrCat("the call must be at most ", max_bytes, " bytes, has ", bytes));
  return violations.ToStatus();
}

std::pair<grpc::ServerUnaryReactor*, ExchangePtr> BeginCall(grpc::CallbackServerContext* context,
                                                            grpc::ByteBuffer* response,
                                                            const Door& door, CallStart start,
                                                            std::string identity,
                                                            size_t request_bytes) {
  auto gone = std::make_shared<std::atomic<bool>>(false);
  auto* reactor = new UnaryReactor(gone, door.answers);
  return {reactor, std::make_shared<GrpcExchange>(reactor, std::move(gone), response, door, start,
                                                  std::move(identity), request_bytes,
                                                  RemainingMillis(*context))};
}

void CountEnd(ops::RpcCounts* counts, CallStart start, const absl::Status& status) {
  counts->CountCall(start.method, status, runtime::SystemClock().BootMicros() - start.boot_us);
}

size_t MethodOfRequest(absl::string_view request_name) {
  absl::ConsumeSuffix(&request_name, "Request");
  return ops::RpcCounts::MethodNumber(request_name);
}

grpc::ServerUnaryReactor* RefuseCall(grpc::CallbackServerContext* context, const Door& door,
                                     CallStart start, const absl::Status& status) {
  CountEnd(door.counts, start, status);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

}  // namespace stint::api
