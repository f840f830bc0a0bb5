#include "storage/rocks_database.h"

#include <rocksdb/cache.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "storage/rocks_options.h"

namespace stint::storage {

absl::StatusOr<std::unique_ptr<Database>> Database::Open(
    const RocksOptions& options, LogCuts cuts, bool create,
    const std::shared_ptr<rocksdb::Logger>& logger) {
  auto database = std::unique_ptr<Database>(new Database(MakeLogCutEnv(std::move(cuts))));
  rocksdb::DBOptions db_options = MakeDbOptions(options, database->env_.get(), logger);
  db_options.create_if_missing = create;
  // A start that was killed may have made some of them.
  db_options.create_missing_column_families = true;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::Open(
      db_options, options.folder,
      MakeColumnFamilies(options, rocksdb::NewLRUCache(options.block_cache_bytes)),
      &database->handles_, &opened);
  database->db_.reset(opened);
  if (!status.ok()) {
    return FromRocks(status, absl::StrCat("opening the store in ", options.folder));
  }
  return database;
}

Database::~Database() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* handle : handles_) {
    db_->DestroyColumnFamilyHandle(handle).PermitUncheckedError();
  }
  db_->Close().PermitUncheckedError();
}

Database::Snapshot Database::TakeSnapshot() const {
  return {db_->GetSnapshot(),
          [db = db_.get()](const rocksdb::Snapshot* snapshot) { db->ReleaseSnapshot(snapshot); }};
}

}  // namespace stint::storage
