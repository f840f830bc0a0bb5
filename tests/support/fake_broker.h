// A broker for tests of clients: real gRPC on a loopback port, state in memory, answers that
// a test can script.
//
// It keeps jobs, leases, tokens and request ids much as the broker does, without time: nothing
// lapses, becomes due or expires unless a test says so. It checks little.
//
// Thread rule: any thread.
#ifndef STINT_TESTS_SUPPORT_FAKE_BROKER_H_
#define STINT_TESTS_SUPPORT_FAKE_BROKER_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"
#include "stint/v1/admin_service.pb.h"
#include "stint/v1/job_service.pb.h"
#include "stint/v1/queue_service.pb.h"
#include "stint/v1/worker_service.pb.h"

namespace stint::testing {

// PEM texts of a broker that speaks TLS and wants a certificate from its clients.
struct TlsIdentity {
  std::string authority;
  std::string certificate;
  std::string key;
};

// A scripted refusal.
struct Refusal {
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  std::string reason;  // empty: no details, as from a proxy
  std::string message = "scripted";
  absl::Duration retry_delay = absl::ZeroDuration();
  std::vector<std::pair<std::string, std::string>> violations;  // field, description
};

class FakeCore;

class FakeBroker {
 public:
  // Payloads and results over this are refused.
  static constexpr size_t kMaxPayloadBytes = 1024 * 1024;

  FakeBroker();
  explicit FakeBroker(const TlsIdentity& identity);
  ~FakeBroker();

  std::string address() const;

  // The next `count` calls of `method` (such as `EnqueueJob`) are refused unapplied.
  void Refuse(absl::string_view method, const Refusal& refusal, int count = 1);
  // The next `count` calls of `method` take effect, but the caller sees UNAVAILABLE.
  void LoseAnswers(absl::string_view method, int count = 1);
  // While down every call is answered UNAVAILABLE.
  void SetDown(bool down);
  // Only this credential is accepted from now on; empty: any.
  void RequireToken(absl::string_view token);

  // Calls of `method` that have arrived, also refused ones.
  int Calls(absl::string_view method) const;
  void WaitForCalls(absl::string_view method, int count) const;
  // The requests of those calls, oldest first.
  template <typename Request>
  std::vector<Request> Requests(absl::string_view method) const {
    std::vector<Request> requests;
    for (const std::string& bytes : RawRequests(method)) {
      requests.emplace_back();
      requests.back().ParseFromString(bytes);
    }
    return requests;
  }

  // Adds a job without a call. Returns its name.
  std::string AddJob(absl::string_view queue, const v1::JobSpec& spec);
  std::string AddJob(absl::string_view queue, absl::string_view payload = "");
  v1::Job GetJob(absl::string_view name) const;
  void WaitForState(absl::string_view name, v1::JobState state) const;
  // Waits until `count` jobs of `queue` are in `state`.
  void WaitForCount(absl::string_view queue, v1::JobState state, int count) const;
  int Count(absl::string_view queue, v1::JobState state) const;
  // The most leases that were out at the same time.
  int MostLeased() const;

  // Takes the job from its holder and gives it to another worker, as after a lapse.
  void TakeOver(absl::string_view name);
  // The next heartbeats of this job are answered so.
  void SetVerdict(absl::string_view name, v1::LeaseStatus status);
  // What heartbeats ask for as interval; zero: not said.
  void SetHeartbeatInterval(absl::Duration interval);

 private:
  struct Services;

  void Start(const TlsIdentity* identity);

  std::vector<std::string> RawRequests(absl::string_view method) const;

  std::unique_ptr<FakeCore> core_;
  std::unique_ptr<Services> services_;
};

}  // namespace stint::testing

#endif  // STINT_TESTS_SUPPORT_FAKE_BROKER_H_
