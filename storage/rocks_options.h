// How RocksDB is set up for Stint, each choice with its reason.
//
// Threads: any.
#ifndef STINT_STORAGE_ROCKS_OPTIONS_H_
#define STINT_STORAGE_ROCKS_OPTIONS_H_

#include <rocksdb/db.h>
#include <rocksdb/options.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "storage/rocks_store.h"

namespace stint::storage {

// The same with the write buffers as a volume allows them on which the reserve is only
// `reserve_bytes`.
RocksOptions FitToVolume(RocksOptions options, uint64_t reserve_bytes);

// `env` must live longer than the database.
rocksdb::DBOptions MakeDbOptions(const RocksOptions& options, rocksdb::Env* env,
                                 std::shared_ptr<rocksdb::Logger> logger);

// One for each column family, in the order of ColumnFamily.
std::vector<rocksdb::ColumnFamilyDescriptor> MakeColumnFamilies(
    const RocksOptions& options, const std::shared_ptr<rocksdb::Cache>& block_cache);

}  // namespace stint::storage

#endif  // STINT_STORAGE_ROCKS_OPTIONS_H_
