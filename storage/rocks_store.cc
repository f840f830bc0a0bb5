#include "storage/rocks_store.h"

#include <rocksdb/db.h>
#include <rocksdb/experimental.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/epoch.h"
#include "storage/format.h"
#include "storage/group_mark.h"
#include "storage/keys.h"
#include "storage/log_scanner.h"
#include "storage/owner.h"
#include "storage/reserve.h"
#include "storage/rocks_database.h"
#include "storage/rocks_env.h"
#include "storage/rocks_families.h"
#include "storage/rocks_figures.h"
#include "storage/rocks_options.h"
#include "storage/rocks_probe.h"
#include "storage/store_folder.h"
#include "sync/mutex.h"

namespace stint::storage {
namespace {

// So many deletions while space is low are worth the work of getting their space back at once.
constexpr uint64_t kDeletionsWorthReclaiming = 1'000;
// Each round takes deletions at least one level down; a store has few levels.
constexpr int kReclaimRounds = 4;

rocksdb::Slice ToSlice(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }

std::string ToString(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

class Rocks : public Store {
 public:
  Rocks(const RocksOptions& options, std::unique_ptr<Owner> owner, uint64_t reserve_bytes)
      : options_(options),
        owner_(std::move(owner)),
        logger_(MakeRocksLogger(options.log)),
        reserve_(options.folder, reserve_bytes, options.disk_floor_bytes) {}

  ~Rocks() override { Close(); }

  absl::Status Start();

  absl::StatusOr<std::vector<std::optional<std::string>>> MultiGet(
      const std::vector<std::string>& keys) const override;
  absl::StatusOr<std::vector<Row>> Scan(absl::string_view from, absl::string_view to, size_t limit,
                                        Direction direction) const override;
  absl::StatusOr<Ticket> Commit(const Batch& batch, Epoch fence) override;
  absl::Status Sync(Ticket ticket) override;
  Epoch epoch() const override { return epoch_; }
  absl::Status Recover() override;
  Space CheckSpace() override;
  StoreFigures Figures() const override {
    return database_ == nullptr ? StoreFigures() : ReadFigures(*database_);
  }
  absl::string_view kind() const override { return "rocksdb"; }

 private:
  struct Pending {
    Ticket ticket;
    Database::Snapshot snapshot;
  };

  // Checks the folder, opens the database and makes its state the one that reads see.
  absl::Status Open();
  // What Open does before RocksDB may write. `cuts` stays empty for a fresh store.
  absl::StatusOr<LogScan> CheckBeforeOpen(const FolderState& folder) const;
  // What Open does with the database opened: stamp or check of it, comparison with the scan.
  absl::Status CheckAfterOpen(const LogScan& scan) const;
  absl::Status StampFreshStore() const;
  void Close();

  Database::Snapshot View() const;
  absl::Status ScanSegment(const Segment& segment, const rocksdb::Snapshot* view, size_t limit,
                           Direction direction, std::vector<Row>* rows) const;
  rocksdb::Status DeleteRange(absl::string_view from, absl::string_view to,
                              rocksdb::WriteBatch* write) const;
  // Puts what is in memory into tables, in the background.
  void Flush();
  // Has the space of what was deleted while space was low given back soon.
  void Reclaim();
  bool UpkeepStopped() const;
  void Log(LogLevel level, const std::string& line) const {
    if (options_.log) options_.log(level, line);
  }

  const RocksOptions options_;
  const std::unique_ptr<Owner> owner_;
  const std::shared_ptr<rocksdb::Logger> logger_;

  // Changed only while no other call is under way: by Open and Close.
  std::unique_ptr<Database> database_;
  Epoch epoch_ = 0;

  // Used by the committing thread alone.
  Reserve reserve_;
  bool low_ = false;
  // The folder was deleted or replaced while it was open; nothing written would be found again.
  bool gone_ = false;
  uint64_t keys_since_flush_ = 0;
  uint64_t deletions_while_low_ = 0;
  int reclaim_rounds_ = 0;

  mutable Mutex mutex_;
  // The state after the last synced commit; the states after each later one.
  Database::Snapshot view_ ABSL_GUARDED_BY(mutex_);
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  Ticket last_ticket_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::Status Rocks::Start() {
  absl::Status status = Open();
  if (status.code() == absl::StatusCode::kResourceExhausted) {
    Log(LogLevel::kWarning, "no space to open the store: the reserve is given up for it");
    reserve_.Release();
    status = Open();
  }
  if (!status.ok()) return status;
  low_ = reserve_.Check().low;
  return absl::OkStatus();
}

absl::Status Rocks::Open() {
  const absl::StatusOr<FolderState> folder = InspectFolder(options_.folder);
  if (!folder.ok()) return folder.status();
  if (!folder->has_store && !folder->foreign.empty()) {
    Log(LogLevel::kWarning,
        absl::StrCat("a new store is made in ", options_.folder, ", which holds other files (",
                     folder->foreign.front(), folder->foreign.size() > 1 ? ", ...)" : ")",
                     "; they are left alone. Is it the right folder?"));
  }
  const absl::StatusOr<LogScan> scan = CheckBeforeOpen(*folder);
  if (!scan.ok()) return scan.status();
  if (!scan->dropped_from.empty()) {
    Log(LogLevel::kWarning,
        absl::StrCat("dropped ", scan->dropped_bytes, " bytes (", scan->dropped_records,
                     " whole batches) of the log that were never acknowledged, from ",
                     scan->dropped_from, " on"));
  }
  LogCuts cuts;
  cuts.shown_bytes = scan->readable_bytes;
  const TableFiles tables = ListTables(options_.folder);
  absl::StatusOr<std::unique_ptr<Database>> database =
      Database::Open(options_, std::move(cuts), !folder->has_store, logger_);
  if (!database.ok()) {
    RemoveAbandonedTables(options_.folder, tables);
    return database.status();
  }
  database_ = *std::move(database);
  absl::Status status = CheckAfterOpen(*scan);
  if (status.ok() && !folder->has_marker) status = WriteMarker(options_.folder);
  if (!status.ok()) {
    Close();
    return status;
  }
  const MutexLock lock(mutex_);
  view_ = database_->TakeSnapshot();
  last_ticket_ = 0;
  keys_since_flush_ = 0;
  epoch_ = NextEpoch();
  return absl::OkStatus();
}

absl::StatusOr<LogScan> Rocks::CheckBeforeOpen(const FolderState& folder) const {
  if (!folder.has_store) return LogScan();
  const absl::StatusOr<TablesState> tables = ProbeTables(options_, logger_);
  if (!tables.ok()) return tables.status();
  if (tables->format_row) {
    if (absl::Status status = CheckFormat(*tables->format_row, options_.release); !status.ok()) {
      return status;
    }
  }
  absl::StatusOr<LogScan> scan = ScanLogs(options_.folder, tables->first_log, tables->group);
  // A store that was opened once always has a log, if only an empty one.
  if (scan.ok() && folder.has_marker && scan->readable_bytes.empty()) {
    return absl::DataLossError(absl::StrCat(
        "CORRUPT_RECORD: the newest log (a file NNNNNN.log, from number ", tables->first_log,
        " on) is missing from ", options_.folder,
        ", and with it the newest changes. Nothing was changed. Put the file back from a copy of "
        "the volume, or restore the newest checkpoint into the folder."));
  }
  return scan;
}

absl::Status Rocks::CheckAfterOpen(const LogScan& scan) const {
  rocksdb::ReadOptions options;
  const auto get =
      [this, &options](const std::string& key) -> absl::StatusOr<std::optional<std::string>> {
    std::string value;
    const rocksdb::Status status = database_->db()->Get(options, ToSlice(key), &value);
    if (status.IsNotFound()) return std::nullopt;
    if (!status.ok()) return FromRocks(status, "reading the opened store");
    return value;
  };
  const absl::StatusOr<std::optional<std::string>> group_row = get(MetaKey("group"));
  if (!group_row.ok()) return group_row.status();
  const absl::StatusOr<uint64_t> group = GroupInRow(*group_row);
  if (!group.ok()) return group.status();
  if (*group != scan.last_group) {
    return absl::DataLossError(absl::StrCat("CORRUPT_RECORD: the logs of the store in ",
                                            options_.folder, " reach to group ", scan.last_group,
                                            ", but after their replay it stands at group ", *group,
                                            ". Restore the newest checkpoint into the folder."));
  }
  const absl::StatusOr<std::optional<std::string>> format_row = get(FormatRowKey());
  if (!format_row.ok()) return format_row.status();
  if (*format_row) return CheckFormat(**format_row, options_.release);
  if (*group != 0) {
    return absl::DataLossError(absl::StrCat("CORRUPT_RECORD: the store in ", options_.folder,
                                            " holds groups but no format stamp. Restore the "
                                            "newest checkpoint into the folder."));
  }
  return StampFreshStore();
}

absl::Status Rocks::StampFreshStore() const {
  rocksdb::WriteOptions write;
  write.sync = true;
  rocksdb::Status status = database_->db()->Put(write, FormatRowKey(), FormatRow(options_.release));
  // Into a table, where a later open finds it without the logs.
  if (status.ok()) status = database_->db()->Flush(rocksdb::FlushOptions());
  return FromRocks(status, "stamping the fresh store");
}

void Rocks::Close() {
  {
    const MutexLock lock(mutex_);
    view_.reset();
    pending_.clear();
  }
  database_.reset();
}

Database::Snapshot Rocks::View() const {
  const MutexLock lock(mutex_);
  return view_;
}

absl::Status ClosedError() {
  return absl::UnavailableError("the store is closed: its recovery has not succeeded yet");
}

absl::StatusOr<std::vector<std::optional<std::string>>> Rocks::MultiGet(
    const std::vector<std::string>& keys) const {
  const Database::Snapshot view = View();
  if (view == nullptr) return ClosedError();
  rocksdb::ReadOptions options;
  options.snapshot = view.get();
  std::vector<rocksdb::ColumnFamilyHandle*> columns;
  std::vector<rocksdb::Slice> slices;
  columns.reserve(keys.size());
  slices.reserve(keys.size());
  for (const std::string& key : keys) {
    columns.push_back(database_->columns(ColumnFamilyOf(key)));
    slices.push_back(ToSlice(key));
  }
  std::vector<rocksdb::PinnableSlice> found(keys.size());
  std::vector<rocksdb::Status> statuses(keys.size());
  database_->db()->MultiGet(options, keys.size(), columns.data(), slices.data(), found.data(),
                            statuses.data());
  std::vector<std::optional<std::string>> values(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    if (statuses[i].IsNotFound()) continue;
    if (!statuses[i].ok()) return FromRocks(statuses[i], "reading rows");
    values[i] = ToString(found[i]);
  }
  return values;
}

absl::StatusOr<std::vector<Row>> Rocks::Scan(absl::string_view from, absl::string_view to,
                                             size_t limit, Direction direction) const {
  const Database::Snapshot view = View();
  if (view == nullptr) return ClosedError();
  std::vector<Segment> segments = SegmentsOf(from, to);
  if (direction == Direction::kBackward) std::reverse(segments.begin(), segments.end());
  std::vector<Row> rows;
  for (const Segment& segment : segments) {
    if (rows.size() >= limit) break;
    const absl::Status status = ScanSegment(segment, view.get(), limit, direction, &rows);
    if (!status.ok()) return status;
  }
  return rows;
}

absl::Status Rocks::ScanSegment(const Segment& segment, const rocksdb::Snapshot* view, size_t limit,
                                Direction direction, std::vector<Row>* rows) const {
  const rocksdb::Slice lower = ToSlice(segment.from);
  const rocksdb::Slice upper = ToSlice(segment.to);
  rocksdb::ReadOptions options;
  options.snapshot = view;
  options.iterate_lower_bound = &lower;
  options.iterate_upper_bound = &upper;
  const std::unique_ptr<rocksdb::Iterator> it(
      database_->db()->NewIterator(options, database_->columns(segment.columns)));
  const bool forward = direction == Direction::kForward;
  forward ? it->SeekToFirst() : it->SeekToLast();
  while (it->Valid() && rows->size() < limit) {
    rows->push_back({ToString(it->key()), ToString(it->value())});
    forward ? it->Next() : it->Prev();
  }
  return FromRocks(it->status(), "scanning rows");
}

absl::StatusOr<Ticket> Rocks::Commit(const Batch& batch, Epoch fence) {
  if (database_ == nullptr) return ClosedError();
  if (gone_) {
    return absl::InternalError(absl::StrCat("the data folder ", options_.folder,
                                            " was deleted or replaced while the broker ran"));
  }
  if (fence != epoch_) return WrongEpoch(fence, epoch_);
  rocksdb::WriteBatch write(batch.bytes() + 32 * batch.ops().size());
  rocksdb::Status status;
  // First in the batch: log_reader.h looks for it there.
  if (batch.mark().group != 0) status = write.PutLogData(EncodeGroupMark(batch.mark()));
  for (const Batch::Op& op : batch.ops()) {
    if (!status.ok()) break;
    rocksdb::ColumnFamilyHandle* columns = database_->columns(ColumnFamilyOf(op.key));
    switch (op.kind) {
      case Batch::Kind::kPut:
        status = write.Put(columns, op.key, op.value);
        break;
      case Batch::Kind::kDelete:
        status = write.Delete(columns, op.key);
        if (low_) ++deletions_while_low_;
        break;
      case Batch::Kind::kDeleteRange:
        status = DeleteRange(op.key, op.value, &write);
        if (low_) deletions_while_low_ += kDeletionsWorthReclaiming;
        break;
    }
  }
  rocksdb::WriteOptions options;
  options.sync = false;
  if (status.ok()) status = database_->db()->Write(options, &write);
  if (!status.ok()) return FromRocks(status, absl::StrCat("committing group ", batch.mark().group));
  keys_since_flush_ += batch.ops().size();
  Database::Snapshot snapshot = database_->TakeSnapshot();
  Ticket ticket = 0;
  {
    const MutexLock lock(mutex_);
    ticket = ++last_ticket_;
    pending_.push_back({ticket, std::move(snapshot)});
  }
  if (keys_since_flush_ >= options_.flush_after_keys) Flush();
  return ticket;
}

rocksdb::Status Rocks::DeleteRange(absl::string_view from, absl::string_view to,
                                   rocksdb::WriteBatch* write) const {
  for (Segment& segment : SegmentsOf(from, to)) {
    rocksdb::ColumnFamilyHandle* columns = database_->columns(segment.columns);
    rocksdb::Status status;
    if (HasFixedForm(segment.from)) {
      // A range must not begin with such a key (rocks_options.cc): delete the key alone and let
      // the range begin with the next possible one.
      status = write->Delete(columns, segment.from);
      segment.from.push_back('\0');
    }
    if (status.ok() && segment.from < segment.to) {
      status = write->DeleteRange(columns, segment.from, segment.to);
    }
    if (!status.ok()) return status;
  }
  return rocksdb::Status::OK();
}

absl::Status Rocks::Sync(Ticket ticket) {
  if (database_ == nullptr) return ClosedError();
  {
    const MutexLock lock(mutex_);
    if (ticket > last_ticket_) {
      return absl::InternalError(
          absl::StrCat("sync of commit ", ticket, ", but the last one is ", last_ticket_));
    }
  }
  if (const rocksdb::Status status = database_->db()->SyncWAL(); !status.ok()) {
    return FromRocks(status, absl::StrCat("syncing commit ", ticket));
  }
  // Given back without the lock: this takes RocksDB's own.
  std::vector<Database::Snapshot> passed;
  const MutexLock lock(mutex_);
  while (!pending_.empty() && pending_.front().ticket <= ticket) {
    passed.push_back(std::move(view_));
    view_ = std::move(pending_.front().snapshot);
    pending_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status Rocks::Recover() {
  reserve_.Release();
  low_ = true;
  // To open is to write tables of what is in the logs. While there is no room for them, what is
  // open stays open for reads.
  const absl::StatusOr<Volume> volume = ReadVolume(options_.folder);
  if (database_ != nullptr && volume.ok() && volume->free_bytes < LogBytes(options_.folder)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(volume->free_bytes, " bytes are free, too few to open the store again"));
  }
  Close();
  return Open();
}

Space Rocks::CheckSpace() {
  gone_ = gone_ || !owner_->StillInPlace();
  Space space = reserve_.Check();
  if (space.low && !low_) {
    Log(LogLevel::kWarning,
        absl::StrCat("space is low: ", space.free_bytes, " bytes are free in ", options_.folder,
                     ", the floor is ", reserve_.floor_bytes(),
                     "; the reserve is given up, and what adds jobs is refused"));
  } else if (!space.low && low_) {
    Log(LogLevel::kInfo, absl::StrCat("space has returned: ", space.free_bytes,
                                      " bytes are free, and the reserve stands again"));
  }
  low_ = space.low;
  if (database_ != nullptr) {
    Reclaim();
    space.stuck = reclaim_rounds_ > 0 && UpkeepStopped();
  }
  return space;
}

// A deletion is a row of its own until a compaction takes it to the level where the deleted row
// is, and none may be due for long. Nothing is begun without deletions, since a compaction needs
// space before it gives any back.
void Rocks::Reclaim() {
  if (deletions_while_low_ >= kDeletionsWorthReclaiming) {
    deletions_while_low_ = 0;
    reclaim_rounds_ = kReclaimRounds;
    Flush();
  }
  if (reclaim_rounds_ == 0 || UpkeepStopped()) return;
  for (const std::string& busy :
       {rocksdb::DB::Properties::kMemTableFlushPending, rocksdb::DB::Properties::kNumRunningFlushes,
        rocksdb::DB::Properties::kCompactionPending,
        rocksdb::DB::Properties::kNumRunningCompactions}) {
    uint64_t number = 0;
    if (database_->db()->GetIntProperty(database_->columns(kJobColumns), busy, &number) &&
        number > 0) {
      return;
    }
  }
  --reclaim_rounds_;
  const rocksdb::Status status = rocksdb::experimental::SuggestCompactRange(
      database_->db(), database_->columns(kJobColumns), nullptr, nullptr);
  if (!status.ok()) {
    Log(LogLevel::kWarning, absl::StrCat("compaction was not begun: ", status.ToString()));
  }
}

// After one that met a full disk, flushes and compactions rest until the disk has room for all of
// their input, as if nothing in it had been deleted. On a disk full of deleted rows that is never.
bool Rocks::UpkeepStopped() const {
  uint64_t errors = 0;
  return database_->db()->GetIntProperty(rocksdb::DB::Properties::kBackgroundErrors, &errors) &&
         errors > 0;
}

void Rocks::Flush() {
  keys_since_flush_ = 0;
  rocksdb::FlushOptions options;
  options.wait = false;
  options.allow_write_stall = true;
  const rocksdb::Status status = database_->db()->Flush(options, database_->all_columns());
  if (!status.ok()) {
    Log(LogLevel::kWarning, absl::StrCat("flush was not begun: ", status.ToString()));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> RocksStore::Open(const RocksOptions& options) {
  if (absl::Status status = MakeFolder(options.folder); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<Owner>> owner = Owner::Take(options.folder, options.start_time);
  if (!owner.ok()) return owner.status();
  const absl::StatusOr<Volume> volume = ReadVolume(options.folder);
  if (!volume.ok()) return volume.status();
  const uint64_t reserve_bytes = ReserveBytes(options.reserve_bytes, *volume);
  auto store = std::make_unique<Rocks>(FitToVolume(options, reserve_bytes), *std::move(owner),
                                       reserve_bytes);
  if (absl::Status status = store->Start(); !status.ok()) return status;
  return store;
}

}  // namespace stint::storage
