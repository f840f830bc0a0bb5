#include "client/cli/output.h"

#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cpp/proto_time.h"
#include "client/cpp/text.h"
#include "google/protobuf/util/json_util.h"

namespace stint::cli {
namespace {

// Characters, not bytes, so that UTF-8 lines up.
size_t Width(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

const char* Code(Colour colour) {
  switch (colour) {
    case Colour::kNone:
      return "";
    case Colour::kGreen:
      return "\x1b[32m";
    case Colour::kYellow:
      return "\x1b[33m";
    case Colour::kRed:
      return "\x1b[31m";
    case Colour::kBlue:
      return "\x1b[34m";
    case Colour::kGrey:
      return "\x1b[90m";
  }
  return "";
}

}  // namespace

Table::Table(std::vector<std::string> columns, bool aligned, bool coloured, bool header)
    : columns_(std::move(columns)), aligned_(aligned), coloured_(coloured), header_(header) {}

void Table::AddRow(std::vector<Cell> cells) { rows_.push_back(std::move(cells)); }

void Table::Print(std::ostream& out) const {
  std::vector<size_t> widths(columns_.size(), 0);
  if (aligned_) {
    for (size_t i = 0; i < columns_.size(); ++i) widths[i] = header_ ? Width(columns_[i]) : 0;
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i].text));
    }
  }
  const auto print = [&](const std::vector<Cell>& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      out << Coloured(row[i].text, row[i].colour, coloured_);
      if (i + 1 == row.size()) break;
      if (aligned_) {
        out << std::string(widths[i] - Width(row[i].text) + 2, ' ');
      } else {
        out << '\t';
      }
    }
    out << '\n';
  };
  if (header_) {
    std::vector<Cell> header;
    for (const std::string& column : columns_) header.emplace_back(column, Colour::kGrey);
    print(header);
  }
  for (const auto& row : rows_) print(row);
}

std::string Printable(absl::string_view text) {
  std::string printable;
  const std::string valid = client::ToValidUtf8(text);
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    if (byte == '\n') {
      printable += "\\n";
    } else if (byte == '\t') {
      printable += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\x%02x", byte);
      printable += escape;
    } else if (byte == 0xC2 && i + 1 < valid.size() &&
               static_cast<unsigned char>(valid[i + 1]) < 0xA0) {
      // U+0080 to U+009F are control characters to many terminals.
      ++i;
      char escape[12];
      std::snprintf(escape, sizeof(escape), "\\u00%02x", static_cast<unsigned char>(valid[i]));
      printable += escape;
    } else {
      printable += valid[i];
    }
  }
  return printable;
}

std::string Coloured(absl::string_view text, Colour colour, bool coloured) {
  if (!coloured || colour == Colour::kNone) return std::string(text);
  return absl::StrCat(Code(colour), text, "\x1b[0m");
}

std::string ToJson(const google::protobuf::Message& message, bool with_zeros) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = with_zeros;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  // Only a message with invalid UTF-8 or an out-of-range time cannot be written.
  if (!status.ok()) return absl::StrCat("{\"unprintable\":\"", message.GetTypeName(), "\"}");
  return json;
}

std::string StateName(v1::JobState state) {
  return std::string(absl::StripPrefix(v1::JobState_Name(state), "JOB_STATE_"));
}

Colour StateColour(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_COMPLETED:
      return Colour::kGreen;
    case v1::JOB_STATE_LEASED:
      return Colour::kBlue;
    case v1::JOB_STATE_DEAD:
      return Colour::kRed;
    case v1::JOB_STATE_DELAYED:
    case v1::JOB_STATE_HELD:
      return Colour::kYellow;
    case v1::JOB_STATE_CANCELLED:
      return Colour::kGrey;
    default:
      return Colour::kNone;
  }
}

std::string TimeText(const google::protobuf::Timestamp& timestamp) {
  if (timestamp.seconds() == 0 && timestamp.nanos() == 0) return "-";
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", client::ToAbsl(timestamp), absl::UTCTimeZone());
}

std::string DurationText(const google::protobuf::Duration& duration) {
  return ShortDuration(client::ToAbsl(duration));
}

std::string CountText(int64_t count, absl::string_view noun) {
  return absl::StrCat(count, " ", noun, count == 1 ? "" : "s");
}

std::string ShortDuration(absl::Duration duration) {
  if (duration < absl::ZeroDuration()) return absl::StrCat("-", ShortDuration(-duration));
  if (duration < absl::Seconds(10)) {
    return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(1)));
  }
  const int64_t seconds = absl::ToInt64Seconds(duration);
  if (seconds < 60) return absl::StrCat(seconds, "s");
  if (seconds < 3600) return absl::StrCat(seconds / 60, "m", seconds % 60, "s");
  if (seconds < 86'400) return absl::StrCat(seconds / 3600, "h", seconds % 3600 / 60, "m");
  return absl::StrCat(seconds / 86'400, "d", seconds % 86'400 / 3600, "h");
}

}  // namespace stint::cli
