// A RocksDB database with its column families, from open to close.
//
// Threads: as RocksDB's own; the destructor alone.
#ifndef STINT_STORAGE_ROCKS_DATABASE_H_
#define STINT_STORAGE_ROCKS_DATABASE_H_

#include <rocksdb/db.h>

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/rocks_env.h"
#include "storage/rocks_families.h"
#include "storage/rocks_store.h"

namespace stint::storage {

class Database {
 public:
  // Given back when the last copy goes, which must be before the database does.
  using Snapshot = std::shared_ptr<const rocksdb::Snapshot>;

  // `create`: a fresh one is made when there is none.
  static absl::StatusOr<std::unique_ptr<Database>> Open(
      const RocksOptions& options, LogCuts cuts, bool create,
      const std::shared_ptr<rocksdb::Logger>& logger);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  rocksdb::DB* db() const { return db_.get(); }
  rocksdb::ColumnFamilyHandle* columns(ColumnFamily family) const { return handles_[family]; }
  const std::vector<rocksdb::ColumnFamilyHandle*>& all_columns() const { return handles_; }

  // The state as it is now.
  Snapshot TakeSnapshot() const;

 private:
  explicit Database(std::unique_ptr<rocksdb::Env> env) : env_(std::move(env)) {}

  const std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

}  // namespace stint::storage

#endif  // STINT_STORAGE_ROCKS_DATABASE_H_
