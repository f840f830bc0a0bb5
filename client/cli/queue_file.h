// Queues written in a TOML file, for `stint queues create|update -f`:
//
//   [queues.email]
//   max-attempts = 5
//   retry-initial = "10s"
//
// The settings have the names of the flags of `stint queues create`; durations are written as
// there. Whatever the file says that is not known is refused, with file and line.
//
// Thread rule: no state.
#ifndef STINT_CLIENT_CLI_QUEUE_FILE_H_
#define STINT_CLIENT_CLI_QUEUE_FILE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/queue_settings.h"
#include "client/cli/session.h"

namespace stint::cli {

struct QueueFileEntry {
  std::string queue;
  int line = 0;
  QueueSettingsFlags settings;
};

// In the order of the file. INVALID_ARGUMENT for people, when any of it is wrong.
absl::StatusOr<std::vector<QueueFileEntry>> ReadQueueFile(const std::string& path);

struct QueueFileOptions {
  std::string path;
  bool dry_run = false;
};

// Creates every queue of the file, in its order. A queue that is there already, unless it only
// appeared by use, is a failure and ends the run.
int CreateQueuesFromFile(const QueueFileOptions& options, Session& session);
// Changes the settings that the file names; what it does not name stays.
int UpdateQueuesFromFile(const QueueFileOptions& options, Session& session);

// Adds -f and --dry-run to a command whose first word is the queue. `one` runs it for that queue,
// `all` for a file; the flags of the one are refused with the other.
void AddFileFlags(CLI::App* command, Session& session, std::function<int()> one,
                  int (*all)(const QueueFileOptions&, Session&));

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_QUEUE_FILE_H_
