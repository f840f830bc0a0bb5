#include "server/engine/error.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/engine/limits.h"

namespace stint::engine {
namespace {

// The details travel in the status as one payload: a sequence of strings, each written as
// its length in decimal, a colon and its bytes.
//   reason, retry_after_ms, resource_type, resource_name,
//   number of metadata entries, their keys and values,
//   number of violations, their fields and descriptions
constexpr absl::string_view kPayloadUrl = "stint.dev/error";

class Writer {
 public:
  void Text(absl::string_view text) { absl::StrAppend(&out_, text.size(), ":", text); }
  void Number(int64_t number) { Text(absl::StrCat(number)); }
  void Pairs(const std::vector<std::pair<std::string, std::string>>& pairs) {
    Number(static_cast<int64_t>(pairs.size()));
    for (const auto& [first, second] : pairs) {
      Text(first);
      Text(second);
    }
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

class Reader {
 public:
  explicit Reader(absl::string_view in) : in_(in) {}

  bool Text(std::string* text) {
    const size_t colon = in_.find(':');
    size_t size = 0;
    if (colon == absl::string_view::npos || !absl::SimpleAtoi(in_.substr(0, colon), &size) ||
        size > in_.size() - colon - 1) {
      return false;
    }
    text->assign(in_.data() + colon + 1, size);
    in_.remove_prefix(colon + 1 + size);
    return true;
  }
  bool Number(int64_t* number) {
    std::string text;
    return Text(&text) && absl::SimpleAtoi(text, number);
  }
  bool Pairs(std::vector<std::pair<std::string, std::string>>* pairs) {
    int64_t count = 0;
    if (!Number(&count)) return false;
    for (int64_t i = 0; i < count; ++i) {
      std::pair<std::string, std::string> pair;
      if (!Text(&pair.first) || !Text(&pair.second)) return false;
      pairs->push_back(std::move(pair));
    }
    return true;
  }

 private:
  absl::string_view in_;
};

}  // namespace

absl::string_view ReasonName(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
#define STINT_ERROR(enumerator, name, code) \
  case Reason::enumerator:                  \
    return #name;
#include "server/engine/errors.def"
#undef STINT_ERROR
  }
  return "";
}

absl::StatusCode ReasonCode(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return absl::StatusCode::kUnknown;
#define STINT_ERROR(enumerator, name, code) \
  case Reason::enumerator:                  \
    return absl::StatusCode::code;
#include "server/engine/errors.def"
#undef STINT_ERROR
  }
  return absl::StatusCode::kUnknown;
}

absl::Status MakeError(ErrorDetails details, absl::string_view message) {
  if (details.violations.size() > kMaxViolations) {
    const size_t omitted = details.violations.size() - kMaxViolations;
    details.violations.resize(kMaxViolations);
    details.metadata.emplace_back("violationsOmitted", absl::StrCat(omitted));
  }
  Writer writer;
  writer.Number(static_cast<int64_t>(details.reason));
  writer.Number(details.retry_after_ms);
  writer.Text(details.resource_type);
  writer.Text(details.resource_name);
  writer.Pairs(details.metadata);
  writer.Pairs(details.violations);
  absl::Status status(ReasonCode(details.reason), message);
  status.SetPayload(kPayloadUrl, absl::Cord(writer.Take()));
  return status;
}

absl::Status MakeError(Reason reason, absl::string_view message,
                       std::vector<std::pair<std::string, std::string>> metadata) {
  ErrorDetails details;
  details.reason = reason;
  details.metadata = std::move(metadata);
  return MakeError(std::move(details), message);
}

std::optional<ErrorDetails> DetailsOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayloadUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::string text(*payload);
  Reader reader(text);
  ErrorDetails details;
  int64_t reason = 0;
  if (!reader.Number(&reason) || !reader.Number(&details.retry_after_ms) ||
      !reader.Text(&details.resource_type) || !reader.Text(&details.resource_name) ||
      !reader.Pairs(&details.metadata) || !reader.Pairs(&details.violations)) {
    return std::nullopt;
  }
  details.reason = static_cast<Reason>(reason);
  return details;
}

Reason ReasonOf(const absl::Status& status) {
  const std::optional<ErrorDetails> details = DetailsOf(status);
  return details.has_value() ? details->reason : Reason::kNone;
}

}  // namespace stint::engine
