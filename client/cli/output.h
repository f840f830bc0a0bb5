// How `stint` prints: tables for people, one JSON object a line for programs.
//
// On a terminal a table is aligned and may be coloured; otherwise its cells are separated by
// one tab and nothing is cut, so that `cut` and `awk` can read it. Whatever comes from a job is
// printed so that it cannot move the cursor or forge a line.
//
// JSON is protobuf's own form with the field names of the .proto files: 64-bit numbers are
// strings, bytes are base64, durations are like "15s".
//
// Thread rule: one thread.
#ifndef STINT_CLIENT_CLI_OUTPUT_H_
#define STINT_CLIENT_CLI_OUTPUT_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/message.h"
#include "google/protobuf/timestamp.pb.h"
#include "stint/v1/job.pb.h"

namespace stint::cli {

enum class Colour { kNone, kGreen, kYellow, kRed, kBlue, kGrey };

struct Cell {
  Cell(std::string given, Colour shade = Colour::kNone)  // NOLINT: cells are written as text
      : text(std::move(given)), colour(shade) {}
  std::string text;
  Colour colour;
};

class Table {
 public:
  // `aligned`: for a terminal. `header` false: rows only.
  Table(std::vector<std::string> columns, bool aligned, bool coloured, bool header = true);

  void AddRow(std::vector<Cell> cells);
  void Print(std::ostream& out) const;

 private:
  std::vector<std::string> columns_;
  bool aligned_;
  bool coloured_;
  bool header_;
  std::vector<std::vector<Cell>> rows_;
};

// `text` with control characters and invalid UTF-8 written as escapes.
std::string Printable(absl::string_view text);

std::string Coloured(absl::string_view text, Colour colour, bool coloured);

// One line of JSON, without the newline. `with_zeros`: for figures, of which none may be missing.
std::string ToJson(const google::protobuf::Message& message, bool with_zeros = false);

// `READY` for JOB_STATE_READY.
std::string StateName(v1::JobState state);
Colour StateColour(v1::JobState state);

// `2026-05-01T10:00:00Z`; `-` for an unset one.
std::string TimeText(const google::protobuf::Timestamp& timestamp);
std::string DurationText(const google::protobuf::Duration& duration);
// `1 job`, `2 jobs`.
std::string CountText(int64_t count, absl::string_view noun);
// Two units at most: `3m12s`, `2d4h`.
std::string ShortDuration(absl::Duration duration);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_OUTPUT_H_
