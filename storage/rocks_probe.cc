#include "storage/rocks_probe.h"

#include <rocksdb/cache.h>
#include <rocksdb/db.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "storage/format.h"
#include "storage/keys.h"
#include "storage/record.pb.h"
#include "storage/rocks_env.h"
#include "storage/rocks_families.h"
#include "storage/rocks_options.h"

namespace stint::storage {
namespace {

constexpr size_t kProbeCacheBytes = 1 << 20;

absl::Status WithRemedy(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kDataLoss) return status;
  return absl::DataLossError(absl::StrCat(
      status.message(),
      ". Nothing was changed. Put the missing or damaged file back from a copy of the volume, or "
      "restore the newest checkpoint into the folder."));
}

absl::StatusOr<std::optional<std::string>> Get(rocksdb::DB* db, const std::string& key) {
  std::string value;
  const rocksdb::Status status = db->Get(rocksdb::ReadOptions(), key, &value);
  if (status.IsNotFound()) return std::nullopt;
  if (!status.ok()) return FromRocks(status, "reading the store before opening it");
  return value;
}

absl::StatusOr<TablesState> ReadState(rocksdb::DB* db) {
  TablesState state;
  if (!db->GetIntProperty(rocksdb::DB::Properties::kMinLogNumberToKeep, &state.first_log)) {
    return absl::InternalError("the store does not say which of its logs are live");
  }
  const absl::StatusOr<std::optional<std::string>> group = Get(db, MetaKey("group"));
  if (!group.ok()) return group.status();
  const absl::StatusOr<uint64_t> number = GroupInRow(*group);
  if (!number.ok()) return number.status();
  state.group = *number;
  absl::StatusOr<std::optional<std::string>> format = Get(db, FormatRowKey());
  if (!format.ok()) return format.status();
  state.format_row = *std::move(format);
  return state;
}

}  // namespace

absl::StatusOr<uint64_t> GroupInRow(const std::optional<std::string>& row) {
  if (!row) return 0;
  record::GroupRecord record;
  if (!record.ParseFromString(*row)) {
    return absl::DataLossError("CORRUPT_RECORD: the row of the last group is no record");
  }
  return record.group();
}

absl::StatusOr<TablesState> ProbeTables(const RocksOptions& options,
                                        const std::shared_ptr<rocksdb::Logger>& logger) {
  LogCuts no_logs;
  no_logs.other_shown_bytes = 0;
  const std::unique_ptr<rocksdb::Env> env = MakeLogCutEnv(std::move(no_logs));
  const rocksdb::DBOptions db_options = MakeDbOptions(options, env.get(), logger);
  const std::string doing = absl::StrCat("checking the store in ", options.folder);
  // All that are there: some may be missing when the first start was killed, and a newer release
  // may have made more.
  std::vector<std::string> names;
  rocksdb::Status status = rocksdb::DB::ListColumnFamilies(db_options, options.folder, &names);
  if (!status.ok()) return WithRemedy(FromRocks(status, doing));
  const rocksdb::ColumnFamilyOptions columns_options =
      MakeColumnFamilies(options, rocksdb::NewLRUCache(kProbeCacheBytes))[kDefaultColumns].options;
  std::vector<rocksdb::ColumnFamilyDescriptor> columns;
  for (const std::string& name : names) columns.emplace_back(name, columns_options);
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  status = rocksdb::DB::OpenForReadOnly(db_options, options.folder, columns, &handles, &opened);
  if (!status.ok()) return WithRemedy(FromRocks(status, doing));
  const std::unique_ptr<rocksdb::DB> db(opened);
  const absl::StatusOr<TablesState> state = ReadState(db.get());
  for (rocksdb::ColumnFamilyHandle* handle : handles) db->DestroyColumnFamilyHandle(handle);
  if (!state.ok()) return WithRemedy(state.status());
  return state;
}

}  // namespace stint::storage
