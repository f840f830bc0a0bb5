#include "server/api/grpc_wakeful.h"

#include <chrono>
#include <utility>

#include "grpc/health/v1/health.grpc.pb.h"

namespace stint::api {
namespace {

// Under half of the second after which a thread sleeps: of two threads one is then always
// waiting, whichever of them each call wakes.
constexpr std::chrono::milliseconds kInterval(400);

}  // namespace

Wakeful::Wakeful(std::shared_ptr<grpc::Channel> channel)
    : channel_(std::move(channel)), thread_([this] { Run(); }) {}

Wakeful::~Wakeful() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void Wakeful::Run() {
  const auto stub = grpc::health::v1::Health::NewStub(channel_);
  const grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
  const MutexLock lock(mutex_);
  while (!stopping_) {
    grpc::ClientContext context;
    calling_ = true;
    stub->async()->Check(&context, &request, &response, [this](grpc::Status) {
      const MutexLock done(mutex_);
      calling_ = false;
      changed_.NotifyAll();
    });
    while (calling_) changed_.Wait(mutex_);
    changed_.WaitFor(mutex_, kInterval,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_; });
  }
}

}  // namespace stint::api
