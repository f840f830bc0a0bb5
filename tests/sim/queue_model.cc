#include "tests/sim/queue_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stint::sim {

using engine::Reason;

namespace {

bool Explains(ReasonSeen seen, Reason expected) { return !seen.has_value() || *seen == expected; }

QueueGuess Added(bool ephemeral) {
  QueueGuess guess;
  guess.exists = true;
  guess.ephemeral = ephemeral;
  guess.version = 1;
  return guess;
}

}  // namespace

bool operator==(const QueueGuess& a, const QueueGuess& b) {
  return a.exists == b.exists && a.paused == b.paused && a.draining == b.draining &&
         a.ephemeral == b.ephemeral && a.version == b.version &&
         a.settings.SerializeAsString() == b.settings.SerializeAsString();
}

void AddUnique(QueueGuess guess, QueueGuesses* to) {
  if (std::find(to->begin(), to->end(), guess) == to->end()) to->push_back(std::move(guess));
}

std::optional<QueueGuess> AfterEnqueue(const QueueGuess& guess, ReasonSeen reason) {
  if (guess.exists && guess.draining) {
    if (Explains(reason, Reason::kQueueDraining)) return guess;
    return std::nullopt;
  }
  if (!Explains(reason, Reason::kNone)) return std::nullopt;
  return guess.exists ? guess : Added(true);
}

std::optional<QueueGuess> AfterCreate(const QueueGuess& guess,
                                      const engine::CreateQueueCommand& call, ReasonSeen reason) {
  if (guess.exists && !guess.ephemeral) {
    if (Explains(reason, Reason::kQueueExists)) return guess;
    return std::nullopt;
  }
  if (!Explains(reason, Reason::kNone)) return std::nullopt;
  QueueGuess after = guess.exists ? guess : Added(false);
  after.ephemeral = false;
  after.settings = call.settings;
  ++after.version;
  return after;
}

std::optional<QueueGuess> AfterUpdate(const QueueGuess& guess,
                                      const engine::UpdateQueueCommand& call, ReasonSeen reason) {
  const Reason expected = !guess.exists ? Reason::kQueueNotFound
                          : call.expected_version != 0 && call.expected_version != guess.version
                              ? Reason::kEtagMismatch
                              : Reason::kNone;
  if (!Explains(reason, expected)) return std::nullopt;
  QueueGuess after = guess;
  if (expected != Reason::kNone) return after;
  for (const std::string& field : call.fields) {
    // The fields that the simulator's operators change.
    const record::QueueSettings& from = call.settings;
    record::QueueSettings* to = &after.settings;
    if (field == "*") {
      *to = from;
    } else if (field == "max_jobs") {
      from.has_max_jobs() ? to->set_max_jobs(from.max_jobs()) : to->clear_max_jobs();
    } else if (field == "max_attempts") {
      from.has_max_attempts() ? to->set_max_attempts(from.max_attempts())
                              : to->clear_max_attempts();
    } else if (field == "max_losses") {
      from.has_max_losses() ? to->set_max_losses(from.max_losses()) : to->clear_max_losses();
    } else if (field == "loss_backoff_ms") {
      from.has_loss_backoff_ms() ? to->set_loss_backoff_ms(from.loss_backoff_ms())
                                 : to->clear_loss_backoff_ms();
    } else if (field == "retention") {
      if (from.has_retention()) {
        *to->mutable_retention() = from.retention();
      } else {
        to->clear_retention();
      }
    }
  }
  if (call.draining.has_value()) after.draining = *call.draining;
  after.ephemeral = false;
  ++after.version;
  return after;
}

std::optional<QueueGuess> AfterPause(const QueueGuess& guess, const engine::PauseQueueCommand& call,
                                     ReasonSeen reason) {
  if (!guess.exists && !call.paused) {
    if (Explains(reason, Reason::kQueueNotFound)) return guess;
    return std::nullopt;
  }
  if (!Explains(reason, Reason::kNone)) return std::nullopt;
  QueueGuess after = guess.exists ? guess : Added(false);
  if (after.paused != call.paused) {
    after.paused = call.paused;
    after.ephemeral = false;
    ++after.version;
  }
  return after;
}

std::optional<QueueGuess> AfterDelete(const QueueGuess& guess, ReasonSeen reason) {
  // Refused for what is in it: the caller knows whether that can be.
  if (guess.exists && reason == Reason::kWrongState) return guess;
  if (!Explains(reason, guess.exists ? Reason::kNone : Reason::kQueueNotFound)) {
    return std::nullopt;
  }
  return QueueGuess{};
}

std::optional<QueueGuess> AfterLook(const QueueGuess& guess, ReasonSeen reason) {
  if (!Explains(reason, guess.exists ? Reason::kNone : Reason::kQueueNotFound)) {
    return std::nullopt;
  }
  return guess;
}

bool Shows(const QueueGuess& guess, const record::QueueRecord& record) {
  return guess.exists && record.paused() == guess.paused && record.draining() == guess.draining &&
         record.ephemeral() == guess.ephemeral && record.version() == guess.version &&
         record.settings().SerializeAsString() == guess.settings.SerializeAsString();
}

std::string Describe(const QueueGuess& guess) {
  if (!guess.exists) return "does not exist";
  return absl::StrCat("version ", guess.version, guess.paused ? " paused" : "",
                      guess.draining ? " draining" : "", guess.ephemeral ? " ephemeral" : "", " {",
                      guess.settings.ShortDebugString(), "}");
}

}  // namespace stint::sim
