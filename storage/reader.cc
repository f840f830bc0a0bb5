#include "storage/reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/job_id.h"
#include "storage/records.h"
#include "storage/tables.h"

namespace stint::storage {
namespace {

absl::Status Corrupt(absl::string_view what, absl::string_view name) {
  return absl::DataLossError(
      absl::StrCat("CORRUPT_RECORD: the ", what, " of ", name, " cannot be read"));
}

template <typename Message>
bool Parse(const std::string& value, Message* message) {
  return message->ParseFromArray(value.data(), static_cast<int>(value.size()));
}

std::string NameOf(const StoredQueue& queue, absl::string_view job_id) {
  return absl::StrCat("queues/", queue.record.name(), "/jobs/", job_id);
}

// Fills in a job from its record row and its two possible state rows.
absl::Status Assemble(const StoredQueue& queue, const JobKey& key, const std::string& record,
                      const std::optional<std::string>& state,
                      const std::optional<std::string>& lease, StoredJob* job) {
  job->key = key;
  job->job_id = MakeJobId(key.sequence);
  if (!Parse(record, &job->record)) return Corrupt("record", NameOf(queue, job->job_id));
  if (!job->record.job_id().empty()) job->job_id = job->record.job_id();
  const std::optional<std::string>& row = lease.has_value() ? lease : state;
  if (!row.has_value()) {
    job->state = FreshState(job->record, key.sequence);
  } else if (!Parse(*row, &job->state)) {
    return Corrupt("state", NameOf(queue, job->job_id));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::optional<StoredQueue>> Reader::FindQueue(absl::string_view name) const {
  auto id = store_->MultiGet({QueueNameKey(name)});
  if (!id.ok()) return id.status();
  if (!id->front().has_value()) return std::optional<StoredQueue>();
  uint64_t number = 0;
  if (!DecodeNumber(*id->front(), &number)) return Corrupt("id", name);
  StoredQueue queue;
  queue.id = static_cast<uint32_t>(number);
  auto rows = store_->MultiGet({QueueKey(queue.id), CountersKey(queue.id)});
  if (!rows.ok()) return rows.status();
  // Deleted between the two reads.
  if (!(*rows)[0].has_value()) return std::optional<StoredQueue>();
  if (!Parse(*(*rows)[0], &queue.record)) return Corrupt("record", name);
  if ((*rows)[1].has_value() && !Parse(*(*rows)[1], &queue.counters)) {
    return Corrupt("counters", name);
  }
  return std::optional<StoredQueue>(std::move(queue));
}

absl::StatusOr<std::optional<StoredJob>> Reader::FindJob(const StoredQueue& queue,
                                                         absl::string_view job_id,
                                                         bool with_payload) const {
  JobKey key{queue.id, 0};
  if (const auto sequence = SequenceOfJobId(job_id)) {
    key.sequence = *sequence;
  } else {
    auto row = store_->MultiGet({JobIdKey(queue.id, job_id)});
    if (!row.ok()) return row.status();
    if (!row->front().has_value()) return std::optional<StoredJob>();
    if (!DecodeNumber(*row->front(), &key.sequence)) return Corrupt("sequence", job_id);
  }
  std::vector<std::string> keys = {JobRowKey(Family::kJob, key), JobRowKey(Family::kState, key),
                                   JobRowKey(Family::kLease, key)};
  if (with_payload) {
    keys.push_back(JobRowKey(Family::kPayload, key));
    keys.push_back(JobRowKey(Family::kResult, key));
  }
  auto rows = store_->MultiGet(keys);
  if (!rows.ok()) return rows.status();
  if (!(*rows)[0].has_value()) return std::optional<StoredJob>();
  StoredJob job;
  if (absl::Status s = Assemble(queue, key, *(*rows)[0], (*rows)[1], (*rows)[2], &job); !s.ok()) {
    return s;
  }
  // An id of the broker's form names only a job that has no id of its own.
  if (job.job_id != job_id || IsPurged(job.state, queue.record)) {
    return std::optional<StoredJob>();
  }
  if (with_payload) {
    if ((*rows)[3].has_value()) job.record.set_payload(std::move(*(*rows)[3]));
    if ((*rows)[4].has_value()) job.result = std::move(*(*rows)[4]);
  }
  return std::optional<StoredJob>(std::move(job));
}

absl::StatusOr<uint64_t> Reader::LastChange() const {
  auto row = store_->MultiGet({MetaKey(kGroupRow)});
  if (!row.ok()) return row.status();
  if (!row->front().has_value()) return uint64_t{0};
  record::GroupRecord group;
  if (!Parse(*row->front(), &group)) return Corrupt("row", "the last group");
  return group.next_sequence() - std::min<uint64_t>(group.next_sequence(), 1);
}

absl::StatusOr<JobPage> Reader::ListJobs(
    const StoredQueue& queue, uint64_t from, size_t limit, size_t max_examined, bool with_payload,
    const std::function<bool(const StoredJob&)>& matches) const {
  constexpr size_t kStep = 256;
  JobPage page;
  const std::string end = QueueRangeEnd(Family::kJob, queue.id);
  std::string next = JobRowKey(Family::kJob, {queue.id, from});
  size_t examined = 0;
  while (true) {
    auto records = store_->Scan(next, end, kStep, Direction::kForward);
    if (!records.ok()) return records.status();
    std::vector<std::string> keys;
    std::vector<JobKey> jobs;
    for (const Row& row : *records) {
      const auto key = ParseJobRowKey(Family::kJob, row.key);
      if (!key.has_value()) return Corrupt("key of a job", queue.record.name());
      jobs.push_back(*key);
      // The record again, so that all rows of a job are of one moment.
      keys.push_back(JobRowKey(Family::kJob, *key));
      keys.push_back(JobRowKey(Family::kState, *key));
      keys.push_back(JobRowKey(Family::kLease, *key));
    }
    auto rows = store_->MultiGet(keys);
    if (!rows.ok()) return rows.status();
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (page.jobs.size() == limit || examined == max_examined) {
        page.next_sequence = jobs[i].sequence;
        return page;
      }
      ++examined;
      const auto* row = &(*rows)[3 * i];
      if (!row[0].has_value()) continue;
      StoredJob job;
      if (absl::Status s = Assemble(queue, jobs[i], *row[0], row[1], row[2], &job); !s.ok()) {
        return s;
      }
      if (IsPurged(job.state, queue.record) || !matches(job)) continue;
      if (with_payload) {
        auto bodies = store_->MultiGet(
            {JobRowKey(Family::kPayload, job.key), JobRowKey(Family::kResult, job.key)});
        if (!bodies.ok()) return bodies.status();
        if ((*bodies)[0].has_value()) job.record.set_payload(std::move(*(*bodies)[0]));
        if ((*bodies)[1].has_value()) job.result = std::move(*(*bodies)[1]);
      }
      page.jobs.push_back(std::move(job));
    }
    if (records->size() < kStep) return page;
    next = records->back().key + '\0';
  }
}

absl::StatusOr<QueuePage> Reader::ListQueues(absl::string_view prefix, absl::string_view after,
                                             size_t limit) const {
  QueuePage page;
  const std::string begin = after < prefix ? QueueNameKey(prefix) : QueueNameKey(after) + '\0';
  auto names = store_->Scan(begin, FamilyEnd(Family::kQueueName), limit + 1, Direction::kForward);
  if (!names.ok()) return names.status();
  const std::string prefix_key = QueueNameKey(prefix);
  for (const Row& row : *names) {
    if (row.key.compare(0, prefix_key.size(), prefix_key) != 0) break;
    const std::string name = row.key.substr(QueueNameKey("").size());
    if (page.queues.size() == limit) {
      page.next_name = page.queues.back().record.name();
      break;
    }
    auto queue = FindQueue(name);
    if (!queue.ok()) return queue.status();
    if (queue->has_value()) page.queues.push_back(std::move(**queue));
  }
  return page;
}

}  // namespace stint::storage
