#include "server/store_check.h"

#include "absl/strings/str_cat.h"
#include "server/open_store.h"
#include "server/ops/log.h"
#include "server/runtime/clock.h"
#include "storage/fsck.h"
#include "storage/store_folder.h"

namespace stint {

ExitCode CheckStore(const Config& config, std::string* text) {
  if (config.memory) {
    ops::LogError("memory and check_store: a store in memory is gone before it can be checked");
    return ExitCode::kUsage;
  }
  const auto folder = storage::InspectFolder(config.data_dir);
  if (!folder.ok() || !folder->has_store) {
    ops::LogError("there is no store to check",
                  {{"data_dir", config.data_dir}, {"why", folder.status().message()}});
    return ExitCode::kStoreRefused;
  }
  const auto store = OpenStore(config, runtime::SystemClock().WallMs());
  if (!store.ok()) {
    ops::LogError("the store cannot be opened", {{"why", store.status().message()}});
    return ExitCode::kStoreRefused;
  }
  const auto report = storage::Fsck(**store, {});
  if (!report.ok()) {
    ops::LogError("the store cannot be read", {{"why", report.status().message()}});
    return ExitCode::kStoreRefused;
  }
  for (const storage::FsckFinding& finding : report->findings) {
    absl::StrAppend(text, finding.what, ", row ", finding.key_hex, "\n");
  }
  const uint64_t more = report->finding_count - report->findings.size();
  if (more > 0) absl::StrAppend(text, "and ", more, " more\n");
  absl::StrAppend(text, report->queues.size(), " queues, ", report->jobs, " jobs, ", report->leases,
                  " leases, ", report->rows, " rows: ",
                  report->finding_count == 0
                      ? "sound"
                      : absl::StrCat(report->finding_count,
                                     " findings; restore a checkpoint, or ask for help before "
                                     "changing the data folder"),
                  "\n");
  return report->finding_count == 0 ? ExitCode::kDrained : ExitCode::kStoreUnsound;
}

}  // namespace stint
