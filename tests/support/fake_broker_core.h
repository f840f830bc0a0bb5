// The state of the fake broker and what its services share. See fake_broker.h.
// Thread rule: every field and method under `mutex`.
#ifndef STINT_TESTS_SUPPORT_FAKE_BROKER_CORE_H_
#define STINT_TESTS_SUPPORT_FAKE_BROKER_CORE_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/rpc/status.pb.h"
#include "tests/support/fake_broker.h"

namespace stint::testing {

google::rpc::Status MakeRpcStatus(const Refusal& refusal);
grpc::Status MakeGrpcStatus(const google::rpc::Status& rpc);
grpc::Status MakeGrpcStatus(const Refusal& refusal);
Refusal NotFound(absl::string_view what);
Refusal QueueNotFound(absl::string_view queue);
Refusal WrongState();
Refusal TooLarge(absl::string_view field, size_t bytes);

// Whether a job has not ended.
bool IsLive(v1::JobState state);
double WaitSeconds(const google::protobuf::Duration& wait);
// The queue in a job's name.
std::string QueueOf(absl::string_view name);

class FakeCore {
 public:
  struct StoredJob {
    v1::Job job;
    int64_t token = 0;                // of the owner; 0: none
    int64_t settled_token = 0;        // of the last settle
    v1::SettleResult settled_answer;  // and what it was told
    v1::LeaseStatus verdict = v1::LEASE_STATUS_UNSPECIFIED;
  };
  struct Script {
    std::vector<Refusal> refusals;
    int lose = 0;
  };

  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::map<std::string, StoredJob> jobs;
  std::vector<std::string> order;  // job names as enqueued
  std::map<std::string, v1::Queue> queues;
  std::map<std::string, std::string> answers;  // by method and request id
  // LeaseJobs by worker and request id: what it was given, and how often it was sent.
  std::map<std::string, std::vector<std::pair<std::string, int64_t>>> grants;
  std::map<std::string, int> sendings;
  std::map<std::string, Script> scripts;
  std::map<std::string, std::vector<std::string>> requests;
  std::string token;
  bool down = false;
  bool stopping = false;
  bool draining = false;
  int64_t broker_time_ms = 0;
  int64_t next_token = 1'000'000;
  int64_t next_job = 1;
  int most_leased = 0;
  absl::Duration interval;

  // Runs `apply` under the mutex, unless the script says otherwise.
  template <typename Request>
  grpc::Status Handle(grpc::ServerContext* context, const std::string& method,
                      const Request& request, const std::function<grpc::Status()>& apply) {
    std::unique_lock<std::mutex> lock(mutex);
    requests[method].push_back(request.SerializeAsString());
    changed.notify_all();
    if (down || stopping) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "down");
    if (!token.empty()) {
      const auto sent = context->client_metadata().find("authorization");
      if (sent == context->client_metadata().end() ||
          absl::string_view(sent->second.data(), sent->second.size()) != "Bearer " + token) {
        return MakeGrpcStatus(MakeRpcStatus(
            Refusal{absl::StatusCode::kUnauthenticated, "UNAUTHENTICATED", "wrong token", {}, {}}));
      }
    }
    Script& script = scripts[method];
    if (!script.refusals.empty()) {
      const Refusal refusal = script.refusals.front();
      script.refusals.erase(script.refusals.begin());
      return MakeGrpcStatus(MakeRpcStatus(refusal));
    }
    const bool lose = script.lose > 0;
    if (lose) --script.lose;
    const grpc::Status status = apply();
    changed.notify_all();
    if (lose) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the answer was lost");
    return status;
  }

  // The stored answer of a repeated call, or `apply`'s.
  template <typename Request, typename Response>
  grpc::Status Once(const std::string& method, const Request& request, Response* response,
                    const std::function<grpc::Status()>& apply) {
    const std::string key = absl::StrCat(method, "/", request.request_id());
    const auto stored = answers.find(key);
    if (!request.request_id().empty() && stored != answers.end()) {
      response->ParseFromString(stored->second);
      return grpc::Status::OK;
    }
    const grpc::Status status = apply();
    if (status.ok()) answers[key] = response->SerializeAsString();
    return status;
  }

  v1::Queue* TouchQueue(const std::string& queue);

  std::string Add(const std::string& queue, const v1::JobSpec& spec, std::string id);

  StoredJob* Find(const std::string& name);

  int CountIn(absl::string_view queue, v1::JobState state) const;

  void FillStats(const std::string& queue, v1::QueueStats* stats) const;

  v1::Lease Grant(StoredJob* stored, const v1::LeaseJobsRequest& request);

  static v1::Lease MakeLease(const StoredJob& stored);

  // Fills `response` with leases that `request` was given before, or can be given now.
  void TryLease(const v1::LeaseJobsRequest& request, v1::LeaseJobsResponse* response);

  // Applies one settle. Fills `result`; an error stands in it.
  void Settle(const v1::SettleItem& item, v1::SettleResult* result);

  static void ApplySettle(const v1::SettleItem& item, StoredJob* stored, v1::SettleResult* result);
};

std::unique_ptr<grpc::Service> MakeJobService(FakeCore* core);
std::unique_ptr<grpc::Service> MakeWorkerService(FakeCore* core);
std::unique_ptr<grpc::Service> MakeQueueService(FakeCore* core);
std::unique_ptr<grpc::Service> MakeAdminService(FakeCore* core);

}  // namespace stint::testing

#endif  // STINT_TESTS_SUPPORT_FAKE_BROKER_CORE_H_
