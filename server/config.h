// Settings of stintd: what they are, where each came from, and how a bad one is refused.
//
// A setting has one name in three places: the flag `--max-payload`, the environment variable
// `STINT_MAX_PAYLOAD` and the key `max_payload` of the TOML file named by `--config` or
// STINT_CONFIG. The flag wins over the variable, the variable over the file, the file over
// the default. Sizes are written `64MiB`, durations `15s`, `10m`, `1h30m`.
//
// What it does not do: open files that settings name. Thread-safe: values without identity.
#ifndef STINT_SERVER_CONFIG_H_
#define STINT_SERVER_CONFIG_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stint {

// Values in force. The table in config.cc says for each its unit, range and default.
struct Config {
  std::string listen;
  // Empty: no HTTP.
  std::string http_listen;
  std::string data_dir;
  bool memory = false;

  bool insecure = false;
  std::string tokens_file;
  std::string server_cert;
  std::string server_key;
  std::string client_ca;
  bool require_tls = false;

  int64_t max_payload = 0;
  int64_t max_call = 0;
  int64_t grpc_memory = 0;
  int64_t read_threads = 0;

  int64_t request_window_ms = 0;
  int64_t restart_grace_ms = 0;
  int64_t max_parked_calls = 0;
  int64_t lane_operations = 0;
  int64_t lane_bytes = 0;

  int64_t block_cache = 0;
  int64_t disk_floor = 0;
  int64_t reserve = 0;

  std::string metrics_token_file;
  int64_t metrics_queues = 0;
  std::string log_level;
  std::string log_format;
  int64_t drain_timeout_ms = 0;

  bool has_credentials() const { return !tokens_file.empty() || !client_ca.empty(); }
};

// One line of `stintd --print-config`.
struct SettingInForce {
  std::string name;
  std::string value;
  // "default", the name of the flag or of the variable, or the path of the file.
  std::string source;
};

enum class Action { kServe, kPrintConfig, kCheckStore, kShowText };

struct LoadedConfig {
  Action action = Action::kServe;
  Config config;
  std::vector<SettingInForce> settings;
  // What may be a mistake but is none that stops the start, such as an unknown variable.
  std::vector<std::string> warnings;
  // For kShowText: help or version.
  std::string text;
};

// `arguments` without the program's name; `environment` as the process has it, "NAME=value".
// Errors name the setting, where it was set, and what it must be.
absl::StatusOr<LoadedConfig> LoadConfig(const std::vector<std::string>& arguments,
                                        const std::vector<std::string>& environment);

// The settings in force as a TOML file, each with its source as a comment.
std::string FormatSettings(const std::vector<SettingInForce>& settings);

// Whether anybody outside this machine may reach `listen`.
bool IsLoopback(absl::string_view listen);

// The rule that a broker beyond loopback asks for credentials, unless told not to; the error
// is the text for the operator.
absl::Status CheckListening(const Config& config);

// Whether the host of `listen` is one at all; may ask the name service.
absl::Status CheckHost(absl::string_view listen);

}  // namespace stint

#endif  // STINT_SERVER_CONFIG_H_
