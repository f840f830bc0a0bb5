// Queue settings as flags: reading them, telling which were given, showing them.
// Thread rule: one thread.
#ifndef STINT_CLIENT_CLI_QUEUE_SETTINGS_H_
#define STINT_CLIENT_CLI_QUEUE_SETTINGS_H_

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cli/session.h"
#include "stint/v1/queue.pb.h"

namespace stint::cli {

// Flags for every field of QueueSettings, such as --max-attempts and --retry-initial.
class QueueSettingsFlags {
 public:
  void AddTo(CLI::App* command);
  // As if the flag `--NAME` had been given. INVALID_ARGUMENT for a name or value that it cannot be.
  absl::Status Give(absl::string_view name, const std::string& text);

  // Sets the given flags' fields. INVALID_ARGUMENT names a flag that cannot be read.
  absl::Status Apply(v1::QueueSettings* settings) const;
  // Names of the top-level fields that Apply sets, such as `max_attempts` and `retry`.
  std::vector<std::string> GivenFields() const;

 private:
  std::deque<std::string> texts_;  // one for each flag, empty: not given
};

struct SettingText {
  std::string name;
  std::string value;
  bool is_default = false;  // nobody set it
};

// Every setting as it is in force, in the order of the proto.
std::vector<SettingText> DescribeSettings(const v1::QueueSettings& settings);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_QUEUE_SETTINGS_H_
