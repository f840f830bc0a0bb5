// What may have become of one queue, told from requests and answers alone; see job_model.h.
#ifndef STINT_TESTS_SIM_QUEUE_MODEL_H_
#define STINT_TESTS_SIM_QUEUE_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/command.h"
#include "server/engine/error.h"
#include "server/engine/outcome.h"

namespace stint::sim {

struct QueueGuess {
  bool exists = false;
  record::QueueSettings settings;
  bool paused = false;
  bool draining = false;
  bool ephemeral = false;
  uint64_t version = 0;
};
bool operator==(const QueueGuess& a, const QueueGuess& b);
using QueueGuesses = std::vector<QueueGuess>;

// Each gives the queue after the call, or nullopt when the guess does not explain the answer
// (`reason`: kNone when it was accepted; nullopt: no answer).
using ReasonSeen = std::optional<engine::Reason>;
std::optional<QueueGuess> AfterEnqueue(const QueueGuess& guess, ReasonSeen reason);
std::optional<QueueGuess> AfterCreate(const QueueGuess& guess,
                                      const engine::CreateQueueCommand& call, ReasonSeen reason);
std::optional<QueueGuess> AfterUpdate(const QueueGuess& guess,
                                      const engine::UpdateQueueCommand& call, ReasonSeen reason);
std::optional<QueueGuess> AfterPause(const QueueGuess& guess, const engine::PauseQueueCommand& call,
                                     ReasonSeen reason);
std::optional<QueueGuess> AfterDelete(const QueueGuess& guess, ReasonSeen reason);
// Calls that change nothing about the queue itself.
std::optional<QueueGuess> AfterLook(const QueueGuess& guess, ReasonSeen reason);

bool Shows(const QueueGuess& guess, const record::QueueRecord& record);
void AddUnique(QueueGuess guess, QueueGuesses* to);
std::string Describe(const QueueGuess& guess);

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_QUEUE_MODEL_H_
