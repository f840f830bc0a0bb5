// The log: lines for the operator on standard error, as text or as JSON. Never a payload,
// never a secret; what a line is about goes into fields.
//
//   LogInfo("listening", {{"address", address}});
//   2026-01-01T12:00:00.000Z INFO  listening address=127.0.0.1:7150
//   {"time":"2026-01-01T12:00:00.000Z","level":"info","message":"listening","address":"…"}
//
// Thread-safe after StartLog, which main calls once; before it, lines are text at INFO.
#ifndef STINT_SERVER_OPS_LOG_H_
#define STINT_SERVER_OPS_LOG_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace stint::ops {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogFormat { kText, kJson };

using LogField = std::pair<absl::string_view, absl::string_view>;

void StartLog(LogLevel least, LogFormat format);

void Log(LogLevel level, absl::string_view message, std::initializer_list<LogField> fields = {});

inline void LogInfo(absl::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kInfo, message, fields);
}
inline void LogWarning(absl::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kWarning, message, fields);
}
inline void LogError(absl::string_view message, std::initializer_list<LogField> fields = {}) {
  Log(LogLevel::kError, message, fields);
}

// The part of a line after its level.
std::string FormatLogText(absl::string_view message, std::initializer_list<LogField> fields);
// The same in JSON, without the braces.
std::string FormatLogJson(absl::string_view message, std::initializer_list<LogField> fields);

}  // namespace stint::ops

#endif  // STINT_SERVER_OPS_LOG_H_
