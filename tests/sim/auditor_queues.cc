// Answers to calls about queues and the broker itself.
#include <algorithm>
#include <array>
#include <variant>

#include "absl/strings/str_cat.h"
#include "tests/sim/auditor.h"
#include "tests/sim/describe.h"

namespace stint::sim {

using engine::Outcome;
using engine::Reason;
using engine::ReasonOf;

void Auditor::SettingsChange(const Call& call, Queue* queue, const engine::RequestKey& request,
                             const Outcome& outcome, const std::string& what,
                             const QueueEffect& effect) {
  const Repeat repeat = CheckRequest(request, outcome, MomentOf(call));
  if (repeat == Repeat::kAgain || repeat == Repeat::kRefused) return;
  // What time brought until now, it brought under the old settings.
  SettleTime(queue);
  if (queue->guesses.front() == QueueGuess{}) queue->since_ms = NowMs();
  const auto* reply = std::get_if<engine::QueueReply>(&outcome.body);
  ExplainQueue(
      queue, absl::StrCat(what, ": ", DescribeAnswer(outcome)),
      [&](const QueueGuess& guess) {
        auto after = effect(guess);
        if (after.has_value() && outcome.status.ok() && reply != nullptr &&
            !Shows(*after, reply->queue)) {
          after.reset();
        }
        return after;
      },
      repeat != Repeat::kFirst);
}

void Auditor::Answer(const Call& call, const engine::CreateQueueCommand& c, const Outcome& o) {
  SettingsChange(
      call, &QueueOf(c.queue), c.request, o, "create queue",
      [&](const QueueGuess& guess) { return AfterCreate(guess, c, ReasonOf(o.status)); });
}

void Auditor::Answer(const Call& call, const engine::UpdateQueueCommand& c, const Outcome& o) {
  SettingsChange(
      call, &QueueOf(c.queue), c.request, o, "update queue",
      [&](const QueueGuess& guess) { return AfterUpdate(guess, c, ReasonOf(o.status)); });
}

void Auditor::Answer(const Call& call, const engine::PauseQueueCommand& c, const Outcome& o) {
  SettingsChange(call, &QueueOf(c.queue), c.request, o, c.paused ? "pause" : "resume",
                 [&](const QueueGuess& guess) { return AfterPause(guess, c, ReasonOf(o.status)); });
}

void Auditor::Answer(const Call& call, const engine::DeleteQueueCommand& c, const Outcome& o) {
  const Moment moment = MomentOf(call);
  const Repeat repeat = CheckRequest(c.request, o, moment);
  if (repeat == Repeat::kAgain || repeat == Repeat::kRefused) return;
  const bool either = repeat != Repeat::kFirst;
  Queue& queue = QueueOf(c.queue);
  const Reason reason = ReasonOf(o.status);
  const Counts jobs = Count(&queue, moment, [](const Guess& g) { return !g.gone; });
  if (reason == Reason::kWrongState && (c.force || jobs.high == 0)) {
    Fail(absl::StrCat("delete queue ", c.queue, " was refused for jobs it does not have"));
  }
  if (reason == Reason::kNone && !c.force && jobs.low > 0 && !either) {
    Fail(absl::StrCat("queue ", c.queue, " was deleted with ", jobs.low, " jobs in it"));
  }
  ExplainQueue(
      &queue, absl::StrCat("delete queue: ", DescribeAnswer(o)),
      [&](const QueueGuess& guess) { return AfterDelete(guess, reason); }, either);
  if (reason != Reason::kNone) return;
  for (Job* job : queue.jobs) {
    Explain(
        job, moment, "its queue was deleted",
        [](const JobRules& rules, const Guess& guess, Guesses* out) {
          rules.DeleteQueue(guess, out);
        },
        either);
  }
}

void Auditor::Answer(const Call& call, const engine::PurgeQueueCommand& c, const Outcome& o) {
  const Moment moment = MomentOf(call);
  const Repeat repeat = CheckRequest(c.request, o, moment);
  if (repeat == Repeat::kAgain || repeat == Repeat::kRefused) return;
  const bool either = repeat != Repeat::kFirst;
  Queue& queue = QueueOf(c.queue);
  ExplainQueue(
      &queue, absl::StrCat("purge: ", DescribeAnswer(o)),
      [&](const QueueGuess& guess) { return AfterLook(guess, ReasonOf(o.status)); }, either);
  if (!o.status.ok()) return;
  const Counts hit = Count(
      &queue, moment, [&](const Guess& guess) { return c.force ? guess.live() : guess.waiting(); });
  const int64_t purged = std::get<engine::PurgeReply>(o.body).purged;
  if (!either && (purged < hit.low || purged > hit.high)) {
    Fail(absl::StrCat("purge of ", c.queue, " says ", purged, ", expected ", hit.low, " to ",
                      hit.high));
  }
  for (Job* job : queue.jobs) {
    if (job->AllGone()) continue;
    Explain(
        job, moment, "its queue was purged",
        [&](const JobRules& rules, const Guess& guess, Guesses* out) {
          rules.Purge(guess, c.force, out);
        },
        either);
  }
}

void Auditor::Answer(const Call& call, const engine::QueueStatsCommand& c, const Outcome& o) {
  const Moment moment = MomentOf(call);
  Queue& queue = QueueOf(c.queue);
  ExplainQueue(&queue, absl::StrCat("stats: ", DescribeAnswer(o)),
               [&](const QueueGuess& guess) { return AfterLook(guess, ReasonOf(o.status)); });
  if (!o.status.ok()) return;
  const record::QueueCounters& c1 = std::get<engine::QueueStatsReply>(o.body).counters;
  CheckCounters(&queue, moment, c1);
}

void Auditor::CheckCounters(Queue* queue, const Moment& moment,
                            const record::QueueCounters& counters) {
  const std::array<int64_t, 7> kept = {
      counters.delayed(),   counters.held(),      counters.ready(), counters.leased(),
      counters.completed(), counters.cancelled(), counters.dead()};
  std::array<Counts, 7> counts;
  for (const Job* job : queue->jobs) {
    if (job->AllGone()) continue;
    std::array<bool, 7> some{};
    const Guesses now = Closure(*job, moment);
    bool gone = false;
    for (const Guess& guess : now) {
      if (guess.gone) {
        gone = true;
      } else {
        some[static_cast<size_t>(guess.state) - 1] = true;
      }
    }
    const auto states = std::count(some.begin(), some.end(), true);
    for (size_t i = 0; i < some.size(); ++i) {
      if (!some[i]) continue;
      ++counts[i].high;
      if (states == 1 && !gone) ++counts[i].low;
    }
  }
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] >= counts[i].low && kept[i] <= counts[i].high) continue;
    Fail(absl::StrCat("queue ", queue->name, " counts ", kept[i], " jobs ",
                      engine::JobStateName(static_cast<JobState>(i + 1)), ", expected ",
                      counts[i].low, " to ", counts[i].high));
  }
}

void Auditor::Answer(const Call& call, const engine::ServerInfoCommand& /*c*/, const Outcome& o) {
  if (!o.status.ok()) {
    Fail(absl::StrCat("server info: unexpected ", o.status.ToString()));
    return;
  }
  const auto& info = std::get<engine::ServerInfoReply>(o.body);
  if (started_ && (info.broker_ms < call.from_ms || info.broker_ms > NowMs())) {
    Fail(absl::StrCat("broker time is ", info.broker_ms, ", expected ", call.from_ms, " to ",
                      NowMs()));
  }
}

}  // namespace stint::sim
