// One call as a service sees it, without gRPC: who asks, how long there is, and the way to
// answer. Services and their tests know only this; grpc_server.cc stands behind it.
//
// Thread rule: any thread; exactly one of Reply and Refuse has an effect, the first. An
// exchange that goes away unanswered is refused by itself, so that no caller waits for ever.
#ifndef STINT_SERVER_API_EXCHANGE_H_
#define STINT_SERVER_API_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace stint::api {

class Exchange {
 public:
  virtual ~Exchange() = default;

  // Name of the credential, "" on an open broker.
  const std::string& identity() const { return identity_; }
  // Size of the request on the wire.
  size_t request_bytes() const { return request_bytes_; }
  // Time left when the call began; nullopt: the caller set no deadline.
  std::optional<int64_t> remaining_ms() const { return remaining_ms_; }

  // True when nobody waits for the answer any more: cancelled, or the deadline has passed.
  virtual bool gone() const = 0;

  // False: the call was refused with OVERLOADED instead, because callers have left too much
  // unread already.
  virtual bool TryReply(const google::protobuf::Message& response) = 0;
  void Reply(const google::protobuf::Message& response) { TryReply(response); }
  virtual void Refuse(const absl::Status& status) = 0;

 protected:
  Exchange(std::string identity, size_t request_bytes, std::optional<int64_t> remaining_ms)
      : identity_(std::move(identity)),
        request_bytes_(request_bytes),
        remaining_ms_(remaining_ms) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

 private:
  const std::string identity_;
  const size_t request_bytes_;
  const std::optional<int64_t> remaining_ms_;
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace stint::api

#endif  // STINT_SERVER_API_EXCHANGE_H_
