#include "client/cli/bench_load.h"

#include <optional>
#include <utility>

#include "client/cpp/client.h"
#include "client/cpp/clock.h"
#include "client/cpp/proto_time.h"
#include "client/cpp/random_id.h"
#include "client/cpp/stream_link.h"
#include "client/cpp/worker_link.h"

namespace stint::cli {
namespace {

constexpr absl::Duration kLease = absl::Seconds(30);
constexpr absl::Duration kCallDeadline = absl::Seconds(10);
// Short, since an end of the run waits for it.
constexpr absl::Duration kLeaseWait = absl::Milliseconds(500);
// After an error, so that a broker that refuses is not hammered.
constexpr absl::Duration kErrorPause = absl::Milliseconds(100);

// One thread's calls.
class Loader {
 public:
  Loader(std::shared_ptr<client::Connection> connection, const BenchPlan& plan,
         BenchFigures* figures)
      : plan_(plan), figures_(*figures), client_(connection), worker_(client::RandomWorkerId()) {
    once_.total = absl::ZeroDuration();
    once_.deadline = kCallDeadline;
    if (plan.unary) {
      link_ = std::make_unique<client::UnaryLink>(std::move(connection));
      return;
    }
    v1::Hello hello;
    hello.set_worker(worker_);
    hello.add_queues(plan.queue);
    *hello.mutable_lease_duration() = client::ToProto(kLease);
    client::StreamLinkHooks hooks;
    hooks.held = [] { return std::vector<v1::HeartbeatItem>(); };
    hooks.on_verdict = [](const v1::HeartbeatResult&, std::optional<absl::Duration>) {};
    hooks.on_leave = [] {};
    link_ = std::make_unique<client::StreamLink>(std::move(connection), std::move(hello), clock_,
                                                 std::move(hooks));
  }
  ~Loader() { link_->Leave(); }
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // False: a call failed.
  bool Enqueue() {
    v1::JobSpec spec;
    spec.set_payload(std::string(static_cast<size_t>(plan_.payload_bytes), 'x'));
    const absl::Duration start = clock_->Now();
    absl::Status status;
    if (plan_.batch == 1) {
      v1::EnqueueJobRequest request;
      request.set_queue(plan_.queue);
      *request.mutable_job() = std::move(spec);
      status = client_.EnqueueJob(std::move(request), once_).status();
    } else {
      v1::BatchEnqueueJobsRequest request;
      request.set_queue(plan_.queue);
      for (int i = 0; i < plan_.batch; ++i) *request.add_items()->mutable_job() = spec;
      status = client_.BatchEnqueueJobs(std::move(request), once_).status();
    }
    figures_.enqueue.Note(status, clock_->Now() - start);
    return status.ok();
  }

  bool Lease(v1::LeaseJobsResponse* leased) {
    v1::LeaseJobsRequest request;
    request.add_queues(plan_.queue);
    request.set_max_jobs(plan_.batch);
    *request.mutable_lease_duration() = client::ToProto(kLease);
    *request.mutable_wait() = client::ToProto(kLeaseWait);
    request.set_worker(worker_);
    request.set_request_id(client::RandomId());
    const absl::Duration start = clock_->Now();
    const absl::Status status = link_->Lease(request, leased, kCallDeadline, nullptr);
    // An empty answer says that others were faster, and nothing of the broker.
    if (!status.ok() || leased->leases_size() > 0) {
      figures_.lease.Note(status, clock_->Now() - start);
    }
    return status.ok();
  }

  // Returns how many jobs were completed.
  int64_t Complete(const v1::LeaseJobsResponse& leased) {
    v1::SettleJobsRequest request;
    for (const v1::Lease& lease : leased.leases()) {
      v1::CompleteJobRequest* const complete = request.add_items()->mutable_complete();
      complete->set_job(lease.job());
      complete->set_token(lease.token());
    }
    v1::SettleJobsResponse response;
    const absl::Duration start = clock_->Now();
    const absl::Status status = link_->Settle(request, &response, kCallDeadline, nullptr);
    figures_.complete.Note(status, clock_->Now() - start);
    int64_t completed = 0;
    for (const v1::SettleResult& result : response.results()) {
      if (result.has_complete()) {
        ++completed;
      } else {
        figures_.complete.Note(absl::Status(static_cast<absl::StatusCode>(result.error().code()),
                                            result.error().message()),
                               absl::ZeroDuration());
      }
    }
    return completed;
  }

 private:
  client::Clock* const clock_ = client::Clock::System();
  const BenchPlan& plan_;
  BenchFigures& figures_;
  client::Client client_;
  client::CallOptions once_;
  const std::string worker_;
  std::unique_ptr<client::WorkerLink> link_;
};

}  // namespace

void CallFigures::Note(const absl::Status& status, absl::Duration latency) {
  if (status.ok()) {
    latencies.Add(latency);
  } else {
    ++errors;
    if (first_error.ok()) first_error = status;
  }
}

void CallFigures::Add(const CallFigures& other) {
  latencies.Add(other.latencies);
  errors += other.errors;
  if (first_error.ok()) first_error = other.first_error;
}

void BenchFigures::Add(const BenchFigures& other) {
  enqueue.Add(other.enqueue);
  lease.Add(other.lease);
  complete.Add(other.complete);
}

BenchLoad::BenchLoad(std::shared_ptr<client::Connection> connection, BenchPlan plan)
    : connection_(std::move(connection)),
      plan_(std::move(plan)),
      figures_(static_cast<size_t>(plan_.concurrency)) {}

BenchLoad::~BenchLoad() { Stop(); }

void BenchLoad::Start() {
  for (size_t i = 0; i < figures_.size(); ++i) {
    threads_.emplace_back([this, i] { Work(i); });
  }
}

void BenchLoad::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

BenchFigures BenchLoad::Result() const {
  BenchFigures all;
  for (const BenchFigures& figures : figures_) all.Add(figures);
  return all;
}

void BenchLoad::Work(size_t number) {
  Loader loader(connection_, plan_, &figures_[number]);
  while (!stopping_) {
    v1::LeaseJobsResponse leased;
    if (!loader.Enqueue() || !loader.Lease(&leased)) {
      Pause();
      continue;
    }
    if (leased.leases_size() > 0) lifecycles_ += loader.Complete(leased);
  }
}

void BenchLoad::Pause() {
  client::Clock* const clock = client::Clock::System();
  const absl::Duration until = clock->Now() + kErrorPause;
  const MutexLock lock(mutex_);
  while (!stopping_ && clock->Now() < until) clock->Wait(changed_, mutex_, until);
}

}  // namespace stint::cli
