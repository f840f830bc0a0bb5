// LeaseJobs: which jobs come next, and the grant.
//
// Order within a queue: priority (higher first), ready time, sequence. Starvation rule: when
// a lower priority's oldest ready job has waited over kStarvationMs, every
// kStarvationGrants-th grant goes to the oldest such job.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "server/engine/engine.h"
#include "server/engine/error.h"
#include "server/engine/job_state.h"
#include "server/engine/policy.h"
#include "server/engine/refusals.h"
#include "storage/job_id.h"
#include "storage/records.h"

namespace stint::engine {

using storage::JobKey;
using storage::Read;

namespace {

// Equal across restarts, since it is kept with the lease; 0: the call cannot be repeated.
uint64_t RequestHash(const LeaseCommand& command) {
  if (command.worker.empty() || command.request_id.empty()) return 0;
  return HashOfRequest(command.worker, command.request_id) | 1;
}

int64_t ReplyBytes(const record::JobRecord& record) {
  constexpr int64_t kFrame = 512;  // names, numbers and framing of one lease
  return record.size_bytes() + kFrame;
}

}  // namespace

bool Engine::ExtendWindow(QueueState* queue, uint8_t priority) {
  ReadyWindow& window = queue->windows[priority];
  const std::string from = storage::ReadyRowKey(
      {queue->id, priority, window.covered_to().ready_ms, window.covered_to().sequence});
  // The next priority's first place is this one's end.
  const std::string end =
      priority == 0 ? storage::QueueRangeEnd(storage::Family::kReady, queue->id)
                    : storage::ReadyRowKey({queue->id, static_cast<uint8_t>(priority - 1), 0, 0});
  const storage::RowView::Range range = tables_.rows().Scan(from, end, kWindowRefill);
  if (!range.known) return false;
  for (const storage::Row& row : range.rows) {
    if (const auto key = storage::ParseReadyRowKey(row.key)) {
      window.Covered({key->ready_ms, key->sequence}, !row.value.empty());
    }
  }
  if (range.complete) {
    window.CoveredAll();
  } else if (const auto rest =
                 storage::ParseReadyRowKey(absl::string_view(range.rest).substr(0, from.size()))) {
    // `rest` is a key, or the first place after one.
    const bool after = range.rest.size() > from.size();
    window.CoveredTo({rest->ready_ms, rest->sequence + (after ? 1 : 0)});
  }
  return true;
}

bool Engine::KnowHeads(QueueState* queue) {
  bool known = true;
  for (size_t p = 0; p < queue->windows.size(); ++p) {
    const ReadyWindow& window = queue->windows[p];
    const bool holds = static_cast<int>(p) < queue->counters.ready_by_priority_size() &&
                       queue->counters.ready_by_priority(static_cast<int>(p)) > 0;
    while (holds && window.entries().empty() && !window.at_tail()) {
      if (ExtendWindow(queue, static_cast<uint8_t>(p))) continue;
      known = false;  // the other priorities are asked for in the same round
      break;
    }
  }
  return known;
}

bool Engine::PeekReady(QueueState* queue, size_t skip, size_t wanted, const Now& now,
                       std::vector<Candidate>* candidates) {
  constexpr size_t kPriorities = kMaxPriority + 1;
  std::array<ReadyWindow::Entries::const_iterator, kPriorities> next;
  if (!KnowHeads(queue)) return false;
  for (size_t p = 0; p < kPriorities; ++p) next[p] = queue->windows[p].entries().begin();
  for (size_t taken = 0; taken < skip + wanted; ++taken) {
    size_t best = kPriorities;
    size_t starved = kPriorities;
    for (size_t p = kPriorities; p-- > 0;) {
      const ReadyWindow& window = queue->windows[p];
      if (next[p] == window.entries().end()) {
        // What comes next here is not in memory: look no further than what is known.
        if (!window.at_tail() && window.entries().size() > 0) {
          if (taken > skip) return true;
          return ExtendWindow(queue, static_cast<uint8_t>(p)) &&
                 PeekReady(queue, skip, wanted, now, candidates);
        }
        continue;
      }
      if (best == kPriorities) {
        best = p;
      } else if (now.broker_ms - next[p]->first.ready_ms > kStarvationMs &&
                 (starved == kPriorities || next[p]->first < next[starved]->first)) {
        starved = p;
      }
    }
    if (best == kPriorities) return true;
    const bool turn = (queue->counters.grants() + taken + 1) % kStarvationGrants == 0;
    const size_t chosen = turn && starved != kPriorities ? starved : best;
    if (taken >= skip) {
      candidates->push_back({static_cast<uint8_t>(chosen), next[chosen]->first});
    }
    ++next[chosen];
  }
  return true;
}

std::optional<Result> Engine::RepeatLease(const LeaseCommand& command, uint64_t hash,
                                          const Now& now) {
  LeaseReply reply;
  Reads reads;
  std::vector<JobKey> granted = leases_.GrantedBy(hash);
  granted.erase(std::remove_if(granted.begin(), granted.end(),
                               [&](const JobKey& job) {
                                 return leases_.Find(job)->state.worker() != command.worker;
                               }),
                granted.end());
  std::sort(granted.begin(), granted.end(), [this](const JobKey& a, const JobKey& b) {
    return leases_.Find(a)->state.owner_token() < leases_.Find(b)->state.owner_token();
  });
  // A lease that lapsed, and came back when the call had been given others, is one too many:
  // the newest, in the order they were granted, and no more than were asked for.
  if (granted.size() > static_cast<size_t>(command.max_jobs)) {
    granted.erase(granted.begin(), granted.end() - command.max_jobs);
  }
  for (const JobKey& job : granted) {
    QueueState* queue = FindQueue(job.queue);
    JobRow row;
    if (queue == nullptr || reads.Add(ReadJob(*queue, job, &row)) != Read::kFound) continue;
    std::string payload;
    if (row.record.payload_apart() && reads.Add(tables_.Payload(job, &payload)) == Read::kFound) {
      row.record.set_payload(std::move(payload));
    }
    GrantedLease lease;
    lease.job = Snapshot(*queue, row);
    lease.token = row.state.owner_token();
    lease.lease_ms = row.state.lease_duration_ms();
    lease.run_limit_ms = row.state.run_limit_at_ms() == 0
                             ? 0
                             : std::max<int64_t>(1, row.state.run_limit_at_ms() - now.broker_ms);
    lease.max_attempts = MaxAttempts(row.record, row.state, queue->record.settings());
    reply.leases.push_back(std::move(lease));
  }
  if (reads.unknown) return Result::NeedsRows();
  if (reply.leases.empty()) return std::nullopt;
  return Result::Done(std::move(reply));
}

GrantedLease Engine::Grant(QueueState* queue, JobRow* row, const LeaseCommand& command,
                           uint64_t request_hash, const Now& now) {
  const record::QueueSettings& settings = queue->record.settings();
  Note(*queue, JobEvent::kGranted);
  NoteTime(*queue, JobTime::kWait, now.broker_ms - row->state.ready_ms());
  record::JobState after = row->state;
  ClearOwner(&after);
  after.set_state(static_cast<int32_t>(JobState::kLeased));
  after.set_started(true);
  after.set_owner_token(++last_token_);
  after.set_worker(command.worker);
  after.set_lease_duration_ms(command.lease_ms);
  after.set_lease_request(request_hash);
  after.set_granted_ms(now.broker_ms);
  after.set_granted_wall_ms(now.wall_ms);
  const int64_t run_limit = RunLimitMs(row->record, settings);
  if (run_limit > 0) after.set_run_limit_at_ms(now.broker_ms + run_limit);
  Move(queue, row, std::move(after), now);
  leases_.Put(row->key,
              {row->state, now.broker_ms + command.lease_ms, request_hash, command.session});
  queue->counters.set_grants(queue->counters.grants() + 1);

  GrantedLease granted;
  granted.job = Snapshot(*queue, *row);
  granted.token = row->state.owner_token();
  granted.lease_ms = command.lease_ms;
  granted.run_limit_ms = run_limit;
  granted.max_attempts = MaxAttempts(row->record, row->state, settings);
  return granted;
}

std::vector<Engine::Found> Engine::LookForJobs(const LeaseCommand& command, const Now& now,
                                               Reads* reads, bool* claimed) {
  std::vector<Found> found;
  std::vector<std::pair<QueueState*, size_t>> claims;
  absl::flat_hash_set<const QueueState*> seen;  // a queue may be named twice
  const auto wanted = static_cast<size_t>(command.max_jobs);
  size_t planned = 0;
  int64_t bytes = 0;
  bool full = false;
  for (const std::string& name : command.queues) {
    if (planned == wanted || full) break;
    QueueState* queue = FindQueue(name);
    if (queue == nullptr || queue->record.paused() || !seen.insert(queue).second) continue;
    const auto ready = static_cast<size_t>(queue->counters.ready());
    *claimed = *claimed || queue->claims > 0;
    if (ready <= queue->claims) continue;
    size_t claim = std::min(wanted - planned, ready - queue->claims);
    std::vector<Candidate> candidates;
    if (!PeekReady(queue, queue->claims, claim, now, &candidates)) {
      reads->unknown = true;
    } else {
      claim = candidates.size();
    }
    planned += claim;
    claims.emplace_back(queue, claim);
    for (const Candidate& candidate : candidates) {
      Found next{queue, candidate, {}, false};
      const JobKey key{queue->id, candidate.place.sequence};
      next.readable = reads->Add(ReadJob(*queue, key, &next.row)) == Read::kFound;
      std::string payload;
      if (next.readable && next.row.record.payload_apart()) {
        next.readable = reads->Add(tables_.Payload(key, &payload)) == Read::kFound;
        next.row.record.set_payload(std::move(payload));
      }
      bytes += ReplyBytes(next.row.record);
      full = !found.empty() && bytes > command.max_reply_bytes;
      if (full) break;
      found.push_back(std::move(next));
    }
  }
  // The calls behind this one look past what it waits for.
  for (const auto& [queue, claim] : claims) {
    if (!reads->unknown) break;
    if (queue->claims == 0) claimed_.push_back(queue);
    queue->claims += claim;
  }
  return found;
}

Result Engine::Handle(const LeaseCommand& command, const Now& now) {
  const uint64_t hash = RequestHash(command);
  if (hash != 0) {
    if (auto repeated = RepeatLease(command, hash, now)) return *std::move(repeated);
  }
  if (draining_) {
    ErrorDetails details;
    details.reason = Reason::kDraining;
    details.retry_after_ms = kSecondMs;
    return Result::Refused(
        MakeError(std::move(details), "the broker is shutting down and grants no more leases"));
  }

  // Look first: whose rows are needed.
  Reads reads;
  bool claimed = false;
  std::vector<Found> found = LookForJobs(command, now, &reads, &claimed);
  if (reads.unknown) return Result::NeedsRows();
  // What there is may be left over by the calls that claim it.
  if (found.empty() && claimed) return Result::NeedsRows();
  absl::Status unreadable;
  for (const Found& next : found) {
    if (next.readable) continue;
    // It is said once, and the jobs behind it go on without it until the next start.
    next.queue->windows[next.at.priority].Erase(next.at.place);
    unreadable =
        JobUnreadable({next.queue->record.name(), storage::MakeJobId(next.at.place.sequence)});
  }
  if (!unreadable.ok()) return Result::Refused(unreadable);

  // Then take.
  LeaseReply reply;
  for (Found& next : found) {
    const record::JobRecord& record = next.row.record;
    const bool expired = !next.row.state.started() &&
                         ((record.has_expiry_ms() && record.expiry_ms() <= now.broker_ms) ||
                          (record.has_expiry_wall_ms() && record.expiry_wall_ms() <= now.wall_ms));
    if (expired) {
      End(next.queue, &next.row, next.row.state, EndReason::kExpired, "", now);
      continue;
    }
    if (!Allows(static_cast<JobState>(next.row.state.state()), Event::kGrant)) continue;
    reply.leases.push_back(Grant(next.queue, &next.row, command, hash, now));
  }
  if (!reply.leases.empty()) return Result::Done(std::move(reply));
  if (!found.empty()) return Result::Again();  // all of them had expired
  return command.wait_ms > 0 ? Result::Parked() : Result::Done(std::move(reply));
}

}  // namespace stint::engine
