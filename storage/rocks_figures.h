// RocksDB's own figures about an open database, from its properties: numbers it keeps anyway.
//
// Threads: any.
#ifndef STINT_STORAGE_ROCKS_FIGURES_H_
#define STINT_STORAGE_ROCKS_FIGURES_H_

#include "storage/rocks_database.h"
#include "storage/store.h"

namespace stint::storage {

StoreFigures ReadFigures(const Database& database);

}  // namespace stint::storage

#endif  // STINT_STORAGE_ROCKS_FIGURES_H_
