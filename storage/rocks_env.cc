#include "storage/rocks_env.h"

#include <rocksdb/file_system.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "storage/log_scanner.h"

namespace stint::storage {
namespace {

class ForwardingLogger : public rocksdb::Logger {
 public:
  explicit ForwardingLogger(std::function<void(LogLevel, absl::string_view)> log)
      : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL), log_(std::move(log)) {}

  using rocksdb::Logger::Logv;
  // Lines without a level are chatter.
  void Logv(const char*, va_list) override {}
  void LogHeader(const char*, va_list) override {}
  void Logv(rocksdb::InfoLogLevel level, const char* format, va_list arguments) override {
    if (!log_ || level < rocksdb::InfoLogLevel::WARN_LEVEL ||
        level >= rocksdb::InfoLogLevel::HEADER_LEVEL) {
      return;
    }
    std::array<char, 1024> line{};
    if (std::vsnprintf(line.data(), line.size(), format, arguments) < 0) return;
    absl::string_view text(line.data());
    while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
    log_(level == rocksdb::InfoLogLevel::WARN_LEVEL ? LogLevel::kWarning : LogLevel::kError,
         absl::StrCat("rocksdb: ", text));
  }

 private:
  const std::function<void(LogLevel, absl::string_view)> log_;
};

// A file that seems to end after `shown_bytes`.
class CutFile : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  CutFile(std::unique_ptr<rocksdb::FSSequentialFile>&& file, uint64_t shown_bytes)
      : FSSequentialFileOwnerWrapper(std::move(file)), left_(shown_bytes) {}

  rocksdb::IOStatus Read(size_t n, const rocksdb::IOOptions& options, rocksdb::Slice* result,
                         char* scratch, rocksdb::IODebugContext* context) override {
    const size_t most = static_cast<size_t>(std::min<uint64_t>(n, left_));
    rocksdb::IOStatus status =
        FSSequentialFileOwnerWrapper::Read(most, options, result, scratch, context);
    if (status.ok()) left_ -= result->size();
    return status;
  }
  rocksdb::IOStatus Skip(uint64_t n) override {
    const uint64_t most = std::min(n, left_);
    left_ -= most;
    return FSSequentialFileOwnerWrapper::Skip(most);
  }

 private:
  uint64_t left_;
};

class LogCutFileSystem : public rocksdb::FileSystemWrapper {
 public:
  explicit LogCutFileSystem(LogCuts cuts)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), cuts_(std::move(cuts)) {}

  const char* Name() const override { return "StintLogCut"; }

  rocksdb::IOStatus NewSequentialFile(const std::string& path, const rocksdb::FileOptions& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      rocksdb::IODebugContext* context) override {
    rocksdb::IOStatus status = FileSystemWrapper::NewSequentialFile(path, options, file, context);
    const std::optional<uint64_t> shown_bytes = ShownBytes(path);
    if (status.ok() && shown_bytes) {
      *file = std::make_unique<CutFile>(std::move(*file), *shown_bytes);
    }
    return status;
  }

 private:
  std::optional<uint64_t> ShownBytes(const std::string& path) const {
    const std::optional<uint64_t> number =
        LogNumber(absl::string_view(path).substr(path.find_last_of('/') + 1));
    if (!number) return std::nullopt;
    const auto cut = cuts_.shown_bytes.find(*number);
    return cut == cuts_.shown_bytes.end() ? cuts_.other_shown_bytes : cut->second;
  }

  const LogCuts cuts_;
};

bool IsNoSpace(const rocksdb::Status& status, const std::string& text) {
  return status.IsNoSpace() ||
         (status.IsIOError() && absl::StrContains(text, std::strerror(EDQUOT)));
}

}  // namespace

std::shared_ptr<rocksdb::Logger> MakeRocksLogger(
    std::function<void(LogLevel, absl::string_view)> log) {
  return std::make_shared<ForwardingLogger>(std::move(log));
}

std::unique_ptr<rocksdb::Env> MakeLogCutEnv(LogCuts cuts) {
  return rocksdb::NewCompositeEnv(std::make_shared<LogCutFileSystem>(std::move(cuts)));
}

absl::Status FromRocks(const rocksdb::Status& status, absl::string_view doing) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = status.ToString();
  if (IsNoSpace(status, text)) {
    return absl::ResourceExhaustedError(absl::StrCat(doing, ": no space on the volume: ", text));
  }
  if (status.IsCorruption()) {
    return absl::DataLossError(absl::StrCat("CORRUPT_RECORD: ", doing, ": ", text));
  }
  return absl::InternalError(absl::StrCat(doing, ": ", text));
}

}  // namespace stint::storage
