// The sessions that are open: one for each stream of a worker. Gives them numbers, brings them
// what the engine has to tell (verdicts), the passing of time, and the news of a drain.
//
// How it is used: the edge opens a session for each stream, introduces it when the worker has said
// who it is, and closes it when the stream is over. The broker runs the ticks (Start); tests call
// Tick.
//
// What it does not do: leases. Which session a lease belongs to is the engine's memory.
//
// Thread rule: any thread. Methods of a Session are called without a lock held, by the
// ticking thread, by the publishing thread and by whoever drains; perhaps once more after its
// Close.
#ifndef STINT_SERVER_RUNTIME_SESSIONS_H_
#define STINT_SERVER_RUNTIME_SESSIONS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/statusor.h"
#include "server/engine/outcome.h"
#include "server/runtime/clock.h"
#include "sync/mutex.h"

namespace stint::runtime {

// Why a session gets no more jobs.
enum class DrainCause { kServer, kWorker };

class Session {
 public:
  virtual ~Session() = default;
  // Something of a lease of this session.
  virtual void OnVerdict(const engine::SessionVerdict& verdict) = 0;
  // About four times a second; boot time in milliseconds.
  virtual void OnTick(int64_t now_ms) = 0;
  // It shall get no more jobs.
  virtual void OnDrain(DrainCause cause) = 0;
  // Boot time of its worker's last message.
  virtual int64_t LastHeardMs() const = 0;
  // It shall end: with OK if it is `continued` by another one, else because the broker stops.
  virtual void OnEnd(bool continued) = 0;
};

// Who is behind a session.
struct SessionInfo {
  // Name of the credential, "" on an open broker.
  std::string identity;
  std::string worker;
  std::string version;
  std::vector<std::string> kinds;
  // The first kMaxShownQueues.
  std::vector<std::string> queues;
  int64_t start_wall_ms = 0;
};

class Sessions {
 public:
  // Gives the numbers of sessions, of which the lowest 53 bits are used; nothing: it cannot.
  // Unset: random numbers of the system. A simulation gives its own.
  using Numbers = std::function<std::optional<uint64_t>()>;
  explicit Sessions(const Clock* clock, Numbers numbers = nullptr);
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // Begins to tick on a thread of its own.
  void Start();
  void Tick();

  // The number of a new session, or OVERLOADED. Numbers cannot be guessed, and are exact in
  // JavaScript.
  absl::StatusOr<uint64_t> Open(std::weak_ptr<Session> session);
  // Who it is. `hello_bytes` is what its hello takes of memory as long as it is open; OVERLOADED
  // when those of all sessions together take too much.
  absl::Status Introduce(uint64_t id, SessionInfo info, size_t hello_bytes);
  void Close(uint64_t id);
  // Whether a session of this worker and identity may go on with session `id`. One that is open
  // has to be its own; of one that is over, the number is the proof.
  bool MayContinue(uint64_t id, const std::string& worker, const std::string& identity) const;
  // Ends a session that another one goes on with, if it is still there.
  void EndContinued(uint64_t id);
  // Brings a verdict to its session, if that is still there.
  void Tell(const engine::SessionVerdict& verdict);

  // All whose worker has said who it is.
  struct Listed {
    std::shared_ptr<const SessionInfo> info;  // never null
    int64_t last_heard_ms = 0;
  };
  std::vector<Listed> List() const;

  // The sessions of workers that `matches` accepts get no more jobs.
  void DrainWorkers(const std::function<bool(const SessionInfo&)>& matches);
  // From now on: every session there is gets no more jobs, and none opens.
  void DrainAll();
  void EndAll();

  size_t size() const;

 private:
  struct Entry {
    std::shared_ptr<const SessionInfo> info;  // null: it has not said hello
    std::weak_ptr<Session> session;
    size_t hello_bytes = 0;
  };
  std::shared_ptr<Session> Find(uint64_t id) const;
  std::vector<std::shared_ptr<Session>> All() const;

  const Clock* const clock_;
  const Numbers numbers_;
  mutable Mutex mutex_;
  Condition changed_;
  // In an order, so that a simulation is the same each time.
  absl::btree_map<uint64_t, Entry> sessions_ ABSL_GUARDED_BY(mutex_);
  size_t hello_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of all of them
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace stint::runtime

#endif  // STINT_SERVER_RUNTIME_SESSIONS_H_
