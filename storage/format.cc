#include "storage/format.h"

#include "absl/strings/str_cat.h"
#include "storage/keys.h"
#include "storage/record.pb.h"

namespace stint::storage {
namespace {

std::string ReleaseOr(absl::string_view release, absl::string_view otherwise) {
  return release.empty() ? std::string(otherwise) : absl::StrCat("release ", release);
}

}  // namespace

std::string FormatRowKey() { return MetaKey("format"); }

std::string FormatRow(absl::string_view release) {
  record::FormatRecord stamp;
  stamp.set_format(kFormat);
  stamp.set_readable_by(kReadableBy);
  stamp.set_release(std::string(release));
  return stamp.SerializeAsString();
}

absl::Status CheckFormat(absl::string_view row, absl::string_view our_release) {
  record::FormatRecord stamp;
  if (!stamp.ParseFromArray(row.data(), static_cast<int>(row.size())) || stamp.format() == 0 ||
      stamp.readable_by() == 0) {
    return absl::DataLossError(
        "CORRUPT_RECORD: the format stamp of the store cannot be read. Nothing was changed; "
        "restore the newest checkpoint into the folder.");
  }
  if (stamp.readable_by() > kFormat) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the store is in format ", stamp.format(), ", written by ",
        ReleaseOr(stamp.release(), "an unnamed release"), ", and needs software that knows format ",
        stamp.readable_by(), "; this software (", ReleaseOr(our_release, "unnamed release"),
        ") knows format ", kFormat,
        ". Nothing was changed. Run the newer release, or restore a checkpoint made by this one"));
  }
  return absl::OkStatus();
}

}  // namespace stint::storage
