#include "server/config.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <sstream>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/config_file.h"
#include "server/config_values.h"
#include "server/engine/limits.h"
#include "server/version.h"

namespace stint {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kGiB = 1024 * kMiB;
constexpr int64_t kSecond = engine::kSecondMs;
constexpr int64_t kMinute = engine::kMinuteMs;
constexpr int64_t kHour = engine::kHourMs;

constexpr char kVariablePrefix[] = "STINT_";

enum class Form { kText, kSwitch, kNumber, kBytes, kDuration };

struct Setting {
  std::string name;
  Form form;
  std::variant<std::string Config::*, bool Config::*, int64_t Config::*> member;
  std::string standard;  // the default, as one would write it
  int64_t min = 0;
  int64_t max = 0;
  std::string help;
  std::vector<std::string> choices;
};

// One row a setting. This table is the reference; `stintd --help` prints it.
const std::vector<Setting>& Settings() {
  static const auto* const settings = new std::vector<Setting>{
      {"listen",
       Form::kText,
       &Config::listen,
       "127.0.0.1:7150",
       0,
       0,
       "Address of the gRPC listener, host:port; port 0 takes any",
       {}},
      {"data_dir",
       Form::kText,
       &Config::data_dir,
       "stint-data",
       0,
       0,
       "Folder of the store, made if missing (its parent is not)",
       {}},
      {"memory",
       Form::kSwitch,
       &Config::memory,
       "false",
       0,
       0,
       "Keep everything in memory: nothing survives the process",
       {}},
      {"insecure",
       Form::kSwitch,
       &Config::insecure,
       "false",
       0,
       0,
       "Ask nobody for credentials, also beyond loopback",
       {}},
      {"tokens_file",
       Form::kText,
       &Config::tokens_file,
       "",
       0,
       0,
       "Credentials, one a line: NAME ROLE sha256:HEX",
       {}},
      {"server_cert",
       Form::kText,
       &Config::server_cert,
       "",
       0,
       0,
       "PEM file with the server's certificate chain: turns TLS on",
       {}},
      {"server_key",
       Form::kText,
       &Config::server_key,
       "",
       0,
       0,
       "PEM file with the key of server_cert",
       {}},
      {"client_ca",
       Form::kText,
       &Config::client_ca,
       "",
       0,
       0,
       "PEM file with authorities of client certificates, which are credentials then",
       {}},
      {"require_tls",
       Form::kSwitch,
       &Config::require_tls,
       "false",
       0,
       0,
       "Refuse to start without TLS",
       {}},
      {"max_payload",
       Form::kBytes,
       &Config::max_payload,
       "1MiB",
       kKiB,
       int64_t{engine::kLargestMaxPayloadBytes} - kMiB,
       "Largest payload or result of a job",
       {}},
      {"max_call",
       Form::kBytes,
       &Config::max_call,
       "3584KiB",
       64 * kKiB,
       int64_t{engine::kLargestMaxCallBytes},
       "Largest call or answer; at least 2 * max_payload + 128KiB",
       {}},
      {"grpc_memory",
       Form::kBytes,
       &Config::grpc_memory,
       "512MiB",
       64 * kMiB,
       1024 * kGiB,
       "What gRPC may hold for calls, about",
       {}},
      {"read_threads",
       Form::kNumber,
       &Config::read_threads,
       "2",
       1,
       64,
       "Threads for reads past the engine (GetJob, ListJobs, GetQueue, ListQueues)",
       {}},
      {"request_window",
       Form::kDuration,
       &Config::request_window_ms,
       "1h",
       kMinute,
       engine::kMaxRequestWindowMs,
       "How long a request_id is remembered",
       {}},
      {"restart_grace",
       Form::kDuration,
       &Config::restart_grace_ms,
       "30s",
       0,
       10 * kMinute,
       "Least time each lease has after a restart to be renewed",
       {}},
      {"max_parked_calls",
       Form::kNumber,
       &Config::max_parked_calls,
       "50000",
       1,
       1'000'000,
       "Most calls that wait for a job or for a job's end",
       {}},
      {"lane_operations",
       Form::kNumber,
       &Config::lane_operations,
       "20000",
       1024,
       1'000'000,
       "Most operations waiting in each of the three lanes",
       {}},
      {"lane_bytes",
       Form::kBytes,
       &Config::lane_bytes,
       "64MiB",
       4 * kMiB,
       16 * kGiB,
       "Most bytes waiting in each of the three lanes",
       {}},
      {"block_cache",
       Form::kBytes,
       &Config::block_cache,
       "64MiB",
       kMiB,
       1024 * kGiB,
       "Memory for blocks of the store that were read",
       {}},
      {"disk_floor",
       Form::kBytes,
       &Config::disk_floor,
       "0",
       0,
       1024 * kGiB,
       "Free space under which new jobs are refused; 0: as much as the reserve",
       {}},
      {"reserve",
       Form::kBytes,
       &Config::reserve,
       "64MiB",
       kMiB,
       16 * kGiB,
       "Space kept back for settling jobs on a full disk",
       {}},
      {"log_level",
       Form::kText,
       &Config::log_level,
       "info",
       0,
       0,
       "Least serious line logged",
       {"debug", "info", "warning", "error"}},
      {"log_format",
       Form::kText,
       &Config::log_format,
       "text",
       0,
       0,
       "Form of log lines",
       {"text", "json"}},
      {"drain_timeout",
       Form::kDuration,
       &Config::drain_timeout_ms,
       "5s",
       kSecond,
       10 * kMinute,
       "How long calls under way may take after SIGTERM",
       {}},
  };
  return *settings;
}

std::string FlagOf(const Setting& setting) {
  return absl::StrCat("--", absl::StrReplaceAll(setting.name, {{"_", "-"}}));
}

std::string VariableOf(const Setting& setting) {
  return absl::StrCat(kVariablePrefix, absl::AsciiStrToUpper(setting.name));
}

std::string RangeOf(const Setting& setting) {
  switch (setting.form) {
    case Form::kText:
      return setting.choices.empty()
                 ? "text"
                 : absl::StrCat("one of ", absl::StrJoin(setting.choices, ", "));
    case Form::kSwitch:
      return "true or false";
    case Form::kNumber:
      return absl::StrCat("a number from ", setting.min, " to ", setting.max);
    case Form::kBytes:
      return absl::StrCat("a size from ", FormatBytes(setting.min), " to ",
                          FormatBytes(setting.max));
    case Form::kDuration:
      return absl::StrCat("a duration from ", FormatMillis(setting.min), " to ",
                          FormatMillis(setting.max));
  }
  return "";
}

// Sets the member from `text`, and `text` to the form in which it is shown; false: it is not
// what the setting must be.
bool Assign(const Setting& setting, std::string* text, Config* config) {
  if (setting.form == Form::kText) {
    if (!setting.choices.empty() &&
        std::find(setting.choices.begin(), setting.choices.end(), *text) == setting.choices.end()) {
      return false;
    }
    config->*std::get<std::string Config::*>(setting.member) = *text;
    return true;
  }
  if (setting.form == Form::kSwitch) {
    const std::optional<bool> value = ParseSwitch(*text);
    if (!value.has_value()) return false;
    config->*std::get<bool Config::*>(setting.member) = *value;
    *text = *value ? "true" : "false";
    return true;
  }
  std::optional<int64_t> value;
  if (setting.form == Form::kNumber) value = ParseNumber(*text);
  if (setting.form == Form::kBytes) value = ParseBytes(*text);
  if (setting.form == Form::kDuration) value = ParseMillis(*text);
  if (!value.has_value() || *value < setting.min || *value > setting.max) return false;
  config->*std::get<int64_t Config::*>(setting.member) = *value;
  if (setting.form == Form::kBytes) *text = FormatBytes(*value);
  if (setting.form == Form::kDuration) *text = FormatMillis(*value);
  if (setting.form == Form::kNumber) *text = absl::StrCat(*value);
  return true;
}

struct Given {
  std::string text;
  std::string source;
};
using GivenSettings = std::map<std::string, Given>;

// What the command line says.
struct CommandLine {
  GivenSettings given;
  std::string config_file;
  bool print_config = false;
  std::string text;  // help or version, asked for
};

constexpr char kDescription[] =
    "stintd: the broker of Stint.\n"
    "Each setting is a flag, a variable STINT_NAME and a key of the TOML file named by\n"
    "--config; the flag wins over the variable, the variable over the file.";

constexpr char kFooter[] =
    "Sizes are written 64MiB, durations 15s, 10m, 1h30m.\n"
    "Exit codes: 0 drained; 1 stopped by a second signal; 2 bad flag or setting; 3 the store\n"
    "cannot be opened; 4 the store failed while serving; 5 cannot listen.";

absl::StatusOr<CommandLine> ReadCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  CLI::App app(kDescription, "stintd");
  app.footer(kFooter);
  bool version = false;
  app.add_option("--config", line.config_file, "TOML file with settings [STINT_CONFIG]")
      ->type_name("FILE");
  app.add_flag("--print-config", line.print_config,
               "Print the settings in force and where each came from");
  app.add_flag("--version", version, "Print the release");
  std::map<std::string, std::vector<std::string>> values;
  for (const Setting& setting : Settings()) {
    const std::string help = absl::StrCat(
        setting.help,
        setting.form == Form::kSwitch || (setting.form == Form::kText && setting.choices.empty())
            ? ""
            : absl::StrCat("; ", RangeOf(setting)),
        setting.standard.empty() ? "" : absl::StrCat(" (default ", setting.standard, ")"), " [",
        VariableOf(setting), "]");
    CLI::Option* option = setting.form == Form::kSwitch
                              ? app.add_flag(FlagOf(setting), values[setting.name], help)
                              : app.add_option(FlagOf(setting), values[setting.name], help);
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->group("Settings");
    if (setting.form != Form::kSwitch) option->expected(1)->type_name("VALUE");
  }
  // CLI11 takes the arguments in reverse.
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    line.text = app.help();
    return line;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(error.what(), "; stintd --help lists the flags"));
  }
  if (version) line.text = absl::StrCat("stintd ", kVersion, "\n");
  for (const Setting& setting : Settings()) {
    if (app.count(FlagOf(setting)) == 0) continue;
    line.given[setting.name] = {values[setting.name].back(), FlagOf(setting)};
  }
  return line;
}

// Variables of clients, which may share an environment with the broker.
bool IsClientVariable(absl::string_view name) {
  return name == "STINT_ADDRESS" || name == "STINT_TOKEN_FILE" || name == "STINT_TLS_CA" ||
         name == "STINT_TLS_CERT" || name == "STINT_TLS_KEY";
}

GivenSettings ReadEnvironment(const std::vector<std::string>& environment, std::string* config_file,
                              std::vector<std::string>* warnings) {
  GivenSettings given;
  for (const std::string& entry : environment) {
    const std::pair<std::string, std::string> variable =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    if (!absl::StartsWith(variable.first, kVariablePrefix)) continue;
    if (variable.first == "STINT_CONFIG") {
      *config_file = variable.second;
      continue;
    }
    const auto& settings = Settings();
    const auto setting = std::find_if(
        settings.begin(), settings.end(),
        [&variable](const Setting& candidate) { return VariableOf(candidate) == variable.first; });
    if (setting != settings.end()) {
      given[setting->name] = {variable.second, variable.first};
    } else if (!IsClientVariable(variable.first)) {
      warnings->push_back(absl::StrCat(variable.first, " is set, but there is no such setting"));
    }
  }
  return given;
}

absl::StatusOr<GivenSettings> ReadFile(const std::string& path) {
  const auto entries = ReadConfigFile(path);
  if (!entries.ok()) return entries.status();
  GivenSettings given;
  for (const ConfigFileEntry& entry : *entries) {
    const auto& settings = Settings();
    const bool known =
        std::any_of(settings.begin(), settings.end(),
                    [&entry](const Setting& candidate) { return candidate.name == entry.key; });
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("config file ", path, ", line ", entry.line,
                                                     ": there is no setting ", entry.key,
                                                     "; stintd --help lists them"));
    }
    given[entry.key] = {entry.value, absl::StrCat(path, ":", entry.line)};
  }
  return given;
}

bool IsHostAndPort(absl::string_view listen) {
  const size_t colon = listen.rfind(':');
  if (colon == absl::string_view::npos || colon == 0) return false;
  const std::optional<int64_t> port = ParseNumber(listen.substr(colon + 1));
  return port.has_value() && *port <= 65'535;
}

// What single settings cannot tell.
absl::Status CheckTogether(const Config& config) {
  if (!IsHostAndPort(config.listen)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "listen must be host:port, such as 127.0.0.1:7150; is \"", config.listen, "\""));
  }
  if (config.server_cert.empty() != config.server_key.empty()) {
    return absl::InvalidArgumentError("server_cert and server_key go together: set both or none");
  }
  if (!config.client_ca.empty() && config.server_cert.empty()) {
    return absl::InvalidArgumentError("client_ca needs TLS: set server_cert and server_key");
  }
  if (config.require_tls && config.server_cert.empty()) {
    return absl::InvalidArgumentError(
        "require_tls is set, but TLS is not: set server_cert and server_key");
  }
  if (config.insecure && config.has_credentials()) {
    return absl::InvalidArgumentError(
        absl::StrCat("insecure and ", config.tokens_file.empty() ? "client_ca" : "tokens_file",
                     " contradict each other: set one of them"));
  }
  if (config.max_call < 2 * config.max_payload + 128 * kKiB) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_call must be at least 2 * max_payload + 128KiB = ",
                     FormatBytes(2 * config.max_payload + 128 * kKiB), ", is ",
                     FormatBytes(config.max_call), ": an answer with payload and result must fit"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedConfig> LoadConfig(const std::vector<std::string>& arguments,
                                        const std::vector<std::string>& environment) {
  LoadedConfig loaded;
  auto line = ReadCommandLine(arguments);
  if (!line.ok()) return line.status();
  if (!line->text.empty()) {
    loaded.action = Action::kShowText;
    loaded.text = std::move(line->text);
    return loaded;
  }
  if (line->print_config) loaded.action = Action::kPrintConfig;

  std::string config_file;
  const GivenSettings variables = ReadEnvironment(environment, &config_file, &loaded.warnings);
  if (!line->config_file.empty()) config_file = line->config_file;
  GivenSettings given = std::move(line->given);
  given.insert(variables.begin(), variables.end());
  if (!config_file.empty()) {
    const auto file = ReadFile(config_file);
    if (!file.ok()) return file.status();
    given.insert(file->begin(), file->end());
  }

  for (const Setting& setting : Settings()) {
    const auto found = given.find(setting.name);
    Given value = found == given.end() ? Given{setting.standard, "default"} : found->second;
    const std::string asked = value.text;
    if (!Assign(setting, &value.text, &loaded.config)) {
      return absl::InvalidArgumentError(absl::StrCat(setting.name, " (", value.source, ") must be ",
                                                     RangeOf(setting), "; is \"", asked, "\""));
    }
    loaded.settings.push_back({setting.name, value.text, value.source});
  }
  if (absl::Status status = CheckTogether(loaded.config); !status.ok()) return status;
  return loaded;
}

std::string FormatSettings(const std::vector<SettingInForce>& settings) {
  std::string out;
  for (const SettingInForce& setting : settings) {
    const std::string line = absl::StrCat(setting.name, " = ", QuoteToml(setting.value));
    absl::StrAppend(&out, line, std::string(line.size() < 40 ? 40 - line.size() : 1, ' '), "# ",
                    setting.source, "\n");
  }
  return out;
}

bool IsLoopback(absl::string_view listen) {
  const size_t colon = listen.rfind(':');
  absl::string_view host = listen.substr(0, colon);
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost" || host == "::1") return true;
  // 127.0.0.0/8, and nothing that only looks like it (127.example.org).
  return absl::StartsWith(host, "127.") &&
         host.find_first_not_of("0123456789.") == absl::string_view::npos;
}

absl::Status CheckListening(const Config& config) {
  if (config.insecure || config.has_credentials() || IsLoopback(config.listen)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "listen is ", config.listen,
      ", which others can reach, and no credentials are set.\n"
      "On a laptop, for yourself alone:\n"
      "  docker run -e STINT_INSECURE=1 -p 127.0.0.1:7150:7150 stint/stintd\n"
      "With credentials (stint token create prints a line for the file):\n"
      "  docker run -v ./tokens:/run/stint/tokens:ro -e STINT_TOKENS_FILE=/run/stint/tokens "
      "-p 7150:7150 stint/stintd\n"
      "Without docker: --insecure, or --tokens-file FILE, or --listen 127.0.0.1:7150"));
}

}  // namespace stint
