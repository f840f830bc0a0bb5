// Everybody who calls the broker, none of them well behaved: producers that lose answers and
// repeat them, workers that die, stall, settle twice or late and lie about tokens, operators
// who cancel, purge and delete at the worst time. Used by one thread.
#ifndef STINT_TESTS_SIM_CALLERS_H_
#define STINT_TESTS_SIM_CALLERS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/command.h"
#include "server/engine/outcome.h"
#include "tests/sim/auditor.h"
#include "tests/sim/profile.h"
#include "tests/sim/random.h"

namespace stint::sim {

// The broker as a caller sees it.
class Broker {
 public:
  // nullptr: the answer was lost on its way, or the broker died.
  using OnAnswer = std::function<void(const engine::Outcome*)>;
  virtual ~Broker() = default;
  virtual void Call(engine::Command command, OnAnswer on_answer) = 0;
  // Some worker with a session does something.
  virtual void ActOnStream() = 0;
  // Some caller under way hangs up.
  virtual void AbandonOne() = 0;
  // A step of a change to many jobs as the edge makes it of what is durable: some jobs with
  // ids of the broker's own, from sequence `from` on. `bound` 0: the run begins.
  virtual engine::BatchCommand FindBatch(const std::string& queue,
                                         engine::BatchCommand::Operation operation, bool force,
                                         uint64_t bound, uint64_t from) = 0;
  virtual int64_t WallMs() const = 0;
  // Broker time.
  virtual int64_t NowMs() const = 0;

 protected:
  Broker() = default;
  Broker(const Broker&) = default;
  Broker& operator=(const Broker&) = default;
};

class Callers {
 public:
  // All outlive the callers.
  Callers(const Profile* profile, Random* random, Broker* broker)
      : profile_(profile), random_(random), broker_(broker) {}

  // Somebody does something.
  void DoSomething();
  // From now on only one honest worker: it takes what there is and completes it.
  void WorkHonestly();

 private:
  struct Held {
    engine::JobRef job;
    int64_t token = 0;
    std::string worker;
  };

  void Do(Act act);
  void Enqueue();
  engine::NewJob NewJob();
  void Lease();
  void Heartbeat();
  void Settle();
  void SettleAgain();
  void Lie();
  void CreateOrUpdateQueue(bool create);
  void Update();
  void Batch();
  engine::SettleItem RandomSettle(const Held& held);
  void SendSettle(std::vector<engine::SettleItem> items);
  struct Sent {
    engine::Command command;
    int64_t first_ms = 0;
  };
  // Sends a call that changes something; when its answer is lost it may be repeated.
  void Send(engine::Command command) { Send(Sent{std::move(command), broker_->NowMs()}); }
  void Send(const Sent& sent);
  void NoteAnswer(const Sent& sent, const engine::Outcome* outcome);
  bool WorthRepeating(const Sent& sent) const;
  void Repeat();
  engine::RequestKey Key();
  engine::JobRef AnyJob();
  const std::string& AnyQueue() { return random_->Pick(profile_->queues); }
  Held TakeHeld(size_t i);

  const Profile* profile_;
  Random* random_;
  Broker* broker_;
  std::vector<engine::JobRef> jobs_;  // the newest that were heard of
  std::vector<Held> held_;
  std::vector<Held> past_;
  std::vector<Sent> repeatable_;
  // The last step of a run of batch calls that has not come to its end, and what it answered.
  std::optional<std::pair<engine::BatchCommand, engine::BatchReply>> run_;
  int64_t payloads_ = 0;
  int64_t requests_ = 0;
  uint64_t contents_ = 0;
  size_t honest_calls_ = 0;
};

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_CALLERS_H_
