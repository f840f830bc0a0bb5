#include "server/api/parse_request.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/stubs/logging.h"
#include "server/api/violations.h"

namespace stint::api {
namespace {

// The parser tells only its log which field is not UTF-8:
//   String field 'stint.v1.EnqueueJobRequest.queue' contains invalid UTF-8 data …
// So this thread's log lines are kept while it parses, and none reaches the process's
// output, where a hostile caller could fill a disk with them.
thread_local std::string* parse_log = nullptr;

void KeepLog(google::protobuf::LogLevel, const char*, int, const std::string& message) {
  if (parse_log != nullptr && parse_log->empty()) *parse_log = message;
}

// "queue" of the line above; "" if it is another line.
std::string FieldIn(const std::string& log) {
  if (!absl::StrContains(log, "invalid UTF-8")) return "";
  const std::vector<std::string> parts = absl::StrSplit(log, '\'');
  if (parts.size() < 3) return "";
  const std::vector<std::string> path = absl::StrSplit(parts[1], '.');
  return path.back();
}

}  // namespace

absl::Status ParseRequest(google::protobuf::io::ZeroCopyInputStream* bytes,
                          google::protobuf::Message* request) {
  static const bool kInstalled = (google::protobuf::SetLogHandler(KeepLog), true);
  static_cast<void>(kInstalled);
  std::string log;
  parse_log = &log;
  const bool parsed = request->ParseFromZeroCopyStream(bytes);
  parse_log = nullptr;
  if (parsed) return absl::OkStatus();
  Violations violations;
  if (const std::string field = FieldIn(log); !field.empty()) {
    violations.Add(field, "is not valid UTF-8");
  } else {
    violations.Add("", absl::StrCat("the bytes are no ", request->GetTypeName(), " message"));
  }
  return violations.ToStatus();
}

}  // namespace stint::api
