#include "storage/tables.h"

#include <utility>
#include <vector>

#include "storage/records.h"

namespace stint::storage {
namespace {

template <typename Message>
Read ReadMessage(RowView* rows, const std::string& key, Message* message) {
  const RowView::Lookup found = rows->Get(key);
  if (!found.known) return Read::kUnknown;
  if (!found.value.has_value()) return Read::kAbsent;
  return message->ParseFromArray(found.value->data(), static_cast<int>(found.value->size()))
             ? Read::kFound
             : Read::kCorrupt;
}

Read ReadBytes(RowView* rows, const std::string& key, std::string* bytes) {
  const RowView::Lookup found = rows->Get(key);
  if (!found.known) return Read::kUnknown;
  if (!found.value.has_value()) return Read::kAbsent;
  bytes->assign(found.value->data(), found.value->size());
  return Read::kFound;
}

}  // namespace

std::string EncodeNumber(uint64_t number) {
  std::string value;
  for (int shift = 56; shift >= 0; shift -= 8) {
    value.push_back(static_cast<char>(static_cast<uint8_t>(number >> shift)));
  }
  return value;
}

bool DecodeNumber(absl::string_view value, uint64_t* number) {
  if (value.size() != 8) return false;
  *number = 0;
  for (const char c : value) *number = *number << 8 | static_cast<uint8_t>(c);
  return true;
}

Read Tables::JobRecord(const JobKey& job, record::JobRecord* record) {
  return ReadMessage(rows_, JobRowKey(Family::kJob, job), record);
}

Read Tables::JobState(const JobKey& job, record::JobState* state) {
  return ReadMessage(rows_, JobRowKey(Family::kState, job), state);
}

Read Tables::Payload(const JobKey& job, std::string* payload) {
  return ReadBytes(rows_, JobRowKey(Family::kPayload, job), payload);
}

Read Tables::Result(const JobKey& job, std::string* result) {
  return ReadBytes(rows_, JobRowKey(Family::kResult, job), result);
}

Read Tables::Sequence(uint32_t queue, absl::string_view job_id, uint64_t* sequence) {
  const RowView::Lookup found = rows_->Get(JobIdKey(queue, job_id));
  if (!found.known) return Read::kUnknown;
  if (!found.value.has_value()) return Read::kAbsent;
  return DecodeNumber(*found.value, sequence) ? Read::kFound : Read::kCorrupt;
}

Read Tables::Request(uint32_t bucket, absl::string_view hash, record::RequestRecord* request) {
  return ReadMessage(rows_, RequestRowKey(bucket, hash), request);
}

void Tables::InsertJob(const JobKey& job, record::JobRecord* record, std::string payload,
                       const record::JobState& state) {
  if (payload.size() > kInlinePayloadBytes) {
    record->set_payload_apart(true);
    rows_->Put(JobRowKey(Family::kPayload, job), payload);
  } else {
    record->set_payload(std::move(payload));
  }
  rows_->Put(JobRowKey(Family::kJob, job), record->SerializeAsString());
  if (!record->job_id().empty()) {
    rows_->Put(JobIdKey(job.queue, record->job_id()), EncodeNumber(job.sequence));
  }
  if (const auto family = StateFamily(state, job.sequence)) {
    rows_->Put(JobRowKey(*family, job), state.SerializeAsString());
  }
  for (const Row& row : IndexRows(job, *record, state)) rows_->Put(row.key, row.value);
}

void Tables::ChangeJob(const JobKey& job, const record::JobRecord& record,
                       const record::JobState& before, const record::JobState& after) {
  const auto family_before = StateFamily(before, job.sequence);
  const auto family_after = StateFamily(after, job.sequence);
  if (family_before.has_value() && family_before != family_after) {
    rows_->Delete(JobRowKey(*family_before, job));
  }
  if (family_after.has_value()) {
    rows_->Put(JobRowKey(*family_after, job), after.SerializeAsString());
  }
  const std::vector<Row> index_before = IndexRows(job, record, before);
  const std::vector<Row> index_after = IndexRows(job, record, after);
  const auto find = [](const std::vector<Row>& rows, const std::string& key) -> const Row* {
    for (const Row& row : rows) {
      if (row.key == key) return &row;
    }
    return nullptr;
  };
  for (const Row& row : index_before) {
    if (find(index_after, row.key) == nullptr) rows_->Delete(row.key);
  }
  for (const Row& row : index_after) {
    const Row* old = find(index_before, row.key);
    if (old == nullptr || old->value != row.value) rows_->Put(row.key, row.value);
  }
}

void Tables::PutResult(const JobKey& job, absl::string_view result) {
  rows_->Put(JobRowKey(Family::kResult, job), result);
}

void Tables::DeleteResult(const JobKey& job) { rows_->Delete(JobRowKey(Family::kResult, job)); }

void Tables::DropJobRows(const JobKey& job) {
  for (const Family family : {Family::kJob, Family::kPayload, Family::kState, Family::kResult}) {
    rows_->Delete(JobRowKey(family, job));
  }
}

void Tables::RemoveJob(const JobKey& job, const record::JobRecord& record,
                       const record::JobState& state) {
  rows_->Delete(JobRowKey(Family::kJob, job));
  if (record.payload_apart()) rows_->Delete(JobRowKey(Family::kPayload, job));
  if (state.has_result()) DeleteResult(job);
  if (!record.job_id().empty()) rows_->Delete(JobIdKey(job.queue, record.job_id()));
  if (const auto family = StateFamily(state, job.sequence)) {
    rows_->Delete(JobRowKey(*family, job));
  }
  for (const Row& row : IndexRows(job, record, state)) rows_->Delete(row.key);
}

void Tables::PutQueue(uint32_t queue, const record::QueueRecord& record) {
  rows_->Put(QueueKey(queue), record.SerializeAsString());
}

void Tables::PutCounters(uint32_t queue, const record::QueueCounters& counters) {
  rows_->Put(CountersKey(queue), counters.SerializeAsString());
}

void Tables::PutQueueName(absl::string_view name, uint32_t queue) {
  rows_->Put(QueueNameKey(name), EncodeNumber(queue));
}

void Tables::RemoveQueue(uint32_t queue, absl::string_view name) {
  rows_->Delete(QueueNameKey(name));
  rows_->Delete(QueueKey(queue));
  rows_->Delete(CountersKey(queue));
  for (const Family family : {Family::kJob, Family::kPayload, Family::kState, Family::kLease,
                              Family::kResult, Family::kJobId, Family::kReady, Family::kEnded}) {
    rows_->DeleteRange(QueueRangeBegin(family, queue), QueueRangeEnd(family, queue));
  }
}

void Tables::DropLease(const JobKey& job) { rows_->Delete(JobRowKey(Family::kLease, job)); }

void Tables::DropIndexRow(absl::string_view key) { rows_->Delete(key); }

void Tables::ClearReady(uint32_t queue) {
  rows_->DeleteRange(QueueRangeBegin(Family::kReady, queue), QueueRangeEnd(Family::kReady, queue));
}

void Tables::PutRequest(uint32_t bucket, absl::string_view hash,
                        const record::RequestRecord& request) {
  rows_->Put(RequestRowKey(bucket, hash), request.SerializeAsString());
}

void Tables::PutRemovedSettles(uint32_t bucket, uint64_t group,
                               const record::RemovedSettles& removed) {
  rows_->Put(RemovedSettlesKey(bucket, group), removed.SerializeAsString());
}

void Tables::DropBucket(Family family, uint32_t bucket) {
  rows_->DeleteRange(BucketRangeBegin(family, bucket), QueueRangeEnd(family, bucket));
}

void Tables::PutGroup(const record::GroupRecord& group) {
  rows_->Put(MetaKey(kGroupRow), group.SerializeAsString());
}

}  // namespace stint::storage
