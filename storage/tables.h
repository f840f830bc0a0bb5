// Typed rows over a RowView. Job rows and their index rows change together, here and nowhere
// else: the changes are computed from the job before and after. FORMAT.md says what is kept
// where. Used by one thread.
#ifndef STINT_STORAGE_TABLES_H_
#define STINT_STORAGE_TABLES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "storage/keys.h"
#include "storage/record.pb.h"
#include "storage/row_view.h"

namespace stint::storage {

// What a read came to.
enum class Read {
  kUnknown,  // has to be fetched first; the view has noted it
  kAbsent,
  kFound,
  kCorrupt  // there is a value, and it is not what it should be
};

class Tables {
 public:
  explicit Tables(RowView* rows) : rows_(rows) {}

  // The record, without a payload that is kept apart.
  Read JobRecord(const JobKey& job, record::JobRecord* record);
  // The state of a job that is not leased and has a record; kAbsent: it is fresh.
  Read JobState(const JobKey& job, record::JobState* state);
  Read Payload(const JobKey& job, std::string* payload);
  Read Result(const JobKey& job, std::string* result);
  // The sequence behind a caller's own job id.
  Read Sequence(uint32_t queue, absl::string_view job_id, uint64_t* sequence);
  Read Request(uint32_t bucket, absl::string_view hash, record::RequestRecord* request);

  // Adds a job. `payload` is kept where its size says; `record` is completed accordingly.
  void InsertJob(const JobKey& job, record::JobRecord* record, std::string payload,
                 const record::JobState& state);
  // Moves a job from one state to another.
  void ChangeJob(const JobKey& job, const record::JobRecord& record, const record::JobState& before,
                 const record::JobState& after);
  void PutResult(const JobKey& job, absl::string_view result);
  void DeleteResult(const JobKey& job);
  // Removes the rows of a job that cannot be read, as far as its key alone tells them.
  void DropJobRows(const JobKey& job);
  // Removes every row of a job.
  void RemoveJob(const JobKey& job, const record::JobRecord& record, const record::JobState& state);

  void PutQueue(uint32_t queue, const record::QueueRecord& record);
  void PutCounters(uint32_t queue, const record::QueueCounters& counters);
  // Adds the name of a new queue.
  void PutQueueName(absl::string_view name, uint32_t queue);
  // Removes a queue and everything whose key begins with it. Rows of its jobs in the due and
  // expiry indexes stay until their time and name a queue that is no more.
  void RemoveQueue(uint32_t queue, absl::string_view name);
  // Removes the lease row of a job whose lease a purge takes away; see FORMAT.md, purge.
  void DropLease(const JobKey& job);
  // Removes an index row whose job is no more.
  void DropIndexRow(absl::string_view key);
  // Removes all ready rows of a queue.
  void ClearReady(uint32_t queue);

  void PutRequest(uint32_t bucket, absl::string_view hash, const record::RequestRecord& request);
  void PutRemovedSettles(uint32_t bucket, uint64_t group, const record::RemovedSettles& removed);
  // Removes all rows of a time bucket.
  void DropBucket(Family family, uint32_t bucket);
  void PutGroup(const record::GroupRecord& group);

  RowView& rows() { return *rows_; }
  bool HasWrites() const { return rows_->HasWrites(); }

 private:
  RowView* rows_;
};

// Names of the rows in Family::kMeta.
inline constexpr absl::string_view kGroupRow = "group";
inline constexpr absl::string_view kFormatRow = "format";

// The number in row kQueueName or kJobId.
std::string EncodeNumber(uint64_t number);
bool DecodeNumber(absl::string_view value, uint64_t* number);

}  // namespace stint::storage

#endif  // STINT_STORAGE_TABLES_H_
