#include "storage/rocks_options.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/slice_transform.h>
#include <rocksdb/table.h>
#include <rocksdb/utilities/table_properties_collectors.h>

#include <algorithm>
#include <utility>

#include "storage/rocks_families.h"

namespace stint::storage {
namespace {

// Keys with the same first bytes (shard, family, queue, priority) are mostly added in order, so
// the memtable keeps a hint for each such prefix where the next one goes.
//
// Only rows of fixed form have hints: RocksDB 7.8 keeps the hints of rows and of deleted ranges
// in one table although they point into two different lists, and a hint used for the other list
// corrupts it. rocks_store.cc begins no deleted range with such a key.
class RowPrefix : public rocksdb::SliceTransform {
 public:
  const char* Name() const override { return "stint.RowPrefix"; }
  rocksdb::Slice Transform(const rocksdb::Slice& key) const override {
    return {key.data(), kPrefixBytes};
  }
  bool InDomain(const rocksdb::Slice& key) const override {
    return HasFixedForm(absl::string_view(key.data(), key.size()));
  }

 private:
  static constexpr size_t kPrefixBytes = 7;
};

// A table in which so many of so many neighbouring entries are deletions is compacted at once.
constexpr size_t kDeletionWindow = 10'000;
constexpr size_t kDeletionTrigger = 5'000;
constexpr double kFilterBitsPerKey = 10;

bool CanCompress(rocksdb::CompressionType type) {
  const std::vector<rocksdb::CompressionType> known = rocksdb::GetSupportedCompressions();
  return std::find(known.begin(), known.end(), type) != known.end();
}

}  // namespace

RocksOptions FitToVolume(RocksOptions options, uint64_t reserve_bytes) {
  if (reserve_bytes >= options.reserve_bytes) return options;
  const double share =
      static_cast<double>(reserve_bytes) / static_cast<double>(options.reserve_bytes);
  const auto fit = [share](size_t bytes) {
    constexpr size_t kLeastBytes = 256 << 10;
    return std::max(static_cast<size_t>(static_cast<double>(bytes) * share), kLeastBytes);
  };
  options.write_buffer_bytes = fit(options.write_buffer_bytes);
  options.wal_bytes = fit(options.wal_bytes);
  return options;
}

rocksdb::DBOptions MakeDbOptions(const RocksOptions& options, rocksdb::Env* env,
                                 std::shared_ptr<rocksdb::Logger> logger) {
  rocksdb::DBOptions db;
  db.env = env;
  db.info_log = std::move(logger);
  db.paranoid_checks = true;

  // Recovery. What may be replayed is decided before (log_scanner.h); everything replayed is
  // flushed before it is served, since it may not have been durable in the log. Tables are
  // committed for all column families at once, so that the store without its logs is the state
  // after one group, which the scanner starts from.
  db.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  db.avoid_flush_during_recovery = false;
  db.atomic_flush = true;
  db.recycle_log_file_num = 0;
  db.wal_compression = rocksdb::kNoCompression;
  db.track_and_verify_wals_in_manifest = true;
  // The caller recovers from a full disk by Recover().
  db.max_bgerror_resume_count = 0;

  // One writer, in order.
  db.allow_concurrent_memtable_write = false;
  db.enable_pipelined_write = false;

  // Memory, logs and open files are bounded whatever the size of the backlog.
  db.db_write_buffer_size = options.write_buffer_bytes;
  db.max_total_wal_size = options.wal_bytes;
  db.max_open_files = options.max_open_files;
  db.skip_stats_update_on_db_open = true;
  db.manifest_preallocation_size = 64 << 10;
  db.max_manifest_file_size = 16 << 20;

  db.max_background_jobs = 2;
  db.bytes_per_sync = 1 << 20;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  return db;
}

std::vector<rocksdb::ColumnFamilyDescriptor> MakeColumnFamilies(
    const RocksOptions& options, const std::shared_ptr<rocksdb::Cache>& block_cache) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = block_cache;
  // Index and filters in parts, in the cache: a table costs no memory for being open.
  table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  table.partition_filters = true;
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kFilterBitsPerKey));
  table.format_version = 5;

  rocksdb::ColumnFamilyOptions columns;
  columns.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  columns.write_buffer_size = options.write_buffer_bytes;
  columns.max_write_buffer_number = 4;
  columns.arena_block_size = std::max<size_t>(options.write_buffer_bytes / 64, 4096);
  columns.memtable_insert_with_hint_prefix_extractor = std::make_shared<RowPrefix>();
  columns.target_file_size_base = options.write_buffer_bytes;
  columns.max_bytes_for_level_base = 4 * options.write_buffer_bytes;
  columns.level_compaction_dynamic_level_bytes = true;
  columns.compression = rocksdb::kNoCompression;
  columns.table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(kDeletionWindow, kDeletionTrigger));

  std::vector<rocksdb::ColumnFamilyDescriptor> all;
  for (const char* name : kColumnFamilyNames) all.emplace_back(name, columns);
  if (CanCompress(rocksdb::kLZ4Compression)) {
    all[kJobColumns].options.compression = rocksdb::kLZ4Compression;
  }
  return all;
}

}  // namespace stint::storage
