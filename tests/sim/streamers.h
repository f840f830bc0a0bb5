// Workers with sessions, none of them well behaved: over the real StreamJobs of the edge, without
// gRPC. They break off, come back and go on with old sessions or those of others, read nothing for
// long, say goodbye with jobs in hand, take back the room they gave and forget what they hold.
//
// It also checks what the broker's half of a stream promises: one write at a time and none after
// the end; and that every job given to a session whose worker reads has been pushed to it.
// Used by one thread.
#ifndef STINT_TESTS_SIM_STREAMERS_H_
#define STINT_TESTS_SIM_STREAMERS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "server/api/edge.h"
#include "stint/v1/worker_service.pb.h"
#include "tests/sim/profile.h"
#include "tests/sim/random.h"

namespace stint::sim {

class Streamers {
 public:
  // All outlive the streamers.
  Streamers(const Profile* profile, Random* random);
  ~Streamers();

  // The broker is up.
  void Attach(api::Edge* edge);
  // It is gone, and every stream with it; what workers held they think they still hold.
  void Detach();

  // Some worker does something.
  void DoSomething();
  // Takes in what is on its way to workers that read; false: nothing was.
  bool Receive();
  // Every worker leaves in order or breaks off, and none comes back.
  void Leave();

  // Nothing is under way: `leases_of` gives the tokens of a session's leases for certain.
  void CheckPushed(const std::function<std::set<int64_t>(uint64_t)>& leases_of);
  // The first broken promise; empty: none.
  const std::string& failure() const { return failure_; }

 private:
  class Peer;
  struct Held {
    std::string job;
    int64_t token = 0;
  };
  struct Worker {
    std::string name;
    std::vector<Held> held;
    // Of its last welcome.
    int64_t session = 0;
    std::unique_ptr<Peer> peer;
  };

  void Connect(Worker* worker);
  void Speak(Worker* worker);
  void AddHeartbeat(Worker* worker, v1::StreamJobsRequest* message);
  void AddSettles(Worker* worker, v1::StreamJobsRequest* message);
  void TakeIn(Worker* worker, const v1::StreamJobsResponse& message);
  void Fail(std::string why) {
    if (failure_.empty()) failure_ = std::move(why);
  }

  const Profile* profile_;
  Random* random_;
  api::Edge* edge_ = nullptr;
  std::vector<Worker> workers_;
  // Streams that their worker has given up and that have not broken yet.
  std::vector<std::unique_ptr<Peer>> ghosts_;
  // Tokens that some worker was ever given.
  std::set<int64_t> seen_;
  int64_t operations_ = 0;
  std::string failure_;
};

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_STREAMERS_H_
