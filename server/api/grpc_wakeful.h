// Keeps gRPC's threads for callbacks awake. In gRPC 1.51 such a thread, when nothing came for a
// second, sleeps for a tenth of one before it looks again, and a call that comes to an idle
// server may wait that long (measured: one in forty, up to 66 ms). A small call within the
// process, more often than once a second, prevents that.
//
// Thread rule: one owner; it has a thread of its own.
#ifndef STINT_SERVER_API_GRPC_WAKEFUL_H_
#define STINT_SERVER_API_GRPC_WAKEFUL_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <thread>

#include "sync/mutex.h"

namespace stint::api {

class Wakeful {
 public:
  // `channel` leads to the server's own health service.
  explicit Wakeful(std::shared_ptr<grpc::Channel> channel);
  // Waits for a call under way.
  ~Wakeful();
  Wakeful(const Wakeful&) = delete;
  Wakeful& operator=(const Wakeful&) = delete;

 private:
  void Run();

  const std::shared_ptr<grpc::Channel> channel_;
  Mutex mutex_;
  Condition changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool calling_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_GRPC_WAKEFUL_H_
