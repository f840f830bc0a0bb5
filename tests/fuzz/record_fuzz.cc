// A store whose rows are anything: reads, the store check and a start answer or refuse, and nothing
// breaks; and a start takes what the check calls sound.
//
// Input: rows, each one byte for the key (see KeyOf) and a text with its length in front. Half of
// the keys are those of queue 1, "q", and its job 1, so that the rows meet each other.
#include <cstddef>
#include <cstdint>
#include <string>

#include "google/protobuf/stubs/logging.h"
#include "server/engine/engine.h"
#include "storage/format.h"
#include "storage/fsck.h"
#include "storage/keys.h"
#include "storage/memory_store.h"
#include "storage/reader.h"
#include "storage/row_view.h"
#include "storage/tables.h"
#include "tests/fuzz/fuzz_input.h"

namespace stint::storage {
namespace {

using test::Require;

constexpr size_t kMaxRows = 64;
constexpr JobKey kJob{1, 1};

// The key of the next row. Inputs name keys by their place: only append.
std::string KeyOf(test::Input* input) {
  switch (input->U8()) {
    case 0:
      return MetaKey(kGroupRow);
    case 1:
      return FormatRowKey();
    case 2:
      return QueueKey(1);
    case 3:
      return QueueNameKey("q");
    case 4:
      return CountersKey(1);
    case 5:
      return JobRowKey(Family::kJob, kJob);
    case 6:
      return JobRowKey(Family::kPayload, kJob);
    case 7:
      return JobRowKey(Family::kState, kJob);
    case 8:
      return JobRowKey(Family::kLease, kJob);
    case 9:
      return JobRowKey(Family::kResult, kJob);
    case 10:
      return JobIdKey(1, "own");
    case 11:
      return RemovedSettlesKey(1, 1);
    case 12:
      return QueueKey(2);
    case 13:
      return CountersKey(2);
    case 14:
      return QueueNameKey("r");
    default: {
      const absl::string_view key = input->Text();
      return std::string(1, static_cast<char>(kShard)).append(key.data(), key.size());
    }
  }
}

void Read(const Store& store) {
  const Reader reader(&store);
  const auto all = [](const StoredJob&) { return true; };
  for (const char* name : {"q", "r"}) {
    const auto queue = reader.FindQueue(name);
    if (!queue.ok() || !queue->has_value()) continue;
    for (const char* id : {"j-0000000000001", "own"}) {
      for (const bool with_payload : {false, true}) {
        const auto job = reader.FindJob(**queue, id, with_payload);
        Require(!job.ok() || !job->has_value() || (*job)->job_id == id, "a job has its id");
      }
    }
    const auto page = reader.ListJobs(**queue, 0, kMaxRows, kMaxRows, true, all);
    Require(!page.ok() || page->jobs.size() <= kMaxRows, "a page has its length");
  }
  const auto queues = reader.ListQueues("", "", kMaxRows);
  Require(!queues.ok() || queues->queues.size() <= kMaxRows, "a page has its length");
}

void Run(test::Input* input) {
  MemoryStore store;
  Batch batch;
  for (size_t i = 0; i < kMaxRows && !input->empty(); ++i) {
    const std::string key = KeyOf(input);
    batch.Put(key, input->Text());
  }
  Require(store.Sync(*store.Commit(batch, store.epoch())).ok(), "the rows are written");

  Read(store);
  const auto stamp = store.MultiGet({FormatRowKey()});
  if (stamp->front().has_value()) static_cast<void>(CheckFormat(*stamp->front(), "0.1.0"));

  RowView rows;
  engine::Engine engine({}, &rows);
  const engine::Now now{.broker_ms = 1'000'000, .wall_ms = 1'700'000'000'000};
  const absl::Status loaded = engine.Load(store, now);
  const auto report = Fsck(store, {});
  Require(report.ok(), "a store in memory can be read");
  if (report->finding_count == 0) Require(loaded.ok(), "a start takes what is sound");
  if (loaded.ok()) static_cast<void>(engine.CheckInvariants(store));
}

}  // namespace
}  // namespace stint::storage

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Without its lines about each text that is not UTF-8.
  static const bool kQuiet = (google::protobuf::SetLogHandler(nullptr), true);
  static_cast<void>(kQuiet);
  stint::test::Input input(data, size);
  stint::storage::Run(&input);
  return 0;
}
