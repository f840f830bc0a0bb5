#include "client/cli/jobs_display.h"

#include <algorithm>
#include <functional>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cpp/proto_time.h"

namespace stint::cli {
namespace {

constexpr size_t kShownPayloadBytes = 2048;

std::string JobId(const v1::Job& job) {
  const size_t slash = job.name().rfind('/');
  return slash == std::string::npos ? job.name() : job.name().substr(slash + 1);
}

std::string Pairs(const google::protobuf::Map<std::string, std::string>& pairs) {
  std::vector<std::string> texts;
  for (const auto& [key, value] : pairs) texts.push_back(absl::StrCat(key, "=", value));
  std::sort(texts.begin(), texts.end());
  return absl::StrJoin(texts, ",");
}

std::string EndReasonName(v1::EndReason reason) {
  if (reason == v1::END_REASON_UNSPECIFIED) return "-";
  return std::string(absl::StripPrefix(v1::EndReason_Name(reason), "END_REASON_"));
}

std::string DueText(const v1::Job& job) {
  return job.spec().has_due_time() ? TimeText(job.spec().due_time()) : "-";
}

using MakeText = std::function<std::string(const v1::Job&)>;

const std::map<std::string, MakeText>& Columns() {
  static const std::map<std::string, MakeText> kColumns = {
      {"job", [](const v1::Job& job) { return job.name(); }},
      {"id", JobId},
      {"state", [](const v1::Job& job) { return StateName(job.state()); }},
      {"end_reason", [](const v1::Job& job) { return EndReasonName(job.end_reason()); }},
      {"kind", [](const v1::Job& job) { return job.spec().kind(); }},
      {"priority", [](const v1::Job& job) { return absl::StrCat(job.spec().priority()); }},
      {"attempt", [](const v1::Job& job) { return absl::StrCat(job.attempt()); }},
      {"failures", [](const v1::Job& job) { return absl::StrCat(job.failures()); }},
      {"losses", [](const v1::Job& job) { return absl::StrCat(job.consecutive_losses()); }},
      {"created", [](const v1::Job& job) { return TimeText(job.create_time()); }},
      {"updated", [](const v1::Job& job) { return TimeText(job.update_time()); }},
      {"ended", [](const v1::Job& job) { return TimeText(job.end_time()); }},
      {"due", DueText},
      {"worker", [](const v1::Job& job) { return job.holder().worker(); }},
      {"labels", [](const v1::Job& job) { return Pairs(job.spec().labels()); }},
      {"payload", [](const v1::Job& job) { return job.spec().payload(); }},
      {"result", [](const v1::Job& job) { return job.result(); }},
      {"error", [](const v1::Job& job) { return job.last_error(); }},
  };
  return kColumns;
}

}  // namespace

std::string JobColumnNames() {
  std::vector<std::string> names;
  for (const auto& [name, make] : Columns()) names.push_back(name);
  return absl::StrJoin(names, ", ");
}

absl::StatusOr<std::vector<std::string>> ParseJobColumns(const std::string& comma_separated) {
  std::vector<std::string> columns =
      absl::StrSplit(absl::AsciiStrToLower(comma_separated), ',', absl::SkipWhitespace());
  for (const std::string& column : columns) {
    if (Columns().count(column) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no column '", column, "'; there are ", JobColumnNames()));
    }
  }
  if (columns.empty()) return absl::InvalidArgumentError("--columns names no column");
  return columns;
}

bool NeedsFullView(const std::vector<std::string>& columns) {
  return std::any_of(columns.begin(), columns.end(), [](const std::string& column) {
    return column == "payload" || column == "result";
  });
}

std::vector<Cell> JobRow(const v1::Job& job, const std::vector<std::string>& columns) {
  std::vector<Cell> row;
  for (const std::string& column : columns) {
    row.emplace_back(Printable(Columns().at(column)(job)),
                     column == "state" ? StateColour(job.state()) : Colour::kNone);
  }
  return row;
}

void PrintJob(const v1::Job& job, Session& session) {
  Table table({"", ""}, /*aligned=*/session.align(), session.colour(), /*header=*/false);
  const auto add = [&table](const char* name, const std::string& value,
                            Colour colour = Colour::kNone) {
    if (!value.empty() && value != "-") {
      table.AddRow({Cell(name, Colour::kGrey), Cell(Printable(value), colour)});
    }
  };
  add("job", job.name());
  add("state", StateName(job.state()), StateColour(job.state()));
  add("end reason", EndReasonName(job.end_reason()));
  if (job.cancel_requested()) add("cancel", "asked for; the worker has not agreed yet");
  add("kind", job.spec().kind());
  add("priority", absl::StrCat(job.spec().priority()));
  add("attempt", absl::StrCat(job.attempt()));
  if (job.failures() > 0) add("failures", absl::StrCat(job.failures()));
  if (job.consecutive_losses() > 0) add("losses", absl::StrCat(job.consecutive_losses()));
  add("created", TimeText(job.create_time()));
  add("updated", TimeText(job.update_time()));
  add("ended", TimeText(job.end_time()));
  add("due", DueText(job));
  if (job.has_holder()) {
    add("worker", job.holder().worker());
    add("token", absl::StrCat(job.holder().token()));
    add("leased", TimeText(job.holder().grant_time()));
  }
  add("labels", Pairs(job.spec().labels()));
  add("headers", Pairs(job.spec().headers()));
  add("content type", job.spec().content_type());
  for (const v1::AttemptRecord& attempt : job.attempts()) {
    add("ended attempt",
        absl::StrCat(
            attempt.attempt(), " ",
            absl::StripPrefix(v1::AttemptOutcome_Name(attempt.outcome()), "ATTEMPT_OUTCOME_"), " ",
            TimeText(attempt.end_time()), " ", attempt.worker(), " ", attempt.error()));
  }
  add("last error", job.last_error());
  const auto bytes = [&add](const char* name, const std::string& value) {
    if (value.empty()) return;
    add(name, value.size() <= kShownPayloadBytes
                  ? value
                  : absl::StrCat(value.substr(0, kShownPayloadBytes), "… (", value.size(),
                                 " bytes; --", name, " prints them)"));
  };
  add("progress", job.progress());
  bytes("payload", job.spec().payload());
  bytes("result", job.result());
  table.Print(session.out());
}

}  // namespace stint::cli
