// The life of a job as a table: which event each state allows. Handlers ask it before they
// change anything; PROTOCOL.md draws it.
#ifndef STINT_SERVER_ENGINE_JOB_STATE_H_
#define STINT_SERVER_ENGINE_JOB_STATE_H_

#include "server/engine/types.h"

namespace stint::engine {

enum class Event {
  kDue,      // the due time is reached
  kExpire,   // not started in time
  kGrant,    // a worker takes it
  kSettle,   // complete, fail or release, by the owner's token
  kRenew,    // heartbeat, by the owner's token
  kLapse,    // not renewed in time
  kRevoke,   // run limit or cancel grace passed
  kCancel,   // asked for by a client
  kRedrive,  // revived by an operator
  kUpdate,   // priority or budgets changed
  kMove,     // due time changed
};

// Whether a job in `state` allows `event`. Settle and renew are allowed in DELAYED and READY
// too: a lapsed lease leaves the owner's token in force until somebody takes the job.
bool Allows(JobState state, Event event);

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_JOB_STATE_H_
