// One connection to a broker: address, credentials, keepalive, reconnecting.
//
// How it is used: fill ConnectionOptions (FromEnvironment reads the variables that every
// client and tool of Stint reads), Open it once, and give the same connection to any number
// of Clients and Workers. Opening reads the credential files and does not talk to the broker;
// the connection is made by the first call and made anew, for ever, when it breaks.
//
// What it does not do: it repeats no call (Client and Worker do) with one exception: when the
// broker does not know the token, the token file is read again, and if it has changed the
// call is sent once more. So a token can be exchanged without a restart.
//
// Thread rule: any thread.
#ifndef STINT_CLIENT_CPP_CONNECTION_H_
#define STINT_CLIENT_CPP_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "sync/mutex.h"

namespace google::protobuf {
class MessageLite;
}  // namespace google::protobuf

namespace stint::client {

struct ConnectionOptions {
  // HOST:PORT. Environment: STINT_ADDRESS.
  std::string address = "127.0.0.1:7150";
  // File that holds the secret of a credential, sent as `authorization: Bearer …`; empty:
  // none is sent. Environment: STINT_TOKEN_FILE.
  std::string token_file;
  // PEM file of the authorities that may vouch for the broker. Any of the three TLS fields
  // turns TLS on; without this one the system's authorities count. Environment: STINT_TLS_CA.
  std::string tls_ca_file;
  // PEM files of this client's certificate and key, both or none, for a broker that wants
  // one. Environment: STINT_TLS_CERT, STINT_TLS_KEY.
  std::string tls_cert_file;
  std::string tls_key_file;

  // The defaults above, overridden by the environment variables that are set and not empty.
  static ConnectionOptions FromEnvironment();
};

// Lets another thread end a call early. One canceller serves one call at a time.
// Thread rule: any thread.
class CallCanceller {
 public:
  CallCanceller() = default;
  CallCanceller(const CallCanceller&) = delete;
  CallCanceller& operator=(const CallCanceller&) = delete;

  // Ends the call under way with CANCELLED, and every later one until Reset().
  void Cancel();
  void Reset();

  // For whoever carries the call out: Cancel calls `end_call` until End. False: it was cancelled
  // before it began.
  bool Begin(std::function<void()> end_call);
  // Whether it was cancelled.
  bool End();

 private:
  Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> end_call_ ABSL_GUARDED_BY(mutex_);
};

// What comes of a stream. Called by gRPC's threads, one at a time for each kind; must not block.
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;
  // Where the next message is parsed into; then OnMessage says that it is there.
  virtual google::protobuf::MessageLite* NextMessage() = 0;
  virtual void OnMessage() = 0;
  // The message given to Send has been taken; the next may be sent.
  virtual void OnSent() = 0;
  // Nothing comes any more. The last call.
  virtual void OnEnd(const absl::Status& status) = 0;
};

// One bidirectional stream. It ends by itself or by Cancel; OnEnd always comes.
// Thread rule: any thread.
class Stream {
 public:
  virtual ~Stream() = default;
  // One message at a time; it stays until OnSent or OnEnd.
  virtual void Send(const google::protobuf::MessageLite& message) = 0;
  virtual void Cancel() = 0;
};

class Connection {
 public:
  // INVALID_ARGUMENT when the options contradict each other, NOT_FOUND or PERMISSION_DENIED
  // when a file cannot be read. The message names option and file.
  static absl::StatusOr<std::shared_ptr<Connection>> Open(ConnectionOptions options);

  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::string& address() const;

  // Sends one unary call and waits for its answer, at most `deadline`. `method` is the full
  // name, such as `/stint.v1.JobService/GetJob`. `canceller` may be null.
  absl::Status Call(const char* method, const google::protobuf::MessageLite& request,
                    google::protobuf::MessageLite* response, absl::Duration deadline,
                    CallCanceller* canceller = nullptr);

  // Opens a stream. After one that ended with UNAUTHENTICATED: ReadTokenAgain, then once more.
  std::shared_ptr<Stream> OpenStream(const char* method, std::shared_ptr<StreamEvents> events);
  // Reads the token file again, if there is one.
  void ReadTokenAgain();

  // Which channel calls and streams begin on now. One that carries nothing any more looks alive
  // until keepalive ends it, which takes longer than a lease lasts: whoever misses an answer says
  // so, and what begins from then on has a connection of its own. What is under way on the old
  // one ends as it may. Does nothing when `channel` is not the newest: somebody else was first.
  int64_t channel() const;
  void ReplaceChannel(int64_t channel);

 private:
  struct Impl;
  explicit Connection(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace stint::client

#endif  // STINT_CLIENT_CPP_CONNECTION_H_
