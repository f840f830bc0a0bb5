#include "client/cpp/connection.h"

#include <grpc/support/time.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/backoff.h"
#include "client/cpp/status.h"
#include "google/protobuf/message_lite.h"
#include "google/rpc/status.pb.h"
#include "sync/mutex.h"

namespace stint::client {
namespace {

using google::protobuf::MessageLite;
using Stub = grpc::TemplatedGenericStub<MessageLite, MessageLite>;

constexpr int kKeepaliveTimeMs = 20'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
// How long one try to connect may take; a try that is not answered must not hold up the next.
constexpr int kConnectTimeoutMs = 5'000;
constexpr int kMaxReconnectMs = 2'000;
// The largest `max_reply_bytes` of LeaseJobs and room for framing.
constexpr int kMaxReceiveBytes = 68 * 1024 * 1024;
constexpr size_t kMaxCredentialFileBytes = 1024 * 1024;

std::string Environment(const char* name, std::string otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? std::move(otherwise) : std::string(value);
}

absl::StatusOr<std::string> ReadCredentialFile(const char* what, const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string content(kMaxCredentialFileBytes + 1, '\0');
  if (file) file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (file.bad() || (!file && file.gcount() == 0 && !file.eof())) {
    return absl::ErrnoToStatus(errno == 0 ? EIO : errno,
                               absl::StrCat("cannot read the ", what, " file ", path));
  }
  content.resize(static_cast<size_t>(file.gcount()));
  if (content.size() > kMaxCredentialFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the ", what, " file ", path, " is larger than 1 MiB; is it the right one?"));
  }
  return content;
}

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  absl::StatusOr<std::string> content = ReadCredentialFile("token", path);
  if (!content.ok()) return content;
  std::string token(absl::StripAsciiWhitespace(*content));
  if (token.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the token file ", path, " is empty"));
  }
  for (const char c : token) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(
          absl::StrCat("the token file ", path,
                       " does not hold one secret: there are blanks or control characters in it"));
    }
  }
  return token;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const ConnectionOptions& options) {
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    return absl::InvalidArgumentError(
        "a TLS client certificate and its key belong together: give both (STINT_TLS_CERT and "
        "STINT_TLS_KEY) or none");
  }
  if (options.tls_ca_file.empty() && options.tls_cert_file.empty()) {
    return grpc::InsecureChannelCredentials();
  }
  grpc::SslCredentialsOptions ssl;
  const std::pair<const char*, const std::string*> files[] = {
      {"TLS CA", &options.tls_ca_file},
      {"TLS certificate", &options.tls_cert_file},
      {"TLS key", &options.tls_key_file}};
  std::string* const targets[] = {&ssl.pem_root_certs, &ssl.pem_cert_chain, &ssl.pem_private_key};
  for (size_t i = 0; i < 3; ++i) {
    if (files[i].second->empty()) continue;
    absl::StatusOr<std::string> pem = ReadCredentialFile(files[i].first, *files[i].second);
    if (!pem.ok()) return pem.status();
    *targets[i] = *std::move(pem);
  }
  return grpc::SslCredentials(ssl);
}

// What gRPC would take for something else without a word: `host:22x` as port 22, `7150` as a host.
absl::Status CheckAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon != absl::string_view::npos && colon > 0) {
    const absl::string_view digits = address.substr(colon + 1);
    const bool only_digits = std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit);
    if (only_digits && absl::SimpleAtoi(digits, &port) && port >= 1 && port <= 65'535) {
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the broker's address has to be HOST:PORT, such as 127.0.0.1:7150; it is '", address, "'"));
}

bool IsLoopback(absl::string_view address) {
  return absl::StartsWith(address, "127.") || absl::StartsWith(address, "localhost:") ||
         absl::StartsWith(address, "[::1]");
}

grpc::ChannelArguments MakeArguments(const ConnectionOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // A random start, so that the clients of one broker do not reconnect in step.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(
                       RandomBetween(absl::Milliseconds(400), absl::Milliseconds(1200)))));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kMaxReconnectMs);
  // Client and Worker decide what is repeated.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (IsLoopback(options.address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  arguments.SetUserAgentPrefix("stint-cpp");
  return arguments;
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  google::rpc::Status rpc;
  if (!status.error_details().empty() && rpc.ParseFromString(status.error_details())) {
    rpc.set_code(static_cast<int>(status.error_code()));
    rpc.set_message(status.error_message());
    return FromRpcStatus(rpc);
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace

ConnectionOptions ConnectionOptions::FromEnvironment() {
  ConnectionOptions options;
  options.address = Environment("STINT_ADDRESS", options.address);
  options.token_file = Environment("STINT_TOKEN_FILE", "");
  options.tls_ca_file = Environment("STINT_TLS_CA", "");
  options.tls_cert_file = Environment("STINT_TLS_CERT", "");
  options.tls_key_file = Environment("STINT_TLS_KEY", "");
  return options;
}

void CallCanceller::Cancel() {
  const MutexLock lock(mutex_);
  cancelled_ = true;
  if (end_call_) end_call_();
}

void CallCanceller::Reset() {
  const MutexLock lock(mutex_);
  cancelled_ = false;
}

bool CallCanceller::Begin(std::function<void()> end_call) {
  const MutexLock lock(mutex_);
  if (cancelled_) return false;
  end_call_ = std::move(end_call);
  return true;
}

bool CallCanceller::End() {
  const MutexLock lock(mutex_);
  end_call_ = nullptr;
  return cancelled_;
}

namespace {

// Streams that have ended. The last reference to one may be that to its channel too. When it went
// in OnDone, gRPC 1.51 failed an assertion on a reference count; why has not been shown. So a
// stream is put here in its OnDone and let go by whoever uses connections next.
class EndedStreams {
 public:
  static EndedStreams& Get() {
    static auto* const kAll = new EndedStreams;
    return *kAll;
  }
  // Leaves the caller no reference.
  void Add(std::shared_ptr<Stream>&& stream, std::shared_ptr<StreamEvents>&& events) {
    const MutexLock lock(mutex_);
    ended_.emplace_back(std::move(stream), std::move(events));
  }
  void LetGo() {
    std::vector<Ended> ended;  // ends after the lock
    const MutexLock lock(mutex_);
    ended.swap(ended_);
  }

 private:
  using Ended = std::pair<std::shared_ptr<Stream>, std::shared_ptr<StreamEvents>>;
  Mutex mutex_;
  std::vector<Ended> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

struct Connection::Impl {
  Impl(ConnectionOptions given, std::string secret)
      : options(std::move(given)), token(std::move(secret)) {}

  const ConnectionOptions options;
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  Mutex mutex;
  std::shared_ptr<Stub> stub ABSL_GUARDED_BY(mutex);
  int64_t channel ABSL_GUARDED_BY(mutex) = 0;
  std::string token ABSL_GUARDED_BY(mutex);

  // Connects when something begins on it.
  void MakeStub() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    ++channel;
    stub = std::make_shared<Stub>(
        grpc::CreateCustomChannel(options.address, credentials, MakeArguments(options)));
  }

  absl::Status CallOnce(const char* method, const MessageLite& request, MessageLite* response,
                        gpr_timespec deadline, CallCanceller* canceller,
                        const std::string& secret) {
    std::shared_ptr<Stub> used;
    {
      const MutexLock lock(mutex);
      used = stub;
    }
    grpc::ClientContext context;
    context.set_deadline(deadline);
    if (!secret.empty()) context.AddMetadata("authorization", "Bearer " + secret);
    if (canceller != nullptr && !canceller->Begin([&context] { context.TryCancel(); })) {
      return absl::CancelledError("cancelled before it was sent");
    }
    Mutex done_mutex;
    Condition done_changed;
    bool done = false;
    grpc::Status result;
    used->UnaryCall(&context, method, grpc::StubOptions(), &request, response,
                    [&](grpc::Status status) {
                      const MutexLock lock(done_mutex);
                      result = std::move(status);
                      done = true;
                      done_changed.NotifyOne();
                    });
    {
      const MutexLock lock(done_mutex);
      while (!done) done_changed.Wait(done_mutex);
    }
    const bool cancelled_here = canceller != nullptr && canceller->End();
    absl::Status status = FromGrpc(result);
    // gRPC's word for a call that reaches a server after its shutdown has begun.
    if (absl::IsCancelled(status) && !cancelled_here && ErrorReason(status).empty()) {
      return absl::UnavailableError("the broker is stopping");
    }
    return status;
  }

  // Reads the token file again. True when it holds another token than `used`.
  bool TokenChanged(const std::string& used, std::string* fresh) {
    if (options.token_file.empty()) return false;
    absl::StatusOr<std::string> read = ReadToken(options.token_file);
    if (!read.ok() || *read == used) return false;
    const MutexLock lock(mutex);
    token = *read;
    *fresh = *std::move(read);
    return true;
  }
};

Connection::Connection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Connection::~Connection() { EndedStreams::Get().LetGo(); }

absl::StatusOr<std::shared_ptr<Connection>> Connection::Open(ConnectionOptions options) {
  if (options.address.empty()) {
    return absl::InvalidArgumentError("no broker address: give HOST:PORT (STINT_ADDRESS)");
  }
  if (absl::Status valid = CheckAddress(options.address); !valid.ok()) return valid;
  std::string token;
  if (!options.token_file.empty()) {
    absl::StatusOr<std::string> read = ReadToken(options.token_file);
    if (!read.ok()) return read.status();
    token = *std::move(read);
  }
  auto impl = std::make_unique<Impl>(std::move(options), std::move(token));
  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials =
      MakeCredentials(impl->options);
  if (!credentials.ok()) return credentials.status();
  impl->credentials = *std::move(credentials);
  {
    const MutexLock lock(impl->mutex);
    impl->MakeStub();
  }
  return std::shared_ptr<Connection>(new Connection(std::move(impl)));
}

const std::string& Connection::address() const { return impl_->options.address; }

absl::Status Connection::Call(const char* method, const MessageLite& request, MessageLite* response,
                              absl::Duration deadline, CallCanceller* canceller) {
  const gpr_timespec until =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                   gpr_time_from_nanos(absl::ToInt64Nanoseconds(deadline), GPR_TIMESPAN));
  std::string token;
  {
    const MutexLock lock(impl_->mutex);
    token = impl_->token;
  }
  const absl::Status status = impl_->CallOnce(method, request, response, until, canceller, token);
  if (!absl::IsUnauthenticated(status) || !impl_->TokenChanged(token, &token)) return status;
  return impl_->CallOnce(method, request, response, until, canceller, token);
}

namespace {

// The reactor of one stream; gone when gRPC and its user are done with it.
class GrpcStream final : public Stream, public grpc::ClientBidiReactor<MessageLite, MessageLite> {
 public:
  GrpcStream(Stub* stub, const char* method, const std::string& token,
             std::shared_ptr<StreamEvents> events)
      : events_(std::move(events)) {
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    stub->PrepareBidiStreamingCall(&context_, method, grpc::StubOptions(), this);
  }
  void Begin(std::shared_ptr<GrpcStream> self) {
    self_ = std::move(self);
    // Sends come from threads that gRPC does not know.
    AddHold();
    StartRead(events_->NextMessage());
    StartCall();
  }

  void Send(const MessageLite& message) override {
    const MutexLock lock(mutex_);
    if (!held_) return;
    StartWrite(&message);
  }
  void Cancel() override { context_.TryCancel(); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // No more sends: the stream may end.
      const MutexLock lock(mutex_);
      if (std::exchange(held_, false)) RemoveHold();
      return;
    }
    events_->OnMessage();
    StartRead(events_->NextMessage());
  }
  void OnWriteDone(bool ok) override {
    if (ok) events_->OnSent();
  }
  void OnDone(const grpc::Status& status) override {
    events_->OnEnd(FromGrpc(status));
    // Its user may hold this stream in what it gets the events by; both would stay for ever.
    EndedStreams::Get().Add(std::move(self_), std::move(events_));
  }

 private:
  std::shared_ptr<StreamEvents> events_;  // with self_, until OnDone
  grpc::ClientContext context_;
  Mutex mutex_;
  bool held_ ABSL_GUARDED_BY(mutex_) = true;
  std::shared_ptr<GrpcStream> self_;
};

}  // namespace

std::shared_ptr<Stream> Connection::OpenStream(const char* method,
                                               std::shared_ptr<StreamEvents> events) {
  std::string token;
  std::shared_ptr<Stub> stub;
  {
    const MutexLock lock(impl_->mutex);
    token = impl_->token;
    stub = impl_->stub;
  }
  auto stream = std::make_shared<GrpcStream>(stub.get(), method, token, std::move(events));
  stream->Begin(stream);
  EndedStreams::Get().LetGo();  // now that another channel is in use
  return stream;
}

void Connection::ReadTokenAgain() {
  std::string used;
  {
    const MutexLock lock(impl_->mutex);
    used = impl_->token;
  }
  impl_->TokenChanged(used, &used);
}

int64_t Connection::channel() const {
  const MutexLock lock(impl_->mutex);
  return impl_->channel;
}

void Connection::ReplaceChannel(int64_t channel) {
  EndedStreams::Get().LetGo();
  std::shared_ptr<Stub> old;  // ends after the lock
  const MutexLock lock(impl_->mutex);
  if (channel != impl_->channel) return;
  old = std::move(impl_->stub);
  impl_->MakeStub();
}

}  // namespace stint::client
