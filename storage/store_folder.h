// What is in a data folder before the store in it is opened: whether there is a store at all,
// and whether its small files are whole. A folder that lost them must never be taken for an
// empty one.
//
// How it is used: MakeFolder, then (under the lock of owner.h) InspectFolder, and WriteMarker
// once the first open is through. The marker is the file STORE.
//
// What it does not do: look into logs or tables.
//
// Threads: any, while nobody writes the folder.
#ifndef STINT_STORAGE_STORE_FOLDER_H_
#define STINT_STORAGE_STORE_FOLDER_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace stint::storage {

struct FolderState {
  // False: nothing of a store is there but, perhaps, what a first start left when it was killed.
  bool has_store = false;
  // A first open has come to its end here once.
  bool has_marker = false;
  // Files that are not of a store; nothing touches them.
  std::vector<std::string> foreign;
};

// Creates the folder, not its parents, unless it exists. kFailedPrecondition: it cannot.
absl::Status MakeFolder(const std::string& folder);

// kDataLoss: parts of a store are there and others are missing or empty; the text names the file
// and the remedy.
absl::StatusOr<FolderState> InspectFolder(const std::string& folder);

// The tables in the folder, and what CURRENT said when they were listed.
struct TableFiles {
  std::string current;
  std::set<std::string> names;
};
TableFiles ListTables(const std::string& folder);

// Removes the tables that an open has added since `before` and failed to take up, which would
// else stay until one succeeds. An open takes its tables up by changing CURRENT.
void RemoveAbandonedTables(const std::string& folder, const TableFiles& before);

// Bytes of all logs in the folder, as far as it can be read.
uint64_t LogBytes(const std::string& folder);

absl::Status WriteMarker(const std::string& folder);

}  // namespace stint::storage

#endif  // STINT_STORAGE_STORE_FOLDER_H_
