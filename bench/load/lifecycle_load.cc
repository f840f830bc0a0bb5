// Load for a running broker: as many lifecycles (enqueue, lease, complete) as it will take
// for a given time, from one process, with a given number of calls under way. Prints one row
// a run; bench/run.sh makes the table.
//
// Every enqueue carries a request_id, and every answer counted came after the broker's sync:
// the broker knows no other kind.
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_split.h"
#include "stint/v1/job_service.grpc.pb.h"
#include "stint/v1/queue_service.grpc.pb.h"
#include "stint/v1/worker_service.grpc.pb.h"

namespace stint::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  std::string address = "127.0.0.1:7150";
  int outstanding = 256;
  int batch = 1;
  int payload = 128;
  int channels = 4;
  double seconds = 5;
  int broker_pid = 0;
};

// CPU seconds a process has used.
double CpuSeconds(int pid) {
  const std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::ostringstream text;
  text << file.rdbuf();
  const std::string stat = text.str();
  const size_t name_end = stat.rfind(')');
  if (pid == 0 || name_end == std::string::npos) return 0;
  // Fields 14 and 15 of proc(5), counted from the state, which is the third.
  const std::vector<std::string> fields = absl::StrSplit(stat.substr(name_end + 2), ' ');
  if (fields.size() < 13) return 0;
  return (std::atof(fields[11].c_str()) + std::atof(fields[12].c_str())) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Totals {
  std::atomic<int64_t> jobs{0};
  std::atomic<int64_t> calls{0};
  std::atomic<int64_t> errors{0};
  std::mutex mutex;
  std::vector<int64_t> call_us;
};

// One chain of calls: enqueue, lease, complete, and again until the time is over.
class Chain {
 public:
  Chain(const std::shared_ptr<grpc::Channel>& channel, const Options& options, std::string id,
        Totals* totals)
      : options_(options),
        jobs_(v1::JobService::NewStub(channel)),
        workers_(v1::WorkerService::NewStub(channel)),
        id_(std::move(id)),
        totals_(totals) {}

  void Begin(Clock::time_point end) {
    end_ = end;
    Enqueue();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    ended_.wait(lock, [this] { return over_; });
  }

 private:
  template <typename Next>
  std::function<void(grpc::Status)> Then(Next next) {
    return [this, next, sent = Clock::now()](const grpc::Status& status) {
      const auto us =
          std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - sent).count();
      call_us_.push_back(us);
      totals_->calls.fetch_add(1);
      if (!status.ok()) {
        if (totals_->errors.fetch_add(1) == 0) {
          std::fprintf(stderr, "%s\n", status.error_message().c_str());
        }
        return End();
      }
      next();
    };
  }

  void NewContext() {
    context_ = std::make_unique<grpc::ClientContext>();
    context_->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  }

  void Enqueue() {
    if (Clock::now() >= end_) return End();
    NewContext();
    const std::string request_id = id_ + "-" + std::to_string(++count_);
    if (options_.batch == 1) {
      enqueue_.Clear();
      enqueue_.set_queue("load");
      enqueue_.set_request_id(request_id);
      enqueue_.mutable_job()->set_payload(std::string(static_cast<size_t>(options_.payload), 'x'));
      jobs_->async()->EnqueueJob(context_.get(), &enqueue_, &enqueued_, Then([this] { Lease(); }));
      return;
    }
    batch_.Clear();
    batch_.set_queue("load");
    batch_.set_request_id(request_id);
    for (int i = 0; i < options_.batch; ++i) {
      batch_.add_items()->mutable_job()->set_payload(
          std::string(static_cast<size_t>(options_.payload), 'x'));
    }
    jobs_->async()->BatchEnqueueJobs(context_.get(), &batch_, &batched_, Then([this] { Lease(); }));
  }

  void Lease() {
    NewContext();
    lease_.Clear();
    lease_.add_queues("load");
    lease_.set_max_jobs(options_.batch);
    lease_.set_worker("load");
    workers_->async()->LeaseJobs(context_.get(), &lease_, &leased_, Then([this] { Settle(); }));
  }

  void Settle() {
    if (leased_.leases().empty()) return Enqueue();
    NewContext();
    if (options_.batch == 1) {
      complete_.set_job(leased_.leases(0).job());
      complete_.set_token(leased_.leases(0).token());
      workers_->async()->CompleteJob(context_.get(), &complete_, &completed_, Then([this] {
                                       totals_->jobs.fetch_add(1);
                                       Enqueue();
                                     }));
      return;
    }
    settle_.Clear();
    for (const v1::Lease& lease : leased_.leases()) {
      v1::CompleteJobRequest* complete = settle_.add_items()->mutable_complete();
      complete->set_job(lease.job());
      complete->set_token(lease.token());
    }
    workers_->async()->SettleJobs(context_.get(), &settle_, &settled_, Then([this] {
                                    totals_->jobs.fetch_add(settled_.results_size());
                                    Enqueue();
                                  }));
  }

  void End() {
    {
      const std::lock_guard<std::mutex> lock(totals_->mutex);
      totals_->call_us.insert(totals_->call_us.end(), call_us_.begin(), call_us_.end());
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    over_ = true;
    ended_.notify_one();
  }

  const Options& options_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::unique_ptr<v1::WorkerService::Stub> workers_;
  const std::string id_;
  Totals* totals_;
  Clock::time_point end_;
  int64_t count_ = 0;
  std::vector<int64_t> call_us_;
  std::unique_ptr<grpc::ClientContext> context_;
  v1::EnqueueJobRequest enqueue_;
  v1::EnqueueJobResponse enqueued_;
  v1::BatchEnqueueJobsRequest batch_;
  v1::BatchEnqueueJobsResponse batched_;
  v1::LeaseJobsRequest lease_;
  v1::LeaseJobsResponse leased_;
  v1::CompleteJobRequest complete_;
  v1::CompleteJobResponse completed_;
  v1::SettleJobsRequest settle_;
  v1::SettleJobsResponse settled_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
};

int Run(const Options& options) {
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < options.channels; ++i) {
    grpc::ChannelArguments arguments;
    arguments.SetInt("stint.channel", i);  // a connection of its own for each
    channels.push_back(
        grpc::CreateCustomChannel(options.address, grpc::InsecureChannelCredentials(), arguments));
  }
  std::random_device random;
  const std::string run = std::to_string(random()) + std::to_string(random());
  Totals totals;
  std::vector<std::unique_ptr<Chain>> chains;
  for (int i = 0; i < options.outstanding; ++i) {
    chains.push_back(std::make_unique<Chain>(channels[static_cast<size_t>(i) % channels.size()],
                                             options, run + "-" + std::to_string(i), &totals));
  }
  const double cpu_before = CpuSeconds(options.broker_pid);
  const auto begin = Clock::now();
  const auto length = std::chrono::duration<double>(options.seconds);
  for (auto& chain : chains) {
    chain->Begin(begin + std::chrono::duration_cast<Clock::duration>(length));
  }
  for (auto& chain : chains) chain->Wait();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const double cpu = CpuSeconds(options.broker_pid) - cpu_before;

  std::sort(totals.call_us.begin(), totals.call_us.end());
  const auto percentile = [&totals](double p) {
    if (totals.call_us.empty()) return 0.0;
    const auto at = static_cast<size_t>(p * static_cast<double>(totals.call_us.size() - 1));
    return static_cast<double>(totals.call_us[at]) / 1000.0;
  };
  const double jobs = static_cast<double>(totals.jobs.load());
  const double calls = static_cast<double>(totals.calls.load());
  std::printf("%d\t%d\t%.0f\t%.0f\t%.2f\t%.2f\t%.1f\t%.2f\t%lld\n", options.outstanding,
              options.batch, jobs / seconds, calls / seconds, percentile(0.5), percentile(0.99),
              calls > 0 ? cpu * 1e6 / calls : 0, jobs > 0 ? cpu * 1e6 / (3 * jobs) : 0,
              static_cast<long long>(totals.errors.load()));
  return totals.errors.load() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace stint::bench

int main(int argc, char** argv) {
  stint::bench::Options options;
  CLI::App app{
      "Lifecycles (enqueue, lease, complete) against a running broker. Prints, separated by tabs:\n"
      "calls under way, jobs a call, lifecycles/s, calls/s, p50 ms and p99 ms of a call,\n"
      "broker CPU us a call, broker CPU us a job and operation, errors."};
  app.add_option("--address", options.address, "Broker (default 127.0.0.1:7150)");
  app.add_option("--outstanding", options.outstanding, "Calls under way (default 256)");
  app.add_option("--batch", options.batch, "Jobs a call, 1 to 1000 (default 1)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--payload", options.payload, "Bytes a job (default 128)");
  app.add_option("--channels", options.channels, "Connections (default 4)");
  app.add_option("--seconds", options.seconds, "How long (default 5)");
  app.add_option("--broker-pid", options.broker_pid, "Process whose CPU is counted");
  CLI11_PARSE(app, argc, argv);
  return stint::bench::Run(options);
}
