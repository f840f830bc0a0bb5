#include "server/api/fingerprint.h"

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "server/api/sha256.h"

namespace stint::api {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// What follows a field's number. Part of the stored format: never renumbered.
enum class Kind : uint8_t { kNumber = 1, kText = 2, kMessageBegin = 3, kMessageEnd = 4 };

class Hasher {
 public:
  void Number(uint64_t number) {
    char bytes[8];
    for (size_t i = 0; i < sizeof(bytes); ++i) {
      bytes[i] = static_cast<char>(number >> (8 * (sizeof(bytes) - 1 - i)));
    }
    hash_.Add(absl::string_view(bytes, sizeof(bytes)));
  }
  void Text(absl::string_view text) {
    Number(text.size());
    hash_.Add(text);
  }
  void Mark(Kind kind) {
    const char byte = static_cast<char>(kind);
    hash_.Add(absl::string_view(&byte, 1));
  }
  void Content(const Message& message);
  uint64_t Finish() {
    const Sha256Digest digest = hash_.Finish();
    uint64_t result = 0;
    for (size_t i = 0; i < 8; ++i) result = result << 8 | digest[i];
    return result;
  }

 private:
  // `index` -1: the field is not repeated.
  void Value(const Message& message, const FieldDescriptor* field, int index);
  void Map(const Message& message, const FieldDescriptor* field);

  Sha256 hash_;
};

void Hasher::Value(const Message& message, const FieldDescriptor* field, int index) {
  const Reflection& r = *message.GetReflection();
  const bool one = index < 0;
  const auto number = [this](uint64_t value) {
    Mark(Kind::kNumber);
    Number(value);
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return number(static_cast<uint64_t>(
          int64_t{one ? r.GetInt32(message, field) : r.GetRepeatedInt32(message, field, index)}));
    case FieldDescriptor::CPPTYPE_INT64:
      return number(static_cast<uint64_t>(one ? r.GetInt64(message, field)
                                              : r.GetRepeatedInt64(message, field, index)));
    case FieldDescriptor::CPPTYPE_UINT32:
      return number(one ? r.GetUInt32(message, field) : r.GetRepeatedUInt32(message, field, index));
    case FieldDescriptor::CPPTYPE_UINT64:
      return number(one ? r.GetUInt64(message, field) : r.GetRepeatedUInt64(message, field, index));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return number(std::bit_cast<uint64_t>(one ? r.GetDouble(message, field)
                                                : r.GetRepeatedDouble(message, field, index)));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return number(std::bit_cast<uint32_t>(one ? r.GetFloat(message, field)
                                                : r.GetRepeatedFloat(message, field, index)));
    case FieldDescriptor::CPPTYPE_BOOL:
      return number(one ? r.GetBool(message, field) : r.GetRepeatedBool(message, field, index));
    case FieldDescriptor::CPPTYPE_ENUM:
      return number(static_cast<uint64_t>(int64_t{
          one ? r.GetEnumValue(message, field) : r.GetRepeatedEnumValue(message, field, index)}));
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string scratch;
      Mark(Kind::kText);
      Text(one ? r.GetStringReference(message, field, &scratch)
               : r.GetRepeatedStringReference(message, field, index, &scratch));
      return;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      Mark(Kind::kMessageBegin);
      Content(one ? r.GetMessage(message, field) : r.GetRepeatedMessage(message, field, index));
      Mark(Kind::kMessageEnd);
      return;
  }
}

// All maps of the API have texts as keys.
void Hasher::Map(const Message& message, const FieldDescriptor* field) {
  const Reflection& r = *message.GetReflection();
  const FieldDescriptor* key = field->message_type()->map_key();
  std::vector<std::pair<std::string, const Message*>> entries;
  for (int i = 0; i < r.FieldSize(message, field); ++i) {
    const Message& entry = r.GetRepeatedMessage(message, field, i);
    entries.emplace_back(entry.GetReflection()->GetString(entry, key), &entry);
  }
  std::sort(entries.begin(), entries.end());
  for (const auto& [name, entry] : entries) {
    Mark(Kind::kMessageBegin);
    Text(name);
    Value(*entry, field->message_type()->map_value(), -1);
    Mark(Kind::kMessageEnd);
  }
}

void Hasher::Content(const Message& message) {
  const Reflection& r = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  r.ListFields(message, &fields);  // the set ones, in order of their numbers
  for (const FieldDescriptor* field : fields) {
    if (field->name() == "request_id") continue;
    Number(static_cast<uint64_t>(field->number()));
    if (field->is_map()) {
      Map(message, field);
    } else if (field->is_repeated()) {
      const int size = r.FieldSize(message, field);
      Number(static_cast<uint64_t>(size));
      for (int i = 0; i < size; ++i) Value(message, field, i);
    } else {
      Value(message, field, -1);
    }
  }
}

}  // namespace

uint64_t Fingerprint(absl::string_view method, const Message& request) {
  Hasher hasher;
  hasher.Text(method);
  hasher.Content(request);
  return hasher.Finish();
}

}  // namespace stint::api
