#include "server/runtime/sessions.h"

#include <openssl/rand.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/error.h"
#include "server/engine/limits.h"

namespace stint::runtime {
namespace {

constexpr std::chrono::milliseconds kTick{250};
constexpr uint64_t kLargestId = (uint64_t{1} << 53) - 1;

}  // namespace

Sessions::Sessions(const Clock* clock) : clock_(clock) {}

Sessions::~Sessions() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Sessions::Start() {
  thread_ = std::thread([this] {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!stopping_) {
      // Without sessions nothing has to be looked at.
      if (sessions_.empty()) {
        changed_.wait(lock);
        continue;
      }
      changed_.wait_for(lock, kTick, [this] { return stopping_; });
      lock.unlock();
      Tick();
      lock.lock();
    }
  });
}

void Sessions::Tick() {
  const int64_t now_ms = clock_->BootMs();
  for (const auto& session : All()) session->OnTick(now_ms);
}

absl::StatusOr<uint64_t> Sessions::Open(std::weak_ptr<Session> session) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (draining_) {
    engine::ErrorDetails details;
    details.reason = engine::Reason::kDraining;
    details.retry_after_ms = engine::kSecondMs;
    return engine::MakeError(std::move(details),
                             "the broker is shutting down and begins no more sessions");
  }
  if (sessions_.size() >= engine::kMaxSessions) {
    engine::ErrorDetails details;
    details.reason = engine::Reason::kOverloaded;
    details.retry_after_ms = engine::kSecondMs;
    return engine::MakeError(
        std::move(details),
        absl::StrCat(sessions_.size(), " sessions are open already; use LeaseJobs, or try later"));
  }
  uint64_t id = 0;
  while (id == 0 || sessions_.contains(id)) {
    if (RAND_bytes(reinterpret_cast<unsigned char*>(&id), sizeof(id)) != 1) {
      return absl::InternalError("the system gives no random numbers");
    }
    id &= kLargestId;
  }
  sessions_.emplace(id, Entry{{}, std::move(session)});
  if (sessions_.size() == 1) changed_.notify_all();
  return id;
}

void Sessions::Introduce(uint64_t id, SessionInfo info) {
  info.start_wall_ms = clock_->WallMs();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = sessions_.find(id);
  if (it != sessions_.end()) it->second.info = std::move(info);
}

void Sessions::Close(uint64_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  sessions_.erase(id);
}

bool Sessions::MayContinue(uint64_t id, const std::string& worker,
                           const std::string& identity) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = sessions_.find(id);
  return it == sessions_.end() ||
         (it->second.info.worker == worker && it->second.info.identity == identity);
}

void Sessions::EndContinued(uint64_t id) {
  if (const auto session = Find(id)) session->OnEnd(/*continued=*/true);
}

void Sessions::Tell(const engine::SessionVerdict& verdict) {
  if (const auto session = Find(verdict.session)) session->OnVerdict(verdict);
}

size_t Sessions::DrainWorkers(const std::function<bool(const SessionInfo&)>& matches) {
  std::vector<std::shared_ptr<Session>> matching;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [id, entry] : sessions_) {
      if (entry.info.worker.empty() || !matches(entry.info)) continue;
      if (auto session = entry.session.lock()) matching.push_back(std::move(session));
    }
  }
  for (const auto& session : matching) session->OnDrain(DrainCause::kWorker);
  return matching.size();
}

void Sessions::DrainAll() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    draining_ = true;
  }
  for (const auto& session : All()) session->OnDrain(DrainCause::kServer);
}

void Sessions::EndAll() {
  for (const auto& session : All()) session->OnEnd(/*continued=*/false);
}

size_t Sessions::size() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sessions_.size();
}

std::shared_ptr<Session> Sessions::Find(uint64_t id) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second.session.lock();
}

std::vector<std::shared_ptr<Session>> Sessions::All() const {
  std::vector<std::shared_ptr<Session>> all;
  const std::lock_guard<std::mutex> lock(mutex_);
  all.reserve(sessions_.size());
  for (const auto& [id, entry] : sessions_) {
    if (auto session = entry.session.lock()) all.push_back(std::move(session));
  }
  return all;
}

}  // namespace stint::runtime
