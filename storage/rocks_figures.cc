#include "storage/rocks_figures.h"

#include <rocksdb/db.h>

#include <string>

namespace stint::storage {

StoreFigures ReadFigures(const Database& database) {
  using Properties = rocksdb::DB::Properties;
  rocksdb::DB* const db = database.db();
  const auto sum = [db](const std::string& property) {
    uint64_t value = 0;
    db->GetAggregatedIntProperty(property, &value);
    return value;
  };
  // Of the whole database, whichever column family is asked.
  const auto of_all = [db](const std::string& property) {
    uint64_t value = 0;
    db->GetIntProperty(property, &value);
    return value;
  };
  StoreFigures figures;
  figures.live_bytes = sum(Properties::kEstimateLiveDataSize);
  figures.file_bytes = sum(Properties::kTotalSstFilesSize);
  figures.memtable_bytes = sum(Properties::kCurSizeAllMemTables);
  // One cache serves all column families.
  figures.block_cache_bytes = of_all(Properties::kBlockCacheUsage);
  figures.pending_compaction_bytes = sum(Properties::kEstimatePendingCompactionBytes);
  figures.running_compactions = of_all(Properties::kNumRunningCompactions);
  figures.running_flushes = of_all(Properties::kNumRunningFlushes);
  figures.write_stopped = of_all(Properties::kIsWriteStopped);
  figures.background_errors = of_all(Properties::kBackgroundErrors);
  return figures;
}

}  // namespace stint::storage
