#include "client/cli/queue_settings.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/arguments.h"
#include "client/cli/output.h"
#include "client/cpp/proto_time.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace stint::cli {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr absl::string_view kNoLimit = "no limit";

// A flag and the field it sets: `part` within the message field `field`, or `field` itself.
struct Entry {
  absl::string_view flag;
  absl::string_view field;
  absl::string_view part;      // empty: none
  absl::string_view standard;  // what the broker takes when it is not set (queue.proto)
  absl::string_view help;
};

constexpr Entry kEntries[] = {
    {"--max-attempts", "max_attempts", "", "20", "Failures that end a job as dead"},
    {"--max-losses", "max_losses", "", "3", "Lost workers in a row that end a job as dead"},
    {"--retry-initial", "retry", "initial_delay", "1s", "Wait after the first failure"},
    {"--retry-multiplier", "retry", "multiplier", "2", "Factor from one failure to the next"},
    {"--retry-max", "retry", "max_delay", "24h", "Longest wait"},
    {"--retry-jitter", "retry", "jitter", "0.1", "Random part of the wait, 0 to 1"},
    {"--loss-backoff", "loss_backoff", "", "60s", "Base of the wait after repeated losses"},
    {"--run-limit", "run_limit", "", kNoLimit, "Longest time for one attempt"},
    {"--cancel-grace", "cancel_grace", "", "10s", "How long a worker may take to agree"},
    {"--finished-age", "retention", "finished_age", "24h", "Keep completed and cancelled jobs"},
    {"--finished-count", "retention", "finished_count", "1000000", "At most so many of them"},
    {"--finished-bytes", "retention", "finished_bytes", "1073741824",
     "At most so many bytes of them"},
    {"--dead-age", "retention", "dead_age", "14d", "Keep dead jobs"},
    {"--dead-count", "retention", "dead_count", "1000000", "At most so many of them"},
    {"--dead-bytes", "retention", "dead_bytes", "1073741824", "At most so many bytes of them"},
    {"--max-jobs", "max_jobs", "", kNoLimit, "Most jobs that may wait or be leased"},
    {"--max-bytes", "max_bytes", "", kNoLimit, "Most bytes of jobs that wait or are leased"},
};

const FieldDescriptor* Find(const Message& message, absl::string_view name) {
  return message.GetDescriptor()->FindFieldByName(std::string(name));
}

// Sets a number or a duration from text.
absl::Status SetField(const Entry& entry, const std::string& text, Message* message,
                      const FieldDescriptor* field) {
  const google::protobuf::Reflection* const reflection = message->GetReflection();
  const absl::Status wrong =
      absl::InvalidArgumentError(absl::StrCat("'", text, "' is no value for ", entry.flag));
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      if (!absl::SimpleAtoi(text, &value)) return wrong;
      reflection->SetInt32(message, field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t value = 0;
      if (!absl::SimpleAtoi(text, &value)) return wrong;
      reflection->SetInt64(message, field, value);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      double value = 0;
      if (!absl::SimpleAtod(text, &value)) return wrong;
      reflection->SetDouble(message, field, value);
      return absl::OkStatus();
    }
    default: {
      const auto duration = ParseDuration(text);
      if (!duration.ok()) return duration.status();
      reflection->MutableMessage(message, field)->CopyFrom(client::ToProto(*duration));
      return absl::OkStatus();
    }
  }
}

std::string ValueText(const Message& message, const FieldDescriptor* field) {
  const google::protobuf::Reflection* const reflection = message.GetReflection();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(reflection->GetInt32(message, field));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(reflection->GetInt64(message, field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return absl::StrCat(reflection->GetDouble(message, field));
    default: {
      google::protobuf::Duration duration;
      duration.CopyFrom(reflection->GetMessage(message, field));
      return DurationText(duration);
    }
  }
}

}  // namespace

void QueueSettingsFlags::AddTo(CLI::App* command) {
  for (const Entry& entry : kEntries) {
    command
        ->add_option(std::string(entry.flag), texts_.emplace_back(),
                     absl::StrCat(entry.help, " (default ", entry.standard, ")"))
        ->group("Settings");
  }
}

absl::Status QueueSettingsFlags::Give(absl::string_view name, const std::string& text) {
  texts_.resize(std::size(kEntries));
  for (size_t i = 0; i < std::size(kEntries); ++i) {
    if (kEntries[i].flag.substr(2) != name) continue;
    if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(name, " is empty"));
    texts_[i] = text;
    v1::QueueSettings scratch;
    return Apply(&scratch);
  }
  std::vector<absl::string_view> names;
  for (const Entry& entry : kEntries) names.push_back(entry.flag.substr(2));
  return absl::InvalidArgumentError(
      absl::StrCat("there is no setting '", name, "'; there are ", absl::StrJoin(names, ", ")));
}

absl::Status QueueSettingsFlags::Apply(v1::QueueSettings* settings) const {
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i].empty()) continue;
    const Entry& entry = kEntries[i];
    Message* message = settings;
    const FieldDescriptor* field = Find(*message, entry.field);
    if (!entry.part.empty()) {
      message = message->GetReflection()->MutableMessage(message, field);
      field = Find(*message, entry.part);
    }
    const absl::Status status = SetField(entry, texts_[i], message, field);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

std::vector<std::string> QueueSettingsFlags::GivenFields() const {
  std::vector<std::string> fields;
  for (size_t i = 0; i < texts_.size(); ++i) {
    if (texts_[i].empty()) continue;
    const std::string field(kEntries[i].field);
    if (std::find(fields.begin(), fields.end(), field) == fields.end()) fields.push_back(field);
  }
  return fields;
}

std::vector<SettingText> DescribeSettings(const v1::QueueSettings& settings) {
  std::vector<SettingText> lines;
  for (const Entry& entry : kEntries) {
    const Message* message = &settings;
    const FieldDescriptor* field = Find(*message, entry.field);
    if (!entry.part.empty()) {
      message = &message->GetReflection()->GetMessage(*message, field);
      field = Find(*message, entry.part);
    }
    const bool given = message->GetReflection()->HasField(*message, field);
    lines.push_back({std::string(entry.flag.substr(2)),
                     given ? ValueText(*message, field) : std::string(entry.standard), !given});
  }
  return lines;
}

}  // namespace stint::cli
