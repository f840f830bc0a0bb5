// Write-ahead logs, whole and damaged: what is read of them, and that a scan of what may be
// replayed finds the same groups and nothing left to drop.
//
// Input: one byte, the last group that is flushed; then steps that write logs, so that checksums
// are right where damage is not meant. See Write.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "storage/log_reader.h"
#include "storage/log_scanner.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/log_writer.h"
#include "tests/support/temp_folder.h"

namespace stint::storage {
namespace {

using test::Require;

constexpr size_t kMaxLogs = 8;
constexpr size_t kMaxBytes = size_t{256} * 1024;

std::vector<std::string> Write(test::Input* input) {
  std::vector<test::LogWriter> logs(1);
  size_t bytes = 0;
  while (!input->empty() && bytes < kMaxBytes) {
    test::LogWriter& log = logs.back();
    const size_t before = log.bytes().size();
    switch (input->U8() % 8) {
      case 0: {
        const uint8_t group = input->U8();
        const uint8_t synced_through = input->U8();
        log.Group(group, synced_through, input->U16());
        break;
      }
      case 1:
        log.Unmarked(input->U16());
        break;
      case 2: {
        const uint8_t type = input->U8();
        log.Fragment(type, input->Text());
        break;
      }
      case 3:
        log.Record(input->Text());
        break;
      case 4: {
        const absl::string_view raw = input->Text();
        log.bytes().append(raw.data(), raw.size());
        break;
      }
      case 5:
        log.bytes().append(input->U16(), '\0');
        break;
      case 6: {  // damage behind what is written
        const size_t at = input->U16();
        const auto change = static_cast<char>(input->U8());
        if (at < before) {
          char& damaged = log.bytes()[before - 1 - at];
          damaged = static_cast<char>(damaged ^ change);
        }
        break;
      }
      case 7:
        if (logs.size() < kMaxLogs) logs.emplace_back();
        continue;
    }
    bytes += log.bytes().size() - before;
  }
  std::vector<std::string> written;
  for (const test::LogWriter& log : logs) written.push_back(log.bytes());
  return written;
}

void CheckEvents(const std::string& path, size_t size) {
  uint64_t end = 0;
  const absl::Status read = ReadLog(path, [&end, size](const LogEvent& event) {
    Require(end <= event.begin && event.begin < event.end && event.end <= size,
            "events follow each other within the file");
    end = event.end;
  });
  Require(read.ok(), "damage is no error");
}

void Run(test::Input* input) {
  static const test::TempFolder kFolder;
  const uint64_t flushed_through = input->U8();
  const std::vector<std::string> logs = Write(input);
  std::vector<std::string> paths;
  size_t total = 0;
  for (size_t i = 0; i < logs.size(); ++i) {
    paths.push_back(kFolder.File(std::to_string(i + 1) + ".log"));
    test::WriteFile(paths.back(), logs[i]);
    CheckEvents(paths.back(), logs[i].size());
    total += logs[i].size();
  }

  const auto scan = ScanLogs(kFolder.path(), 0, flushed_through);
  if (scan.ok()) {
    Require(scan->last_group >= flushed_through, "what is flushed is not lost");
    Require(scan->readable_bytes.size() == logs.size(), "every log is judged");
    uint64_t readable = 0;
    for (const auto& [number, bytes] : scan->readable_bytes) {
      Require(bytes <= logs[number - 1].size(), "no more is replayed than there is");
      readable += bytes;
      std::filesystem::resize_file(paths[number - 1], bytes);
    }
    Require(readable + scan->dropped_bytes <= total, "what is dropped is not replayed");
    const auto again = ScanLogs(kFolder.path(), 0, flushed_through);
    Require(again.ok() && again->last_group == scan->last_group && again->dropped_bytes == 0 &&
                again->readable_bytes == scan->readable_bytes,
            "what may be replayed is whole");
  } else {
    Require(scan.status().code() == absl::StatusCode::kDataLoss, "the scan itself works");
  }
  for (const std::string& path : paths) std::filesystem::remove(path);
}

}  // namespace
}  // namespace stint::storage

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stint::test::Input input(data, size);
  stint::storage::Run(&input);
  return 0;
}
