#include "server/ops/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace stint::ops {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %v";
constexpr char kJsonPattern[] = "{\"time\":\"%Y-%m-%dT%H:%M:%S.%eZ\",%v}";

struct Output {
  std::shared_ptr<spdlog::logger> logger;
  LogFormat format = LogFormat::kText;
};

std::shared_ptr<spdlog::logger> MakeLogger(LogFormat format) {
  auto logger =
      std::make_shared<spdlog::logger>("stintd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(format == LogFormat::kJson ? kJsonPattern : kTextPattern,
                      spdlog::pattern_time_type::utc);
  logger->flush_on(spdlog::level::trace);
  return logger;
}

Output& TheOutput() {
  // Never destroyed: lines may be written until the very end.
  static auto* const kOutput = new Output{MakeLogger(LogFormat::kText), LogFormat::kText};
  return *kOutput;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// Padded, so that messages begin in one column.
absl::string_view TextName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG   ";
    case LogLevel::kInfo:
      return "INFO    ";
    case LogLevel::kWarning:
      return "WARNING ";
    case LogLevel::kError:
      return "ERROR   ";
  }
  return "ERROR   ";
}

absl::string_view JsonName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

void AppendJson(absl::string_view text, std::string* out) {
  constexpr absl::string_view kHex = "0123456789abcdef";
  out->push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out->push_back('\\');
      out->push_back(c);
    } else if (byte < 0x20 || byte == 0x7F) {
      absl::StrAppend(out, "\\u00");
      out->push_back(kHex[byte >> 4]);
      out->push_back(kHex[byte & 15]);
    } else {
      out->push_back(c);
    }
  }
  out->push_back('"');
}

}  // namespace

void StartLog(LogLevel least, LogFormat format) {
  Output& output = TheOutput();
  output.logger = MakeLogger(format);
  output.logger->set_level(ToSpdlog(least));
  output.format = format;
}

std::string FormatLogText(absl::string_view message, std::initializer_list<LogField> fields) {
  std::string line = absl::Utf8SafeCEscape(message);
  for (const auto& [name, value] : fields) {
    const bool plain = !value.empty() && value.find_first_of(" \"=") == absl::string_view::npos;
    const std::string escaped = absl::Utf8SafeCEscape(value);
    absl::StrAppend(&line, " ", name, plain ? "=" : "=\"", escaped, plain ? "" : "\"");
  }
  return line;
}

std::string FormatLogJson(absl::string_view message, std::initializer_list<LogField> fields) {
  std::string line = "\"message\":";
  AppendJson(message, &line);
  for (const auto& [name, value] : fields) {
    line.push_back(',');
    AppendJson(name, &line);
    line.push_back(':');
    AppendJson(value, &line);
  }
  return line;
}

void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields) {
  const Output& output = TheOutput();
  if (!output.logger->should_log(ToSpdlog(level))) return;
  const std::string line =
      output.format == LogFormat::kJson
          ? absl::StrCat("\"level\":\"", JsonName(level), "\",", FormatLogJson(message, fields))
          : absl::StrCat(TextName(level), FormatLogText(message, fields));
  output.logger->log(ToSpdlog(level), line);
}

}  // namespace stint::ops
