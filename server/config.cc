#include "server/config.h"

#include <netdb.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/config_file.h"
#include "server/config_settings.h"
#include "server/config_values.h"
#include "server/engine/limits.h"
#include "server/version.h"

namespace stint {
namespace {

constexpr char kVariablePrefix[] = "STINT_";
constexpr size_t kHelpColumns = 100;

// What an answer holds beside a payload and a result.
constexpr int64_t kCallOverheadBytes = 128 << 10;

std::string FlagOf(const Setting& setting) {
  return absl::StrCat("--", absl::StrReplaceAll(setting.name, {{"_", "-"}}));
}

std::string VariableOf(const Setting& setting) {
  return absl::StrCat(kVariablePrefix, absl::AsciiStrToUpper(setting.name));
}

std::string RangeOf(const Setting& setting) {
  switch (setting.form) {
    case Form::kText:
      return "text";
    case Form::kChoice:
      return absl::StrCat("one of ", setting.choices);
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
  if (setting.form == Form::kChoice) {
    const std::vector<std::string> choices = absl::StrSplit(setting.choices, ", ");
    if (std::find(choices.begin(), choices.end(), *text) == choices.end()) return false;
  }
  if (setting.form == Form::kText || setting.form == Form::kChoice) {
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
// The later wins.
enum class Source { kDefault, kFile, kVariable, kFlag };

// What the command line says.
struct CommandLine {
  GivenSettings given;
  std::string config_file;
  bool print_config = false;
  bool check_store = false;
  std::string text;  // help or version, asked for
};

constexpr char kDescription[] =
    "stintd: the broker of Stint.\n"
    "Each setting is a flag, a variable STINT_NAME and a key of the TOML file named by\n"
    "--config; the flag wins over the variable, the variable over the file.";

constexpr char kFooter[] =
    "Sizes are written 64MiB, durations 15s, 10m, 1h30m.\n"
    "Exit codes: 0 drained; 1 stopped by a second signal; 2 bad flag or setting; 3 the store\n"
    "cannot be opened; 4 the store failed while serving; 5 cannot listen; 6 --check-store found\n"
    "something.";

// Help for a terminal of 100 columns: descriptions are broken between words.
class NarrowHelp final : public CLI::Formatter {
 public:
  std::string make_option_desc(const CLI::Option* option) const override {
    const size_t width = kHelpColumns - get_column_width();
    std::string text;
    size_t used = 0;
    for (const absl::string_view word :
         absl::StrSplit(CLI::Formatter::make_option_desc(option), ' ')) {
      const bool breaks = used > 0 && used + 1 + word.size() > width;
      absl::StrAppend(&text, used == 0 ? "" : breaks ? "\n" : " ", word);
      used = breaks || used == 0 ? word.size() : used + 1 + word.size();
    }
    return text;
  }

  std::string make_description(const CLI::App* app) const override {
    return CLI::Formatter::make_description(app) + "\n";
  }
};

absl::StatusOr<CommandLine> ReadCommandLine(const std::vector<std::string>& arguments) {
  CommandLine line;
  CLI::App app(kDescription, "stintd");
  app.formatter(std::make_shared<NarrowHelp>());
  app.footer(kFooter);
  bool version = false;
  app.add_option("--config", line.config_file, "TOML file with settings [STINT_CONFIG]")
      ->type_name("FILE");
  app.add_flag("--print-config", line.print_config,
               "Print the settings in force and where each came from");
  app.add_flag("--check-store", line.check_store,
               "Read the whole store, say whether it is sound, and stop; no broker may run on it");
  app.add_flag("--version", version, "Print the release");
  std::map<std::string, std::vector<std::string>> values;
  for (const Setting& setting : Settings()) {
    const std::string help = absl::StrCat(
        setting.help,
        setting.form == Form::kSwitch || setting.form == Form::kText
            ? ""
            : absl::StrCat("; ", RangeOf(setting)),
        setting.standard.empty() ? "" : absl::StrCat(" (default ", setting.standard, ")"), " [",
        VariableOf(setting), "]");
    CLI::Option* option =
        setting.form == Form::kSwitch
            ? app.add_flag(FlagOf(setting), values[std::string(setting.name)], help)
            : app.add_option(FlagOf(setting), values[std::string(setting.name)], help);
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
    line.given[std::string(setting.name)] = {values[std::string(setting.name)].back(),
                                             FlagOf(setting)};
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
    const absl::Span<const Setting> settings = Settings();
    const auto setting = std::find_if(
        settings.begin(), settings.end(),
        [&variable](const Setting& candidate) { return VariableOf(candidate) == variable.first; });
    if (setting != settings.end()) {
      given[std::string(setting->name)] = {variable.second, variable.first};
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
    const absl::Span<const Setting> settings = Settings();
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

// The host of `host:port`, without the brackets of an IPv6 address.
absl::string_view HostOf(absl::string_view listen) {
  absl::string_view host = listen.substr(0, listen.rfind(':'));
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

// What single settings cannot tell.
absl::Status CheckTogether(const Config& config) {
  if (!IsHostAndPort(config.listen)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "listen must be host:port, such as 127.0.0.1:7150; is \"", config.listen, "\""));
  }
  if (!config.http_listen.empty() && !IsHostAndPort(config.http_listen)) {
    return absl::InvalidArgumentError(
        absl::StrCat("http_listen must be host:port, such as 127.0.0.1:7151, or none; is \"",
                     config.http_listen, "\""));
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
  if (config.max_call < 2 * config.max_payload + kCallOverheadBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_call must be at least 2 * max_payload + 128KiB = ",
                     FormatBytes(2 * config.max_payload + kCallOverheadBytes), ", is ",
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
  if (line->check_store) loaded.action = Action::kCheckStore;
  if (line->print_config) loaded.action = Action::kPrintConfig;

  std::string config_file;
  const GivenSettings flags = line->given;
  const GivenSettings variables = ReadEnvironment(environment, &config_file, &loaded.warnings);
  if (!line->config_file.empty()) config_file = line->config_file;
  GivenSettings given = std::move(line->given);
  given.insert(variables.begin(), variables.end());
  if (!config_file.empty()) {
    const auto file = ReadFile(config_file);
    if (!file.ok()) return file.status();
    given.insert(file->begin(), file->end());
  }
  const auto from = [&](const std::string& name) {
    if (flags.count(name) > 0) return Source::kFlag;
    if (variables.count(name) > 0) return Source::kVariable;
    return given.count(name) > 0 ? Source::kFile : Source::kDefault;
  };

  for (const Setting& setting : Settings()) {
    const auto found = given.find(std::string(setting.name));
    Given value =
        found == given.end() ? Given{std::string(setting.standard), "default"} : found->second;
    const std::string asked = value.text;
    if (!Assign(setting, &value.text, &loaded.config)) {
      return absl::InvalidArgumentError(absl::StrCat(setting.name, " (", value.source, ") must be ",
                                                     RangeOf(setting), "; is \"", asked, "\""));
    }
    loaded.settings.push_back({std::string(setting.name), value.text, value.source});
  }
  if (loaded.config.http_listen == "none") loaded.config.http_listen.clear();
  if (absl::Status status = CheckTogether(loaded.config); !status.ok()) return status;
  if (loaded.config.memory && from("data_dir") != Source::kDefault) {
    // Who names a folder expects to find the jobs there again.
    if (from("data_dir") >= from("memory")) {
      return absl::InvalidArgumentError(
          absl::StrCat("memory and data_dir (", given.at("data_dir").source,
                       ") contradict each other: with memory nothing is written to ",
                       loaded.config.data_dir, "; set one of them"));
    }
    loaded.warnings.push_back(
        absl::StrCat("data_dir (", given.at("data_dir").source, ") is not used: memory is set"));
  }
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
  const absl::string_view host = HostOf(listen);
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
      ", which others can reach, and no credentials are set. Give one of\n"
      "  --listen 127.0.0.1:7150   only this machine can reach it\n"
      "  --tokens-file FILE        ask for credentials (stint token create NAME prints a line for "
      "it)\n"
      "  --insecure                ask nobody, for a network that you trust\n"
      "In a container, for yourself alone:\n"
      "  docker run -e STINT_INSECURE=1 -p 127.0.0.1:7150:7150 stint\n"
      "and with credentials:\n"
      "  docker run -v ./tokens:/run/stint/tokens:ro -e STINT_TOKENS_FILE=/run/stint/tokens "
      "-p 7150:7150 stint"));
}

absl::Status CheckHost(absl::string_view listen) {
  const std::string host(HostOf(listen));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "listen is ", listen, ", but the host \"", host, "\" cannot be found: ",
        gai_strerror(error), "; give an address of this machine, such as 127.0.0.1 or 0.0.0.0"));
  }
  freeaddrinfo(found);
  return absl::OkStatus();
}

}  // namespace stint
