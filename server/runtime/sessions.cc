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

std::optional<uint64_t> SystemRandom() {
  uint64_t number = 0;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof(number)) != 1) {
    return std::nullopt;
  }
  return number;
}

absl::Status Overloaded(absl::string_view why) {
  engine::ErrorDetails details;
  details.reason = engine::Reason::kOverloaded;
  details.retry_after_ms = engine::kSecondMs;
  return engine::MakeError(std::move(details), why);
}

}  // namespace

Sessions::Sessions(const Clock* clock, Numbers numbers)
    : clock_(clock), numbers_(numbers ? std::move(numbers) : SystemRandom) {}

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
    const std::optional<uint64_t> number = numbers_();
    if (!number.has_value()) return absl::InternalError("the system gives no random numbers");
    id = *number & kLargestId;
  }
  sessions_.emplace(id, Entry{nullptr, std::move(session), 0});
  if (sessions_.size() == 1) changed_.NotifyAll();
  return id;
}

absl::Status Sessions::Introduce(uint64_t id, SessionInfo info, size_t hello_bytes) {
  info.start_wall_ms = clock_->WallMs();
  auto kept = std::make_shared<const SessionInfo>(std::move(info));
  const MutexLock lock(mutex_);
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return absl::OkStatus();
  if (hello_bytes_ > 0 && hello_bytes_ + hello_bytes > engine::kMaxHelloBytes) {
    return Overloaded(
        absl::StrCat("the queues and kinds that ", sessions_.size(),
                     " open sessions name take all the memory there is for them; name fewer, use "
                     "LeaseJobs, or try later"));
  }
  hello_bytes_ += hello_bytes;
  it->second.hello_bytes = hello_bytes;
  it->second.info = std::move(kept);
  return absl::OkStatus();
}

void Sessions::Close(uint64_t id) {
  const MutexLock lock(mutex_);
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  hello_bytes_ -= it->second.hello_bytes;
  sessions_.erase(it);
}

bool Sessions::MayContinue(uint64_t id, const std::string& worker,
                           const std::string& identity) const {
  const MutexLock lock(mutex_);
  const auto it = sessions_.find(id);
  return it == sessions_.end() ||
         (it->second.info != nullptr && it->second.info->worker == worker &&
          it->second.info->identity == identity);
}

void Sessions::EndContinued(uint64_t id) {
  if (const auto session = Find(id)) session->OnEnd(/*continued=*/true);
}

void Sessions::Tell(const engine::SessionVerdict& verdict) {
  if (const auto session = Find(verdict.session)) session->OnVerdict(verdict);
}

std::vector<Sessions::Listed> Sessions::List() const {
  std::vector<std::pair<std::shared_ptr<const SessionInfo>, std::shared_ptr<Session>>> there;
  {
    const MutexLock lock(mutex_);
    there.reserve(sessions_.size());
    for (const auto& [id, entry] : sessions_) {
      if (entry.info == nullptr) continue;
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
      if (entry.info == nullptr || !matches(*entry.info)) continue;
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
