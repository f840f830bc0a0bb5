#include "storage/store_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "storage/log_scanner.h"

namespace stint::storage {
namespace {

constexpr absl::string_view kMarker = "STORE";
constexpr absl::string_view kMarkerText =
    "This folder holds a Stint store. All files in it belong together: copy or remove them only "
    "all at once, while no broker runs.\n";
constexpr absl::string_view kManifestPrefix = "MANIFEST-";

// Name and size of every file in the folder.
using Files = std::map<std::string, uint64_t>;

absl::StatusOr<Files> ListFiles(const std::string& folder) {
  Files files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code no_file;
    const uint64_t bytes = it->file_size(no_file);
    if (!no_file) files[it->path().filename().string()] = bytes;
  }
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot list the data folder ", folder, ": ", error.message()));
  }
  return files;
}

std::string ReadCurrent(const std::string& folder) {
  std::string line;
  std::ifstream file(absl::StrCat(folder, "/CURRENT"));
  std::getline(file, line);
  return line;
}

bool IsManifest(absl::string_view name) {
  return absl::ConsumePrefix(&name, kManifestPrefix) && !name.empty() &&
         std::all_of(name.begin(), name.end(), absl::ascii_isdigit);
}

// The newest manifest that holds anything; empty when there is none.
std::string NewestManifest(const Files& files) {
  std::string newest;
  for (const auto& [name, bytes] : files) {
    if (bytes == 0 || !IsManifest(name)) continue;
    if (name.size() > newest.size() || (name.size() == newest.size() && name > newest)) {
      newest = name;
    }
  }
  return newest;
}

absl::Status Broken(const std::string& folder, absl::string_view file, absl::string_view what,
                    absl::string_view remedy) {
  return absl::DataLossError(absl::StrCat(
      "CORRUPT_RECORD: ", folder, "/", file, " ", what,
      ", but the folder holds a store; starting empty would hide it. Nothing was changed. ", remedy,
      "Otherwise restore the newest checkpoint into the folder."));
}

std::string CurrentRemedy(const Files& files) {
  const std::string newest = NewestManifest(files);
  if (newest.empty()) return "";
  return absl::StrCat("If only CURRENT was lost, write the line ", newest, " into it. ");
}

// Whether a store or RocksDB gives files such names.
bool IsOurs(const std::string& name) {
  for (const absl::string_view ours :
       {"STORE", "OWNER", "RESERVE", "CURRENT", "IDENTITY", "LOCK"}) {
    if (name == ours) return true;
  }
  return absl::StartsWith(name, "LOG") || absl::StartsWith(name, "OPTIONS-") ||
         absl::StartsWith(name, kManifestPrefix) || absl::EndsWith(name, ".log") ||
         absl::EndsWith(name, ".sst") || absl::EndsWith(name, ".dbtmp");
}

// Everything that only a store leaves behind.
bool HoldsStoreData(const Files& files) {
  return std::any_of(files.begin(), files.end(), [](const auto& file) {
    return absl::EndsWith(file.first, ".sst") || (LogNumber(file.first) && file.second > 0);
  });
}

}  // namespace

absl::Status MakeFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0750) != 0) {
    const int error = errno;
    struct stat found {};
    if (error == EEXIST && stat(folder.c_str(), &found) == 0 && !S_ISDIR(found.st_mode)) {
      return absl::FailedPreconditionError(
          absl::StrCat("the data folder ", folder, " is a file; give a folder"));
    }
    if (error == EEXIST) return absl::OkStatus();
    const absl::Status why =
        absl::ErrnoToStatus(error, absl::StrCat("cannot create the data folder ", folder));
    const std::string parent = std::filesystem::path(folder).parent_path().string();
    return absl::FailedPreconditionError(
        error == ENOENT
            ? absl::StrCat(why.message(), "; the folder it is to be in has to exist: ", "mkdir -p ",
                           parent)
            : std::string(why.message()));
  }
  const std::filesystem::path parent = std::filesystem::path(folder).parent_path();
  const int fd = open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  return absl::OkStatus();
}

absl::StatusOr<FolderState> InspectFolder(const std::string& folder) {
  const absl::StatusOr<Files> files = ListFiles(folder);
  if (!files.ok()) return files.status();
  FolderState state;
  state.has_marker = files->count(std::string(kMarker)) > 0;
  for (const auto& [name, bytes] : *files) {
    if (!IsOurs(name)) state.foreign.push_back(name);
  }

  const auto current = files->find("CURRENT");
  if (current == files->end()) {
    if (state.has_marker || HoldsStoreData(*files)) {
      return Broken(folder, "CURRENT", "is missing", CurrentRemedy(*files));
    }
    return state;
  }
  state.has_store = true;
  const std::string manifest = ReadCurrent(folder);
  if (!IsManifest(manifest)) {
    return Broken(folder, "CURRENT", current->second == 0 ? "is empty" : "does not name a manifest",
                  CurrentRemedy(*files));
  }
  const auto named = files->find(manifest);
  if (named == files->end() || named->second == 0) {
    return Broken(folder, manifest, named == files->end() ? "is missing" : "is empty",
                  "Put the file back from a copy of the volume. ");
  }
  return state;
}

TableFiles ListTables(const std::string& folder) {
  TableFiles tables;
  tables.current = ReadCurrent(folder);
  const absl::StatusOr<Files> files = ListFiles(folder);
  if (!files.ok()) return tables;
  for (const auto& [name, bytes] : *files) {
    if (absl::EndsWith(name, ".sst")) tables.names.insert(name);
  }
  return tables;
}

void RemoveAbandonedTables(const std::string& folder, const TableFiles& before) {
  const TableFiles now = ListTables(folder);
  if (now.current.empty() || now.current != before.current) return;
  for (const std::string& name : now.names) {
    if (before.names.count(name) == 0) unlink(absl::StrCat(folder, "/", name).c_str());
  }
}

uint64_t LogBytes(const std::string& folder) {
  uint64_t bytes = 0;
  if (const absl::StatusOr<Files> files = ListFiles(folder); files.ok()) {
    for (const auto& [name, size] : *files) {
      if (LogNumber(name)) bytes += size;
    }
  }
  return bytes;
}

absl::Status WriteMarker(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kMarker);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
  const bool written = fd >= 0 &&
                       write(fd, kMarkerText.data(), kMarkerText.size()) ==
                           static_cast<ssize_t>(kMarkerText.size()) &&
                       fsync(fd) == 0;
  const absl::Status status =
      written ? absl::OkStatus() : absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  if (fd >= 0) close(fd);
  return status;
}

}  // namespace stint::storage
