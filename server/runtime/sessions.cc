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

size_t BytesOf(const SessionInfo& info) {
  size_t bytes = info.identity.size() + info.worker.size() + info.version.size();
  for (const auto* names : {&info.kinds, &info.queues}) {
    for (const std::string& name : *names) bytes += sizeof(name) + name.size();
  }
  return bytes;
}

absl::Status Overloaded(absl::string_view why) {
  engine::ErrorDetails details;
  details.reason = engine::Reason::kOverloaded;
  details.retry_after_ms = engine::kSecondMs;
  return engine::MakeError(std::move(details), why);
}

}  // namespace

Sessions::Sessions(const Clock* clock) : clock_(clock) {}

Sessions::~Sessions() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void Sessions::Start() {
  thread_ = std::thread([this] {
    MutexLock lock(mutex_);
    while (!stopping_) {
      // Without sessions nothing has to be looked at.
      if (sessions_.empty()) {
        changed_.Wait(mutex_);
        continue;
      }
      changed_.WaitFor(mutex_, kTick);
      lock.Unlock();
      Tick();
      lock.Lock();
    }
  });
}

void Sessions::Tick() {
  const int64_t now_ms = clock_->BootMs();
  for (const auto& session : All()) session->OnTick(now_ms);
}

absl::StatusOr<uint64_t> Sessions::Open(std::weak_ptr<Session> session) {
  const MutexLock lock(mutex_);
  if (draining_) {
    engine::ErrorDetails details;
    details.reason = engine::Reason::kDraining;
    details.retry_after_ms = engine::kSecondMs;
    return engine::MakeError(std::move(details),
                             "the broker is shutting down and begins no more sessions");
  }
  if (sessions_.size() >= engine::kMaxSessions) {
    return Overloaded(
        absl::StrCat(sessions_.size(), " sessions are open already; use LeaseJobs, or try later"));
  }
  uint64_t id = 0;
  while (id == 0 || sessions_.contains(id)) {
    if (RAND_bytes(reinterpret_cast<unsigned char*>(&id), sizeof(id)) != 1) {
      return absl::InternalError("the system gives no random numbers");
    }
    id &= kLargestId;
  }
  sessions_.emplace(id, Entry{{}, 0, std::move(session)});
  if (sessions_.size() == 1) changed_.NotifyAll();
  return id;
}

absl::Status Sessions::Introduce(uint64_t id, SessionInfo info) {
  info.start_wall_ms = clock_->WallMs();
  const size_t bytes = BytesOf(info);
  const MutexLock lock(mutex_);
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return absl::OkStatus();
  if (info_bytes_ + bytes > engine::kMaxHelloBytes) {
    return Overloaded(absl::StrCat("the hellos of all sessions hold ", info_bytes_,
                                   " bytes already and this one ", bytes,
                                   "; name fewer queues and kinds, or try later"));
  }
  info_bytes_ += bytes;
  it->second.info_bytes = bytes;
  it->second.info = std::move(info);
  return absl::OkStatus();
}

void Sessions::Close(uint64_t id) {
  const MutexLock lock(mutex_);
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  info_bytes_ -= it->second.info_bytes;
  sessions_.erase(it);
}

bool Sessions::MayContinue(uint64_t id, const std::string& worker,
                           const std::string& identity) const {
  const MutexLock lock(mutex_);
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

std::vector<Sessions::Listed> Sessions::List() const {
  std::vector<std::pair<SessionInfo, std::shared_ptr<Session>>> there;
  {
    const MutexLock lock(mutex_);
    there.reserve(sessions_.size());
    for (const auto& [id, entry] : sessions_) {
      if (entry.info.worker.empty()) continue;
      if (auto session = entry.session.lock()) there.emplace_back(entry.info, std::move(session));
    }
  }
  std::vector<Listed> list;
  list.reserve(there.size());
  for (auto& [info, session] : there) list.push_back({std::move(info), session->LastHeardMs()});
  return list;
}

void Sessions::DrainWorkers(const std::function<bool(const SessionInfo&)>& matches) {
  std::vector<std::shared_ptr<Session>> matching;
  {
    const MutexLock lock(mutex_);
    for (const auto& [id, entry] : sessions_) {
      if (entry.info.worker.empty() || !matches(entry.info)) continue;
      if (auto session = entry.session.lock()) matching.push_back(std::move(session));
    }
  }
  for (const auto& session : matching) session->OnDrain(DrainCause::kWorker);
}

void Sessions::DrainAll() {
  {
    const MutexLock lock(mutex_);
    draining_ = true;
  }
  for (const auto& session : All()) session->OnDrain(DrainCause::kServer);
}

void Sessions::EndAll() {
  for (const auto& session : All()) session->OnEnd(/*continued=*/false);
}

size_t Sessions::size() const {
  const MutexLock lock(mutex_);
  return sessions_.size();
}

std::shared_ptr<Session> Sessions::Find(uint64_t id) const {
  const MutexLock lock(mutex_);
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second.session.lock();
}

std::vector<std::shared_ptr<Session>> Sessions::All() const {
  std::vector<std::shared_ptr<Session>> all;
  const MutexLock lock(mutex_);
  all.reserve(sessions_.size());
  for (const auto& [id, entry] : sessions_) {
    if (auto session = entry.session.lock()) all.push_back(std::move(session));
  }
  return all;
}

}  // namespace stint::runtime
