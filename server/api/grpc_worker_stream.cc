#include "server/api/grpc_worker_stream.h"

#include <grpcpp/support/proto_buffer_reader.h>

#include <memory>
#include <optional>
#include <utility>

#include "server/api/parse_request.h"
#include "server/api/worker_stream.h"
#include "stint/v1/worker_service.pb.h"

namespace stint::api {
namespace {

using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

class WorkerStreamReactor final : public Reactor, public StreamTransport {
 public:
  WorkerStreamReactor(const Door& door, Edge* edge, grpc::CallbackServerContext* context,
                      std::string identity)
      : context_(context),
        max_message_bytes_(door.max_call_bytes),
        counts_(door.counts),
        start_(StartOf<v1::StreamJobsRequest>()),
        stream_(std::make_shared<WorkerStream>(
            WorkerStreamContext{edge, door.calls, door.answers, std::move(identity)}, this)) {
    stream_->Begin();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return stream_->OnReadsEnded();
    if (absl::Status status = CheckCallSize(in_.Length(), max_message_bytes_); !status.ok()) {
      return stream_->OnBadMessage(status);
    }
    v1::StreamJobsRequest message;
    grpc::ProtoBufferReader reader(&in_);
    if (absl::Status status = ParseRequest(&reader, &message); !status.ok()) {
      return stream_->OnBadMessage(status);
    }
    stream_->OnMessage(std::move(message));
  }
  void OnWriteDone(bool ok) override { stream_->OnWritten(ok); }
  void OnCancel() override { stream_->OnBroken(); }
  void OnDone() override {
    // Broken from outside, or ended here.
    CountEnd(counts_, start_, ended_.value_or(absl::CancelledError()));
    stream_->Detach();
    delete this;
  }

  void Read() override { StartRead(&in_); }
  void Write(const v1::StreamJobsResponse& message) override {
    grpc::Slice slice(message.ByteSizeLong());
    message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
    out_ = grpc::ByteBuffer(&slice, 1);
    StartWrite(&out_);
  }
  void Finish(const absl::Status& status) override {
    ended_ = status;
    Reactor::Finish(ToGrpcStatus(status));
  }
  void Cancel() override { context_->TryCancel(); }

 private:
  grpc::CallbackServerContext* const context_;
  const size_t max_message_bytes_;
  ops::RpcCounts* const counts_;
  const CallStart start_;
  std::optional<absl::Status> ended_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
  const std::shared_ptr<WorkerStream> stream_;
};

// Refuses a stream at once.
class RefusedStream final : public Reactor {
 public:
  RefusedStream(const Door& door, const absl::Status& status) {
    CountEnd(door.counts, StartOf<v1::StreamJobsRequest>(), status);
    Finish(ToGrpcStatus(status));
  }
  void OnDone() override { delete this; }
};

}  // namespace

Reactor* BeginWorkerStream(const Door& door, Edge* edge, grpc::CallbackServerContext* context) {
  absl::StatusOr<std::string> identity = Authenticate(*door.authenticator, *context);
  if (!identity.ok()) return new RefusedStream(door, identity.status());
  return new WorkerStreamReactor(door, edge, context, *std::move(identity));
}

}  // namespace stint::api
