"""Deliberate faults of the broker, to show that the simulator finds them.

Each is one replacement in one source file. This makes copies of those files with all of their faults
in, each behind a switch; the test sim_faults links them in place of the originals and turns on one
at a time. The sources themselves stay free of all that. A text that does not stand exactly once in
its file ends the build: the code has changed, and its fault has to follow.

  faults.py SOURCE_ROOT OUTPUT_FOLDER     writes the copies and faults.cc
  faults.py --files                       lists the files that have faults
"""

import os
import sys

# name, file, text, its replacement with FAULT where the switch goes; what it breaks.
FAULTS = [
    ("answer_before_sync", "server/runtime/loop.cc",
     "  executor_->Post([this, ticket",
     "  if (FAULT) Publish(syncing_.get());\n  executor_->Post([this, ticket",
     "P1: answers go out before the sync"),
    ("refusal_from_unsynced_state", "server/runtime/loop.cc",
     "  if (open_.has_value() && syncing_ == nullptr) {\n    CommitGroup();",
     "  if (open_.has_value() && (syncing_ == nullptr || (FAULT && !open_->writes))) {\n"
     "    CommitGroup();",
     "P1: what was read or refused on the word of an unsynced group is answered at once"),
    ("job_without_its_request", "server/engine/enqueue.cc",
     "    Insert(queue, std::move(row), std::move(payload));",
     "    if (!(FAULT && row.key.sequence % 16 == 0)) {\n"
     "      Insert(queue, std::move(row), std::move(payload));\n    }",
     "P1: one job in 16 is answered and not stored"),
    ("result_not_kept", "server/engine/transition.cc",
     "    if (!result.empty()) tables_.PutResult(row->key, result);",
     "    if (!result.empty() && !FAULT) tables_.PutResult(row->key, result);",
     "P1: a completion is answered, its result is not stored"),
    ("index_entry_forgotten", "storage/tables.cc",
     "    if (find(index_after, row.key) == nullptr) rows_->Delete(row.key);",
     "    if (find(index_after, row.key) == nullptr && !(FAULT && job.sequence % 8 == 0)) {\n"
     "      rows_->Delete(row.key);\n    }",
     "invariants: one job in 8 leaves an index row behind"),
    ("token_not_compared", "server/engine/settle.cc",
     "  if (row.state.owner_token() != 0 && row.state.owner_token() == item.token &&",
     "  if (row.state.owner_token() != 0 && (FAULT || row.state.owner_token() == item.token) &&",
     "P2: any token settles a leased job"),
    ("owner_kept_by_a_failure", "server/engine/transition.cc",
     "  ClearOwner(after);\n  after->set_ready_ms(now.broker_ms + delay);",
     "  if (!FAULT) ClearOwner(after);\n  after->set_ready_ms(now.broker_ms + delay);",
     "P2: after a failure its token still owns the job"),
    ("token_twice", "server/engine/dispatch.cc",
     "  after.set_owner_token(++last_token_);",
     "  after.set_owner_token(FAULT && row->key.sequence % 4 == 0 ? last_token_ : ++last_token_);",
     "P2: a grant of one job in 4 gets the token of the grant before"),
    ("revoked_lease_revives", "server/engine/due.cc",
     "  ChargeFailure(*queue, row, std::nullopt, now, &after, &reason);",
     "  ChargeFailure(*queue, row, std::nullopt, now, &after, &reason);\n"
     "  if (FAULT) after.set_owner_token(command.token);",
     "P2: after the run limit the old token still owns the job"),
    ("takeover_forgotten", "server/engine/heartbeat.cc",
     "      leases_.SetSession(key, command.session);",
     "      if (!FAULT) leases_.SetSession(key, command.session);",
     "P2, P3: a renewal does not take the lease over from the session before"),
    ("renewal_forgotten", "server/engine/heartbeat.cc",
     "          std::max(lease->deadline_ms, now.broker_ms + lease->state.lease_duration_ms());",
     "          std::max(lease->deadline_ms,\n"
     "                   FAULT ? 0 : now.broker_ms + lease->state.lease_duration_ms());",
     "P3: a renewal does not move the deadline"),
    ("lapse_not_checked_again", "server/engine/due.cc",
     "  if (lease->deadline_ms > now.broker_ms) {  // renewed in the meantime",
     "  if (lease->deadline_ms > now.broker_ms && !FAULT) {",
     "P3: a lease renewed in the same group lapses"),
    ("no_restart_grace", "server/engine/load.cc",
     "        now.broker_ms + std::max(lease.state.lease_duration_ms(), options_.restart_grace_ms);",
     "        now.broker_ms +\n"
     "        (FAULT ? 0 : std::max(lease.state.lease_duration_ms(), options_.restart_grace_ms));",
     "P3: leases lapse at a restart"),
    ("stall_not_forgiven", "server/engine/engine.cc",
     "    lease.deadline_ms += gap_ms;",
     "    if (FAULT) return;\n    lease.deadline_ms += gap_ms;",
     "P3: leases lapse while the broker stands still"),
    ("late_settle_refused", "server/engine/settle.cc",
     "      Allows(static_cast<JobState>(row.state.state()), Event::kSettle)) {",
     "      Allows(static_cast<JobState>(row.state.state()), Event::kSettle) &&\n"
     "      !(FAULT && row.state.state() != storage::kStateLeased)) {",
     "P3: a settle after the lapse is refused though nobody took the job"),
    ("grace_lengthens", "server/engine/session.cc",
     "      if (grace_end_ms >= lease->deadline_ms) continue;",
     "      if (grace_end_ms >= lease->deadline_ms && !FAULT) continue;",
     "P3: the loss of a stream lengthens a lease"),
    ("goodbye_keeps_leases", "server/engine/session.cc",
     "    Accept(FindQueue(row.key.queue), &row, release, now);",
     "    if (!FAULT) Accept(FindQueue(row.key.queue), &row, release, now);",
     "P3: the orderly end of a session releases nothing"),
    ("pushed_job_dropped", "server/api/worker_stream.cc",
     "    outbox_.Add(std::move(job), std::move(undo.items[i].job));",
     "    if (!(FAULT && i == 1)) outbox_.Add(std::move(job), std::move(undo.items[i].job));",
     "P3: the second of the jobs given to a session is never pushed"),
    ("due_early", "server/engine/due.cc",
     "    if (due.at.due_ms > now_ms) {",
     "    if (due.at.due_ms > now_ms + (FAULT ? 5'000 : 0)) {",
     "P4: a delayed job is ready up to 5 s early, behind one that is due"),
    ("priority_ignored", "server/engine/dispatch.cc",
     "      if (best == kPriorities) {",
     "      if (best == kPriorities || FAULT) {",
     "order: the lowest priority comes first"),
    ("newest_first", "server/engine/dispatch.cc",
     "      candidates->push_back({static_cast<uint8_t>(chosen), next[chosen]->first});",
     "      const bool newest = FAULT && skip == 0 && wanted == 1;\n"
     "      const auto last = std::prev(queue->windows[chosen].entries().end());\n"
     "      candidates->push_back(\n"
     "          {static_cast<uint8_t>(chosen), newest ? last->first : next[chosen]->first});",
     "order: of one priority the newest comes first"),
    ("expired_job_granted", "server/engine/dispatch.cc",
     "    if (expired) {",
     "    if (expired && !FAULT) {",
     "P4: an expired job is granted"),
    ("paused_queue_granted", "server/engine/dispatch.cc",
     "queue->record.paused() ||",
     "(queue->record.paused() && !FAULT) ||",
     "P4: a paused queue gives out jobs"),
    ("request_forgotten", "server/engine/enqueue.cc",
     "  requests_.Remember(&tables_, command.request, reply, now.broker_ms);",
     "  if (!FAULT) requests_.Remember(&tables_, command.request, reply, now.broker_ms);",
     "P5: a repeated enqueue adds another job"),
    ("lease_call_not_repeatable", "server/engine/dispatch.cc",
     "  if (hash != 0) {\n    if (auto repeated",
     "  if (hash != 0 && !FAULT) {\n    if (auto repeated",
     "P5: a repeated LeaseJobs gets other jobs"),
    ("removed_settle_forgotten", "server/engine/transition.cc",
     "      removed_.Add(row->key, row->record.job_id(), after.settle(), now.broker_ms);",
     "      if (!FAULT) {\n"
     "        removed_.Add(row->key, row->record.job_id(), after.settle(), now.broker_ms);\n"
     "      }",
     "P5: a repeated settle of a job that is not kept is refused"),
    ("loss_counted_twice", "server/engine/due.cc",
     "  after.set_total_losses(after.total_losses() + 1);",
     "  after.set_total_losses(after.total_losses() + (FAULT ? 2 : 1));",
     "P6: a lapse is two losses"),
    ("one_loss_too_many", "server/engine/due.cc",
     "after.consecutive_losses() >= MaxLosses(row.record, after, settings)",
     "after.consecutive_losses() >= MaxLosses(row.record, after, settings) + (FAULT ? 1 : 0)",
     "P6: a job outlives its budget of losses"),
    ("one_attempt_too_many", "server/engine/transition.cc",
     "  if (after->failures() >= MaxAttempts(row.record, *after, settings)) {",
     "  if (after->failures() >= MaxAttempts(row.record, *after, settings) + (FAULT ? 1 : 0)) {",
     "P6: a job outlives its budget of failures"),
    ("queue_overfull", "server/engine/enqueue.cc",
     "live + jobs > settings.max_jobs()",
     "live + jobs > settings.max_jobs() + (FAULT ? 1 : 0)",
     "limits: a queue takes one job too many"),
    ("counter_drift", "server/engine/transition.cc",
     "      c.set_dead(c.dead() + sign);",
     "      c.set_dead(c.dead() + (FAULT && sign < 0 ? 0 : sign));",
     "counters: a redrive or a removal does not lower the count of dead jobs"),
    ("broker_time_goes_back", "server/runtime/clock.cc",
     "    last_ms_ = last.broker_ms() + std::max<int64_t>(0, wall_ms - last.wall_ms());",
     "    last_ms_ = last.broker_ms() +\n"
     "               std::max<int64_t>(FAULT ? INT64_MIN : 0, wall_ms - last.wall_ms());",
     "P8: after a reboot broker time follows a wall clock that was set back"),
]


def files():
    return list(dict.fromkeys(fault[1] for fault in FAULTS))


def with_faults(path, text):
    for number, (name, file, old, new, _) in enumerate(FAULTS):
        if file != path:
            continue
        if text.count(old) != 1:
            sys.exit(f"{path}: the text of fault {name} stands there {text.count(old)} times; "
                     "tests/sim/faults.py has to follow the code")
        text = text.replace(old, new.replace("FAULT", f"(::stint::sim::active_fault == {number})"))
    return f'#include "tests/sim/fault_switch.h"\n{text}'


TABLE = """// Made by faults.py.
#include "tests/sim/fault_switch.h"

namespace stint::sim {{

std::vector<Fault> Faults() {{
  return {{
{rows}
  }};
}}

}}  // namespace stint::sim
"""


def main():
    if sys.argv[1:] == ["--files"]:
        print("\n".join(files()))
        return
    source, output = sys.argv[1:]
    os.makedirs(output, exist_ok=True)
    for path in files():
        with open(os.path.join(source, path), encoding="utf-8") as file:
            text = with_faults(path, file.read())
        with open(os.path.join(output, path.replace("/", "_")), "w", encoding="utf-8") as file:
            file.write(text)
    rows = "\n".join(f'      {{"{name}", "{breaks}"}},' for name, _, _, _, breaks in FAULTS)
    with open(os.path.join(output, "faults.cc"), "w", encoding="utf-8") as file:
        file.write(TABLE.format(rows=rows))


if __name__ == "__main__":
    main()
