#include "client/cli/arguments.h"

#include <cerrno>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cpp/client.h"
#include "client/cpp/text.h"

namespace stint::cli {
namespace {

constexpr size_t kMaxPayloadBytes = 64 * 1024 * 1024;

absl::StatusOr<std::string> ReadAll(absl::string_view what, std::istream& in) {
  std::string content;
  char buffer[64 * 1024];
  while (in.read(buffer, sizeof(buffer)) || in.gcount() > 0) {
    content.append(buffer, static_cast<size_t>(in.gcount()));
    if (content.size() > kMaxPayloadBytes) {
      return absl::InvalidArgumentError(absl::StrCat(what, " is larger than 64 MiB"));
    }
  }
  if (in.bad()) return absl::InvalidArgumentError(absl::StrCat("cannot read ", what));
  return content;
}

}  // namespace

absl::StatusOr<absl::Duration> ParseDuration(absl::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no duration; write it like 250ms, 10s, 1h30m or 2d"));
  absl::Duration total;
  absl::string_view rest = text;
  // absl knows no days; they may come first.
  const size_t day = rest.find('d');
  if (day != absl::string_view::npos) {
    double days = 0;
    if (!absl::SimpleAtod(rest.substr(0, day), &days) || !(days >= 0 && days < 1e6)) return wrong;
    total = absl::Hours(24) * days;
    rest.remove_prefix(day + 1);
    if (rest.empty()) return total;
  }
  absl::Duration parsed;
  // `0` alone is the one number whose unit does not matter.
  if (!absl::ParseDuration(rest, &parsed) || parsed < absl::ZeroDuration() ||
      parsed == absl::InfiniteDuration()) {
    return wrong;
  }
  return total + parsed;
}

absl::StatusOr<absl::Time> ParseTime(absl::string_view text) {
  absl::Time time;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text,
        "' is no time; write it like 2026-05-01T10:00:00Z or 2026-05-01T12:00:00+02:00"));
  }
  return time;
}

absl::StatusOr<std::string> ParseJobName(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  if (parts.size() == 4 && parts[0] == "queues" && parts[2] == "jobs" && !parts[1].empty() &&
      !parts[3].empty()) {
    return std::string(text);
  }
  if (parts.size() == 2 && !parts[0].empty() && !parts[1].empty()) {
    return client::JobName(parts[0], parts[1]);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is no job; write queues/QUEUE/jobs/ID or QUEUE/ID"));
}

absl::StatusOr<v1::JobState> ParseState(absl::string_view text) {
  v1::JobState state = v1::JOB_STATE_UNSPECIFIED;
  if (!v1::JobState_Parse(absl::StrCat("JOB_STATE_", absl::AsciiStrToUpper(text)), &state) ||
      state == v1::JOB_STATE_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' is no state; use delayed, held, ready, leased, completed, cancelled or "
                     "dead"));
  }
  return state;
}

absl::Status ParsePairs(const std::vector<std::string>& texts,
                        google::protobuf::Map<std::string, std::string>* pairs) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not KEY=VALUE"));
    }
    absl::Status valid = CheckText("a label or header", text);
    if (!valid.ok()) return valid;
    if (!pairs->insert({text.substr(0, equals), text.substr(equals + 1)}).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text.substr(0, equals), "' is given twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadPayload(absl::string_view argument, std::istream& in) {
  if (argument == "-") return ReadAll("standard input", in);
  if (absl::StartsWith(argument, "@@")) return std::string(argument.substr(1));
  if (!absl::StartsWith(argument, "@")) return std::string(argument);
  const std::string path(argument.substr(1));
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(
        absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path)).message());
  }
  return ReadAll(path, file);
}

absl::Status CheckText(absl::string_view what, absl::string_view text) {
  if (client::IsValidUtf8(text)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " is not valid UTF-8"));
}

}  // namespace stint::cli
