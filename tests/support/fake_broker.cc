#include "tests/support/fake_broker.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/impl/service_type.h>

#include "absl/strings/str_cat.h"
#include "tests/support/fake_broker_core.h"

namespace stint::testing {

struct FakeBroker::Services {
  std::vector<std::unique_ptr<grpc::Service>> all;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

FakeBroker::FakeBroker()
    : core_(std::make_unique<FakeCore>()), services_(std::make_unique<Services>()) {
  Start(nullptr);
}

FakeBroker::FakeBroker(const TlsIdentity& identity)
    : core_(std::make_unique<FakeCore>()), services_(std::make_unique<Services>()) {
  Start(&identity);
}

void FakeBroker::Start(const TlsIdentity* identity) {
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (identity != nullptr) {
    grpc::SslServerCredentialsOptions options(
        GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = identity->authority;
    options.pem_key_cert_pairs.push_back({identity->key, identity->certificate});
    credentials = grpc::SslServerCredentials(options);
  }
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", credentials, &services_->port);
  services_->all.push_back(MakeJobService(core_.get()));
  services_->all.push_back(MakeWorkerService(core_.get()));
  services_->all.push_back(MakeQueueService(core_.get()));
  services_->all.push_back(MakeAdminService(core_.get()));
  for (const auto& service : services_->all) builder.RegisterService(service.get());
  services_->server = builder.BuildAndStart();
}

FakeBroker::~FakeBroker() {
  {
    const std::lock_guard<std::mutex> lock(core_->mutex);
    core_->stopping = true;
    core_->changed.notify_all();
  }
  services_->server->Shutdown();
}

std::string FakeBroker::address() const { return absl::StrCat("127.0.0.1:", services_->port); }

void FakeBroker::Refuse(absl::string_view method, const Refusal& refusal, int count) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  std::vector<Refusal>& refusals = core_->scripts[std::string(method)].refusals;
  refusals.insert(refusals.end(), static_cast<size_t>(count), refusal);
}

void FakeBroker::LoseAnswers(absl::string_view method, int count) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->scripts[std::string(method)].lose += count;
}

void FakeBroker::SetDown(bool down) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->down = down;
  core_->changed.notify_all();
}

void FakeBroker::RequireToken(absl::string_view token) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->token = std::string(token);
}

int FakeBroker::Calls(absl::string_view method) const {
  return static_cast<int>(RawRequests(method).size());
}

void FakeBroker::WaitForCalls(absl::string_view method, int count) const {
  std::unique_lock<std::mutex> lock(core_->mutex);
  core_->changed.wait(lock, [&] {
    return core_->requests[std::string(method)].size() >= static_cast<size_t>(count);
  });
}

std::vector<std::string> FakeBroker::RawRequests(absl::string_view method) const {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->requests[std::string(method)];
}

std::string FakeBroker::AddJob(absl::string_view queue, const v1::JobSpec& spec) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->Add(std::string(queue), spec, "");
}

std::string FakeBroker::AddJob(absl::string_view queue, absl::string_view payload) {
  v1::JobSpec spec;
  spec.set_payload(std::string(payload));
  return AddJob(queue, spec);
}

v1::Job FakeBroker::GetJob(absl::string_view name) const {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  const FakeCore::StoredJob* const stored = core_->Find(std::string(name));
  return stored == nullptr ? v1::Job() : stored->job;
}

void FakeBroker::WaitForState(absl::string_view name, v1::JobState state) const {
  std::unique_lock<std::mutex> lock(core_->mutex);
  core_->changed.wait(lock, [&] {
    const FakeCore::StoredJob* const stored = core_->Find(std::string(name));
    return stored != nullptr && stored->job.state() == state;
  });
}

void FakeBroker::WaitForCount(absl::string_view queue, v1::JobState state, int count) const {
  std::unique_lock<std::mutex> lock(core_->mutex);
  core_->changed.wait(lock, [&] { return core_->CountIn(queue, state) == count; });
}

int FakeBroker::Count(absl::string_view queue, v1::JobState state) const {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->CountIn(queue, state);
}

int FakeBroker::MostLeased() const {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  return core_->most_leased;
}

void FakeBroker::TakeOver(absl::string_view name) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  FakeCore::StoredJob& stored = core_->jobs[std::string(name)];
  stored.token = core_->next_token++;
  stored.job.mutable_holder()->set_worker("another");
  stored.job.set_attempt(stored.job.attempt() + 1);
}

void FakeBroker::SetVerdict(absl::string_view name, v1::LeaseStatus status) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->jobs[std::string(name)].verdict = status;
}

void FakeBroker::SetHeartbeatInterval(absl::Duration interval) {
  const std::lock_guard<std::mutex> lock(core_->mutex);
  core_->interval = interval;
}

}  // namespace stint::testing
