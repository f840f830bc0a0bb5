// Many sessions in one process, for tests that load a broker with them:
//
//   stream_crowd ADDRESS QUEUE CONNECTIONS STREAMS
//
// STREAMS sessions, spread over the connections, have room for one job each and hold it until told.
// The program says `up` when all have been welcomed, `held` when each has its job, and after a
// line on standard input `completed`, when each has the answer to its settle. At the end of
// standard input all say goodbye; `left` when the broker has ended every stream well.
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "client/cpp/connection.h"
#include "stint/v1/worker_service.pb.h"

namespace stint::testing {
namespace {

constexpr std::chrono::seconds kBusyFrame(5);
constexpr int kFramesPerIdleFrame = 4;

// How many sessions have come to each point.
class Counts {
 public:
  explicit Counts(int streams) : streams_(streams) {}
  void Add(int* count, const char* name) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (++*count == streams_) std::cout << name << std::endl;
    changed_.notify_all();
  }
  void AwaitLeft() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return over == streams_; });
  }
  int up = 0;
  int held = 0;
  int completed = 0;
  int left = 0;
  int over = 0;

 private:
  const int streams_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

class Member final : public client::StreamEvents {
 public:
  Member(Counts* counts, const std::string& worker, const std::string& queue) : counts_(counts) {
    sending_.mutable_hello()->set_worker(worker);
    sending_.mutable_hello()->add_queues(queue);
    sending_.mutable_credit()->set_jobs(1);
  }

  static std::shared_ptr<Member> Open(client::Connection* connection, Counts* counts,
                                      const std::string& worker, const std::string& queue) {
    auto session = std::make_shared<Member>(counts, worker, queue);
    const std::lock_guard<std::mutex> lock(session->mutex_);
    session->stream_ = connection->OpenStream("/stint.v1.WorkerService/StreamJobs", session);
    session->stream_->Send(session->sending_);
    return session;
  }

  void Renew(bool idle_too) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!lease_.job().empty()) {
      v1::StreamHeartbeat* heartbeat = next_.add_heartbeats();
      heartbeat->set_id(1);
      v1::HeartbeatItem* item = heartbeat->add_leases();
      item->set_job(lease_.job());
      item->set_token(lease_.token());
    } else if (!idle_too) {
      return;
    }
    wanted_ = true;
    MaySend();
  }
  void Complete() {
    const std::lock_guard<std::mutex> lock(mutex_);
    v1::StreamSettle* settle = next_.add_settles();
    settle->set_id(2);
    settle->mutable_item()->mutable_complete()->set_job(lease_.job());
    settle->mutable_item()->mutable_complete()->set_token(lease_.token());
    lease_.Clear();
    wanted_ = true;
    MaySend();
  }
  void Leave() {
    const std::lock_guard<std::mutex> lock(mutex_);
    next_.mutable_goodbye();
    wanted_ = true;
    MaySend();
  }

  google::protobuf::MessageLite* NextMessage() override { return &received_; }
  void OnMessage() override {
    if (received_.has_welcome()) counts_->Add(&counts_->up, "up");
    for (const v1::PushedJob& pushed : received_.jobs()) {
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        lease_ = pushed.lease();
      }
      counts_->Add(&counts_->held, "held");
    }
    for (const v1::StreamAnswer& answer : received_.answers()) {
      if (answer.settle().has_complete()) counts_->Add(&counts_->completed, "completed");
    }
    received_.Clear();
  }
  void OnSent() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    under_way_ = false;
    MaySend();
  }
  void OnEnd(const absl::Status& status) override {
    if (status.ok()) {
      counts_->Add(&counts_->left, "left");
    } else {
      std::cout << "a stream broke: " << status << std::endl;
    }
    counts_->Add(&counts_->over, "over");
  }

 private:
  // Needs the mutex.
  void MaySend() {
    if (under_way_ || !wanted_) return;
    sending_ = std::move(next_);
    next_.Clear();
    wanted_ = false;
    under_way_ = true;
    stream_->Send(sending_);
  }

  Counts* const counts_;
  v1::StreamJobsResponse received_;  // only gRPC's reading thread
  std::mutex mutex_;
  std::shared_ptr<client::Stream> stream_;  // and what follows: guarded by mutex_
  v1::StreamJobsRequest sending_;
  v1::StreamJobsRequest next_;
  bool wanted_ = false;
  bool under_way_ = true;  // the hello
  v1::Lease lease_;
};

int Run(const std::string& address, const std::string& queue, int connections, int streams) {
  client::ConnectionOptions options;
  options.address = address;
  std::vector<std::shared_ptr<client::Connection>> opened;
  for (int i = 0; i < connections; ++i) {
    auto connection = client::Connection::Open(options);
    if (!connection.ok()) {
      std::cerr << connection.status() << std::endl;
      return 1;
    }
    opened.push_back(*std::move(connection));
  }
  Counts counts(streams);
  std::vector<std::shared_ptr<Member>> sessions;
  for (int i = 0; i < streams; ++i) {
    sessions.push_back(Member::Open(opened[static_cast<size_t>(i % connections)].get(), &counts,
                                    "w" + std::to_string(i), queue));
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::thread frames([&] {
    std::unique_lock<std::mutex> lock(mutex);
    for (int round = 1; !changed.wait_for(lock, kBusyFrame, [&] { return over; }); ++round) {
      for (const auto& session : sessions) session->Renew(round % kFramesPerIdleFrame == 0);
    }
  });
  std::string line;
  if (std::getline(std::cin, line)) {
    for (const auto& session : sessions) session->Complete();
  }
  while (std::getline(std::cin, line)) {
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    over = true;
  }
  changed.notify_all();
  frames.join();
  for (const auto& session : sessions) session->Leave();
  counts.AwaitLeft();
  return counts.left == streams ? 0 : 1;
}

}  // namespace
}  // namespace stint::testing

int main(int argc, char** argv) {
  int connections = 0;
  int streams = 0;
  if (argc != 5 || !absl::SimpleAtoi(argv[3], &connections) ||
      !absl::SimpleAtoi(argv[4], &streams) || connections < 1 || streams < 1) {
    std::cerr << "usage: stream_crowd ADDRESS QUEUE CONNECTIONS STREAMS" << std::endl;
    return 2;
  }
  return stint::testing::Run(argv[1], argv[2], connections, streams);
}
