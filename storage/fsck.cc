#include "storage/fsck.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "storage/records.h"
#include "storage/tables.h"

namespace stint::storage {
namespace {

constexpr size_t kPageRows = 1000;
constexpr int kPriorities = 10;
// No row is larger, so that sums of sizes stay in range.
constexpr int64_t kMaxRowBytes = INT32_MAX;

bool IsRowSize(int64_t bytes) { return bytes >= 0 && bytes <= kMaxRowBytes; }

void CountJob(const record::JobRecord& record, const record::JobState& state,
              record::QueueCounters* c) {
  while (c->ready_by_priority_size() < kPriorities) c->add_ready_by_priority(0);
  const int64_t size = record.size_bytes();
  const int64_t ended_size = size + state.result_bytes();
  const int priority = std::clamp(state.priority(), 0, kPriorities - 1);
  switch (state.state()) {
    case kStateReady:
      c->set_ready(c->ready() + 1);
      c->set_ready_by_priority(priority, c->ready_by_priority(priority) + 1);
      break;
    case kStateDelayed:
      c->set_delayed(c->delayed() + 1);
      break;
    case kStateHeld:
      c->set_held(c->held() + 1);
      break;
    case kStateLeased:
      c->set_leased(c->leased() + 1);
      c->set_leased_bytes(c->leased_bytes() + size);
      break;
    case kStateCompleted:
      c->set_completed(c->completed() + 1);
      c->set_finished_bytes(c->finished_bytes() + ended_size);
      break;
    case kStateCancelled:
      c->set_cancelled(c->cancelled() + 1);
      c->set_finished_bytes(c->finished_bytes() + ended_size);
      break;
    default:
      c->set_dead(c->dead() + 1);
      c->set_dead_bytes(c->dead_bytes() + ended_size);
      break;
  }
  if (IsWaiting(state.state())) c->set_waiting_bytes(c->waiting_bytes() + size);
}

// The rows of one job, read together.
struct JobRows {
  JobKey key;
  std::optional<std::string> record, state, lease, payload, result;
};

class Walk {
 public:
  Walk(const Store& store, const FsckOptions& options) : store_(store), options_(options) {}

  absl::StatusOr<FsckReport> Run() {
    for (auto step : {&Walk::CheckMeta, &Walk::CheckQueues, &Walk::CheckJobs, &Walk::CheckOtherRows,
                      &Walk::CheckCounters}) {
      if (absl::Status s = (this->*step)(); !s.ok()) return s;
    }
    return std::move(report_);
  }

 private:
  template <typename Visit>
  absl::Status ForEachPage(std::string from, const std::string& end, Visit visit) {
    while (true) {
      auto rows = store_.Scan(from, end, kPageRows, Direction::kForward);
      if (!rows.ok()) return rows.status();
      if (rows->empty()) return absl::OkStatus();
      if (absl::Status s = visit(*rows); !s.ok()) return s;
      from = rows->back().key + '\0';
    }
  }
  template <typename Visit>
  absl::Status ForEachPage(Family family, Visit visit) {
    return ForEachPage(FamilyBegin(family), FamilyEnd(family), std::move(visit));
  }

  void Found(const std::string& key, std::string what) {
    ++report_.finding_count;
    if (report_.findings.size() < options_.max_findings) {
      report_.findings.push_back({absl::BytesToHexString(key), std::move(what)});
    }
  }
  void FoundJob(const JobKey& job, absl::string_view what) {
    Found(JobRowKey(Family::kJob, job),
          absl::StrCat(what, " (queue ", job.queue, ", sequence ", job.sequence, ")"));
  }
  const FsckReport::Queue* FindQueue(uint32_t id) const {
    const auto found = report_.queues.find(id);
    return found == report_.queues.end() ? nullptr : &found->second;
  }

  absl::Status CheckMeta() {
    auto rows = store_.MultiGet({MetaKey(kGroupRow)});
    if (!rows.ok()) return rows.status();
    if (rows->front().has_value() && !group_.ParseFromString(*rows->front())) {
      Found(MetaKey(kGroupRow), "the group row cannot be read");
    }
    return absl::OkStatus();
  }

  absl::Status CheckQueues();
  absl::Status CheckJobs();
  absl::StatusOr<std::vector<JobRows>> ReadJobs(const std::vector<JobKey>& keys);
  // The state that the rows give a job; nullopt: they give none, and it was noted if `note`.
  std::optional<record::JobState> StateOf(const JobRows& rows, const record::JobRecord& record,
                                          bool note);
  // Notes what is wrong within the job's own rows; true: its index rows have to be there.
  bool CheckJob(const JobRows& rows, const record::JobRecord& record,
                const record::JobState& state);
  absl::Status CheckIndexOf(const std::vector<std::pair<JobKey, Row>>& expected);
  absl::Status CheckOtherRows();
  void CheckRow(Family family, const Row& row, const JobRows& job);
  // The job that a row belongs to; nullopt: to none.
  static std::optional<JobKey> JobOf(Family family, const Row& row);
  absl::Status CheckCounters();

  const Store& store_;
  const FsckOptions& options_;
  FsckReport report_;
  record::GroupRecord group_;
};

absl::Status Walk::CheckQueues() {
  absl::Status read = ForEachPage(Family::kQueue, [this](const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      const auto id = ParseQueueKey(Family::kQueue, row.key);
      FsckReport::Queue queue;
      if (!id.has_value() || !queue.record.ParseFromString(row.value)) {
        Found(row.key, "a queue cannot be read");
        continue;
      }
      if (*id >= group_.next_queue()) Found(row.key, "a queue with an id never given");
      report_.queues.emplace(*id, std::move(queue));
    }
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  read = ForEachPage(Family::kCounters, [this](const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      const auto id = ParseQueueKey(Family::kCounters, row.key);
      const auto queue = id.has_value() ? report_.queues.find(*id) : report_.queues.end();
      if (queue == report_.queues.end()) {
        Found(row.key, "counters of no queue");
      } else if (!queue->second.kept.ParseFromString(row.value)) {
        Found(row.key, "the counters of a queue cannot be read");
      }
    }
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  size_t names = 0;
  read = ForEachPage(Family::kQueueName, [this, &names](const std::vector<Row>& rows) {
    for (const Row& row : rows) {
      uint64_t id = 0;
      const bool readable = DecodeNumber(row.value, &id);
      const auto* queue = readable ? FindQueue(static_cast<uint32_t>(id)) : nullptr;
      if (queue == nullptr || QueueNameKey(queue->record.name()) != row.key) {
        Found(row.key, "a queue's name does not lead to it");
      } else {
        ++names;
      }
    }
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  if (names != report_.queues.size()) {
    Found(FamilyBegin(Family::kQueueName), absl::StrCat(report_.queues.size(), " queues, of which ",
                                                        names, " can be found by name"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<JobRows>> Walk::ReadJobs(const std::vector<JobKey>& keys) {
  constexpr Family kFamilies[] = {Family::kJob, Family::kState, Family::kLease, Family::kPayload,
                                  Family::kResult};
  std::vector<std::string> wanted;
  for (const JobKey& key : keys) {
    for (const Family family : kFamilies) wanted.push_back(JobRowKey(family, key));
  }
  auto values = store_.MultiGet(wanted);
  if (!values.ok()) return values.status();
  std::vector<JobRows> jobs;
  auto next = values->begin();
  for (const JobKey& key : keys) {
    JobRows& job = jobs.emplace_back();
    job.key = key;
    for (auto* value : {&job.record, &job.state, &job.lease, &job.payload, &job.result}) {
      *value = std::move(*next++);
    }
  }
  return jobs;
}

std::optional<record::JobState> Walk::StateOf(const JobRows& rows, const record::JobRecord& record,
                                              bool note) {
  record::JobState state = FreshState(record, rows.key.sequence);
  absl::string_view wrong;
  if (rows.state.has_value() && rows.lease.has_value()) {
    wrong = "two states";
  } else if (rows.state.has_value() && !state.ParseFromString(*rows.state)) {
    wrong = "state cannot be read";
  } else if (rows.lease.has_value() && !state.ParseFromString(*rows.lease)) {
    wrong = "lease cannot be read";
  } else if (state.state() < kStateDelayed || state.state() > kStateDead) {
    wrong = "state is none that there is";
  } else {
    return state;
  }
  if (note) FoundJob(rows.key, wrong);
  return std::nullopt;
}

bool Walk::CheckJob(const JobRows& rows, const record::JobRecord& record,
                    const record::JobState& state) {
  const JobKey& job = rows.key;
  const FsckReport::Queue* queue = FindQueue(job.queue);
  if (queue == nullptr) {
    FoundJob(job, "job of no queue");
    return false;
  }
  if (job.sequence >= group_.next_sequence()) FoundJob(job, "sequence from the future");
  if (state.priority() < 0 || state.priority() >= kPriorities) {
    FoundJob(job, "priority is none that there is");
    return false;
  }
  if (!IsRowSize(record.size_bytes()) || !IsRowSize(state.result_bytes())) {
    FoundJob(job, "size is none that a row can have");
    return false;
  }
  const bool leased = state.state() == kStateLeased;
  if (rows.lease.has_value() != leased) FoundJob(job, "lease row and state disagree");
  if (record.payload_apart() != rows.payload.has_value()) {
    FoundJob(job, "payload row and record disagree");
  }
  if (state.has_result() != rows.result.has_value()) {
    FoundJob(job, "result row and state disagree");
  }
  if (IsPurged(state, queue->record)) return false;
  if (IsEnded(state.state()) && state.owner_token() != 0) {
    FoundJob(job, "ended job with an owner");
  }
  if (leased && state.owner_token() == 0) FoundJob(job, "lease without a token");
  if (state.owner_token() > group_.last_token()) FoundJob(job, "lease with a token never given");
  ++report_.jobs;
  report_.leases += leased ? 1 : 0;
  CountJob(record, state, &report_.queues[job.queue].counted);
  if (options_.on_job) options_.on_job(job, record, state);
  return true;
}

absl::Status Walk::CheckJobs() {
  return ForEachPage(Family::kJob, [this](const std::vector<Row>& page) -> absl::Status {
    std::vector<JobKey> keys;
    for (const Row& row : page) {
      const auto key = ParseJobRowKey(Family::kJob, row.key);
      if (key.has_value()) {
        keys.push_back(*key);
      } else {
        Found(row.key, "the key of a job cannot be read");
      }
    }
    auto jobs = ReadJobs(keys);
    if (!jobs.ok()) return jobs.status();
    std::vector<std::pair<JobKey, Row>> expected;
    for (const JobRows& job : *jobs) {
      record::JobRecord record;
      if (!job.record.has_value() || !record.ParseFromString(*job.record)) {
        FoundJob(job.key, "record cannot be read");
        continue;
      }
      const auto state = StateOf(job, record, true);
      if (!state.has_value()) continue;
      if (!record.job_id().empty()) {
        expected.emplace_back(
            job.key, Row{JobIdKey(job.key.queue, record.job_id()), EncodeNumber(job.key.sequence)});
      }
      if (!CheckJob(job, record, *state)) continue;
      for (Row& row : IndexRows(job.key, record, *state)) {
        expected.emplace_back(job.key, std::move(row));
      }
    }
    return CheckIndexOf(expected);
  });
}

absl::Status Walk::CheckIndexOf(const std::vector<std::pair<JobKey, Row>>& expected) {
  std::vector<std::string> keys;
  for (const auto& [job, row] : expected) keys.push_back(row.key);
  auto values = store_.MultiGet(keys);
  if (!values.ok()) return values.status();
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& [job, row] = expected[i];
    const std::optional<std::string>& value = (*values)[i];
    if (value.has_value() && *value == row.value) continue;
    const bool own_id = FamilyOf(row.key) == Family::kJobId;
    FoundJob(job, own_id              ? "own id does not lead to the job"
                  : value.has_value() ? "index row differs"
                                      : "index row is missing");
  }
  return absl::OkStatus();
}

std::optional<JobKey> Walk::JobOf(Family family, const Row& row) {
  record::IndexEntry entry;
  switch (family) {
    case Family::kPayload:
    case Family::kState:
    case Family::kLease:
    case Family::kResult:
      return ParseJobRowKey(family, row.key);
    case Family::kJobId: {
      JobKey job;
      const auto queue = ParseQueueKey(family, row.key.substr(0, FamilyBegin(family).size() + 4));
      if (!queue.has_value() || !DecodeNumber(row.value, &job.sequence)) return std::nullopt;
      job.queue = *queue;
      return job;
    }
    case Family::kReady: {
      const auto key = ParseReadyRowKey(row.key);
      if (!key.has_value()) return std::nullopt;
      return JobKey{key->queue, key->sequence};
    }
    case Family::kEnded: {
      const auto key = ParseEndedRowKey(row.key);
      if (!key.has_value()) return std::nullopt;
      return JobKey{key->queue, key->sequence};
    }
    case Family::kDue:
    case Family::kDueWall: {
      const auto key = ParseDueRowKey(family, row.key);
      if (!key.has_value() || !entry.ParseFromString(row.value)) return std::nullopt;
      return JobKey{entry.queue(), key->sequence};
    }
    case Family::kExpiry:
    case Family::kExpiryWall: {
      const auto key = ParseExpiryRowKey(family, row.key);
      if (!key.has_value() || !entry.ParseFromString(row.value)) return std::nullopt;
      return JobKey{entry.queue(), key->sequence};
    }
    default:
      return std::nullopt;
  }
}

// Rows that belong to a job: it has to be there and to call for them. That they are complete was
// seen from the job's side.
void Walk::CheckRow(Family family, const Row& row, const JobRows& job) {
  const bool time_index = family == Family::kDue || family == Family::kDueWall ||
                          family == Family::kExpiry || family == Family::kExpiryWall;
  record::JobRecord record;
  if (!job.record.has_value()) {
    // A deleted queue leaves these behind until their time.
    if (time_index && FindQueue(job.key.queue) == nullptr) return;
    Found(row.key, absl::StrCat("row of no job (queue ", job.key.queue, ", sequence ",
                                job.key.sequence, ")"));
    return;
  }
  // What follows was noted with the job.
  if (!record.ParseFromString(*job.record) || FindQueue(job.key.queue) == nullptr) return;
  if (family == Family::kJobId) {
    if (JobIdKey(job.key.queue, record.job_id()) != row.key) {
      Found(row.key, "an own id leads to a job with another one");
    }
    return;
  }
  if (family == Family::kPayload || family == Family::kState || family == Family::kLease ||
      family == Family::kResult) {
    return;
  }
  const auto state = StateOf(job, record, false);
  if (!state.has_value() || IsPurged(*state, FindQueue(job.key.queue)->record)) return;
  const std::vector<Row> own = IndexRows(job.key, record, *state);
  if (std::none_of(own.begin(), own.end(), [&](const Row& r) { return r.key == row.key; })) {
    Found(row.key, absl::StrCat("index row that the job does not call for (queue ", job.key.queue,
                                ", sequence ", job.key.sequence, ")"));
  }
}

absl::Status Walk::CheckOtherRows() {
  const std::string begin(1, static_cast<char>(kShard));
  const std::string end(1, static_cast<char>(kShard + 1));
  return ForEachPage(begin, end, [this](const std::vector<Row>& page) -> absl::Status {
    report_.rows += page.size();
    std::vector<const Row*> rows;
    std::vector<JobKey> keys;
    for (const Row& row : page) {
      const auto family = FamilyOf(row.key);
      if (!family.has_value()) {
        Found(row.key, "a key of no known kind");
        continue;
      }
      switch (*family) {
        case Family::kMeta:
        case Family::kQueue:
        case Family::kQueueName:
        case Family::kCounters:
        case Family::kJob:
          continue;  // seen before
        case Family::kRequest:
          if (record::RequestRecord request;
              !ParseBucket(*family, row.key).has_value() || !request.ParseFromString(row.value)) {
            Found(row.key, "a kept answer cannot be read");
          }
          continue;
        case Family::kRemovedSettles:
          if (record::RemovedSettles removed;
              !ParseBucket(*family, row.key).has_value() || !removed.ParseFromString(row.value)) {
            Found(row.key, "the settles of removed jobs cannot be read");
          }
          continue;
        default:
          break;
      }
      const auto job = JobOf(*family, row);
      if (!job.has_value()) {
        Found(row.key, "a row that does not say whose it is");
        continue;
      }
      rows.push_back(&row);
      keys.push_back(*job);
    }
    auto jobs = ReadJobs(keys);
    if (!jobs.ok()) return jobs.status();
    for (size_t i = 0; i < rows.size(); ++i) {
      CheckRow(*FamilyOf(rows[i]->key), *rows[i], (*jobs)[i]);
    }
    return absl::OkStatus();
  });
}

absl::Status Walk::CheckCounters() {
  for (const auto& [id, queue] : report_.queues) {
    const std::string difference = CountersDiffer(queue.kept, queue.counted);
    if (difference.empty()) continue;
    Found(CountersKey(id), absl::StrCat("queue ", queue.record.name(), ": ", difference));
  }
  return absl::OkStatus();
}

}  // namespace

std::string CountersDiffer(const record::QueueCounters& kept,
                           const record::QueueCounters& counted) {
  const auto* descriptor = record::QueueCounters::descriptor();
  const auto* reflection = kept.GetReflection();
  for (int i = 0; i < descriptor->field_count(); ++i) {
    const auto* field = descriptor->field(i);
    if (field->is_repeated() || field->name() == "grants") continue;
    const int64_t a = reflection->GetInt64(kept, field);
    const int64_t b = reflection->GetInt64(counted, field);
    if (a != b) return absl::StrCat(field->name(), " is kept as ", a, " and counts ", b);
  }
  for (int p = 0; p < kPriorities; ++p) {
    const int64_t a = p < kept.ready_by_priority_size() ? kept.ready_by_priority(p) : 0;
    const int64_t b = p < counted.ready_by_priority_size() ? counted.ready_by_priority(p) : 0;
    if (a != b) return absl::StrCat("ready in priority ", p, " is kept as ", a, " and counts ", b);
  }
  return "";
}

absl::StatusOr<FsckReport> Fsck(const Store& store, const FsckOptions& options) {
  return Walk(store, options).Run();
}

}  // namespace stint::storage
