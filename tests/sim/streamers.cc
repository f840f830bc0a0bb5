#include "tests/sim/streamers.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/api/time_values.h"
#include "server/api/worker_stream.h"

namespace stint::sim {

namespace {

constexpr size_t kWorkers = 3;
constexpr size_t kMostGhosts = 4;

}  // namespace

// The worker's end of one stream.
class Streamers::Peer final : public api::StreamTransport {
 public:
  Peer(Streamers* all, api::Edge* edge)
      : all_(all),
        stream_(std::make_shared<api::WorkerStream>(
            api::WorkerStreamContext{edge, std::make_shared<api::CallsUnderWay>(),
                                     std::make_shared<api::AnswerBudget>(size_t{64} << 20),
                                     /*identity=*/""},
            this)) {
    stream_->Begin();
  }
  ~Peer() override { stream_->Detach(); }

  void Read() override { reading_ = true; }
  void Write(const v1::StreamJobsResponse& message) override {
    if (writing_) all_->Fail("a stream: two writes at a time");
    if (ended_) all_->Fail("a stream: a write after its end");
    writing_ = true;
    on_the_way_ = message;
  }
  void Finish(const absl::Status&) override {
    if (writing_) all_->Fail("a stream: its end during a write");
    if (ended_) all_->Fail("a stream ended twice");
    ended_ = true;
  }
  void Cancel() override { cancelled_ = true; }

  void Send(v1::StreamJobsRequest message) { outgoing_.push_back(std::move(message)); }
  // Something moved in one direction or the other. `message`: what came, if it did.
  bool Move(std::optional<v1::StreamJobsResponse>* message) {
    if (cancelled_ && !broken_) {
      Break();
      return true;
    }
    if (broken_ || ended_) return false;
    if (reading_ && !outgoing_.empty()) {
      reading_ = false;
      v1::StreamJobsRequest next = std::move(outgoing_.front());
      outgoing_.pop_front();
      stream_->OnMessage(std::move(next));
      return true;
    }
    if (reading_ && half_ended_) {
      reading_ = false;
      stream_->OnReadsEnded();
      return true;
    }
    if (!writing_ || stalled) return false;
    writing_ = false;
    *message = std::move(on_the_way_);
    stream_->OnWritten(true);
    return true;
  }
  void EndHalf() { half_ended_ = true; }
  void Break() {
    if (std::exchange(broken_, true)) return;
    if (std::exchange(writing_, false)) stream_->OnWritten(false);
    stream_->OnBroken();
  }
  bool over() const { return broken_ || ended_; }
  // All that the broker wrote has been read.
  bool read_up() const { return !writing_ && !stalled; }

  // Reads nothing.
  bool stalled = false;
  int64_t room = 0;
  // Once it was welcomed.
  int64_t session = 0;

 private:
  Streamers* const all_;
  bool reading_ = false;
  bool writing_ = false;
  bool ended_ = false;
  bool broken_ = false;
  bool cancelled_ = false;
  bool half_ended_ = false;
  v1::StreamJobsResponse on_the_way_;
  std::deque<v1::StreamJobsRequest> outgoing_;
  const std::shared_ptr<api::WorkerStream> stream_;
};

Streamers::Streamers(const Profile* profile, Random* random)
    : profile_(profile), random_(random), workers_(kWorkers) {
  for (size_t i = 0; i < workers_.size(); ++i) workers_[i].name = absl::StrCat("s", i);
}

Streamers::~Streamers() = default;

void Streamers::Attach(api::Edge* edge) { edge_ = edge; }

void Streamers::Detach() {
  for (Worker& worker : workers_) worker.peer.reset();
  ghosts_.clear();
  edge_ = nullptr;
}

void Streamers::DoSomething() {
  if (edge_ == nullptr) return;
  Worker& worker = workers_[static_cast<size_t>(random_->Below(kWorkers))];
  if (worker.peer != nullptr && worker.peer->over()) worker.peer.reset();
  if (!ghosts_.empty() && random_->Chance(100)) {
    ghosts_.front()->Break();
    ghosts_.erase(ghosts_.begin());
  }
  if (worker.peer == nullptr) return Connect(&worker);
  const int64_t what = random_->Below(100);
  if (what < 72) {
    Speak(&worker);
  } else if (what < 80) {
    worker.peer->stalled = !worker.peer->stalled;
  } else if (what < 86) {
    worker.peer->Break();
  } else if (what < 89) {
    v1::StreamJobsRequest message;
    message.mutable_goodbye();
    worker.peer->Send(std::move(message));
    worker.held.clear();
  } else if (what < 92) {
    worker.peer->EndHalf();
    worker.held.clear();
  } else if (what < 96) {
    // It takes the connection for dead, which the broker may not know for long.
    ghosts_.push_back(std::move(worker.peer));
    if (ghosts_.size() > kMostGhosts) ghosts_.erase(ghosts_.begin());
    Connect(&worker);
  } else {
    // The process dies, and another takes its place.
    worker.peer->Break();
    worker.held.clear();
    worker.session = 0;
  }
}

void Streamers::Connect(Worker* worker) {
  worker->peer = std::make_unique<Peer>(this, edge_);
  v1::StreamJobsRequest message;
  v1::Hello* hello = message.mutable_hello();
  hello->set_worker(worker->name);
  hello->add_queues(random_->Pick(profile_->queues));
  const std::string& second = random_->Pick(profile_->queues);
  if (second != hello->queues(0) && random_->Chance(500)) hello->add_queues(second);
  *hello->mutable_lease_duration() = api::DurationOfMillis(random_->Pick(profile_->lease_ms));
  if (random_->Chance(700)) {
    *hello->mutable_stream_loss_grace() =
        api::DurationOfMillis(random_->Pick<int64_t>({0, 1, 1'000, 5'000}));
  }
  if (random_->Chance(700)) {
    // Now and then that of another.
    hello->set_previous_session(random_->Chance(900) ? worker->session
                                                     : random_->Pick(workers_).session);
  }
  // Some that it held it has forgotten.
  for (const Held& held : worker->held) {
    if (random_->Chance(150)) continue;
    v1::HeartbeatItem* item = hello->add_held();
    item->set_job(held.job);
    item->set_token(held.token);
  }
  worker->peer->room = random_->Between(1, 5);
  message.mutable_credit()->set_jobs(static_cast<int32_t>(worker->peer->room));
  if (random_->Chance(100)) message.mutable_credit()->set_bytes(-(int64_t{8} << 20));
  worker->peer->Send(std::move(message));
}

void Streamers::Speak(Worker* worker) {
  v1::StreamJobsRequest message;
  if (random_->Chance(400)) {
    // Taken back as well as given.
    const int64_t jobs = random_->Between(-1, 4);
    worker->peer->room += jobs;
    message.mutable_credit()->set_jobs(static_cast<int32_t>(jobs));
    message.mutable_credit()->set_bytes(random_->Between(-10'000, 10'000));
  }
  if (random_->Chance(400)) AddHeartbeat(worker, &message);
  if (random_->Chance(600)) AddSettles(worker, &message);
  if (random_->Chance(20)) message.mutable_goodbye();
  worker->peer->Send(std::move(message));
}

void Streamers::AddHeartbeat(Worker* worker, v1::StreamJobsRequest* message) {
  v1::StreamHeartbeat* beat = message->add_heartbeats();
  beat->set_id(++operations_);
  // Now and then for another.
  const Worker& whose = random_->Chance(900) ? *worker : random_->Pick(workers_);
  for (const Held& held : whose.held) {
    if (random_->Chance(200)) continue;
    v1::HeartbeatItem* item = beat->add_leases();
    item->set_job(held.job);
    item->set_token(held.token);
  }
}

void Streamers::AddSettles(Worker* worker, v1::StreamJobsRequest* message) {
  const int64_t count = random_->Between(1, 3);
  for (int64_t i = 0; i < count && !worker->held.empty(); ++i) {
    const auto at =
        static_cast<int64_t>(static_cast<size_t>(random_->Next()) % worker->held.size());
    const Held held = worker->held[static_cast<size_t>(at)];
    if (random_->Chance(900)) worker->held.erase(worker->held.begin() + at);
    v1::StreamSettle* settle = message->add_settles();
    settle->set_id(++operations_);
    const int64_t kind = random_->Below(4);
    if (kind < 2) {
      settle->mutable_item()->mutable_complete()->set_job(held.job);
      settle->mutable_item()->mutable_complete()->set_token(held.token);
    } else if (kind == 2) {
      settle->mutable_item()->mutable_fail()->set_job(held.job);
      settle->mutable_item()->mutable_fail()->set_token(held.token);
      settle->mutable_item()->mutable_fail()->set_error("it broke");
    } else {
      settle->mutable_item()->mutable_release()->set_job(held.job);
      settle->mutable_item()->mutable_release()->set_token(held.token);
    }
  }
}

bool Streamers::Receive() {
  bool moved = false;
  for (Worker& worker : workers_) {
    if (worker.peer == nullptr) continue;
    std::optional<v1::StreamJobsResponse> message;
    moved = worker.peer->Move(&message) || moved;
    if (message.has_value()) TakeIn(&worker, *message);
  }
  for (const auto& ghost : ghosts_) {
    // Its process is gone, or has given it up: what comes is read by nobody.
    std::optional<v1::StreamJobsResponse> message;
    moved = ghost->Move(&message) || moved;
  }
  return moved;
}

void Streamers::TakeIn(Worker* worker, const v1::StreamJobsResponse& message) {
  if (message.has_welcome()) {
    worker->session = worker->peer->session = message.welcome().session();
  }
  for (const v1::PushedJob& pushed : message.jobs()) {
    if (!seen_.insert(pushed.lease().token()).second) Fail("a job was pushed twice with one token");
    worker->held.push_back({pushed.lease().job(), pushed.lease().token()});
    --worker->peer->room;
  }
  const auto lost = [worker](const v1::HeartbeatResult& result) {
    if (result.status() == v1::LEASE_STATUS_RENEWED ||
        result.status() == v1::LEASE_STATUS_CANCEL_REQUESTED) {
      return;
    }
    worker->held.erase(
        std::remove_if(worker->held.begin(), worker->held.end(),
                       [&result](const Held& held) { return held.token == result.token(); }),
        worker->held.end());
  };
  for (const v1::HeartbeatResult& result : message.welcome().held()) lost(result);
  for (const v1::HeartbeatResult& result : message.verdicts()) lost(result);
  for (const v1::StreamAnswer& answer : message.answers()) {
    for (const v1::HeartbeatResult& result : answer.heartbeat().results()) lost(result);
  }
}

void Streamers::Leave() {
  for (Worker& worker : workers_) {
    if (worker.peer != nullptr) worker.peer->Break();
  }
  for (const auto& ghost : ghosts_) ghost->Break();
}

void Streamers::CheckPushed(const std::function<std::set<int64_t>(uint64_t)>& leases_of) {
  for (const Worker& worker : workers_) {
    if (worker.peer == nullptr || worker.peer->over() || !worker.peer->read_up()) continue;
    if (worker.peer->session == 0) continue;
    for (const int64_t token : leases_of(static_cast<uint64_t>(worker.peer->session))) {
      if (seen_.count(token) == 0) {
        Fail(absl::StrCat("a job was given to the session of ", worker.name, " with token ", token,
                          " and never pushed"));
      }
    }
  }
}

}  // namespace stint::sim
