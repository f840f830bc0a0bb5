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
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Wakeful::Run() {
  const auto stub = grpc::health::v1::Health::NewStub(channel_);
  const grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    grpc::ClientContext context;
    calling_ = true;
    stub->async()->Check(&context, &request, &response, [this](grpc::Status) {
      const std::lock_guard<std::mutex> done(mutex_);
      calling_ = false;
      changed_.notify_all();
    });
    changed_.wait(lock, [this] { return !calling_; });
    changed_.wait_for(lock, kInterval, [this] { return stopping_; });
  }
}

}  // namespace stint::api
