// The end of a session, and which leases belong to one.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/sim/auditor.h"

namespace stint::sim {

using engine::Outcome;

void Auditor::Answer(const Call& call, const engine::EndSessionCommand& c, const Outcome& o) {
  if (!o.status.ok()) {
    Fail(absl::StrCat("end of a session: unexpected ", o.status.ToString()));
    return;
  }
  const Moment moment = MomentOf(call);
  for (Job& job : jobs_) {
    const bool concerned =
        std::any_of(job.guesses.begin(), job.guesses.end(),
                    [&c](const Guess& guess) { return !guess.gone && guess.session == c.session; });
    if (!concerned) continue;
    Explain(&job, moment, "end of a session",
            [&](const JobRules& rules, const Guess& guess, Guesses* out) {
              rules.EndSession(guess, c, out);
            });
    GiveStalls(call, &job);
  }
}

std::set<int64_t> Auditor::LeasesOf(uint64_t session) {
  std::set<int64_t> tokens;
  Moment now;
  now.by_ms = NowMs();
  now.wall_high_ms = clock_->WallMs();
  for (const Job& job : jobs_) {
    if (job.AllGone()) continue;
    const Guesses guesses = Closure(job, now);
    const bool certain = std::all_of(guesses.begin(), guesses.end(), [session](const Guess& guess) {
      return !guess.gone && guess.state == JobState::kLeased && guess.session == session;
    });
    if (certain) tokens.insert(guesses.front().owner);
  }
  return tokens;
}

}  // namespace stint::sim
