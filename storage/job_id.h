// Job ids made by the broker: "j-" and the sequence in 13 digits of base 32 (0-9a-v), so that
// an id finds its rows without an index and ids sort as they were made.
#ifndef STINT_STORAGE_JOB_ID_H_
#define STINT_STORAGE_JOB_ID_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace stint::storage {

std::string MakeJobId(uint64_t sequence);
// The sequence in an id made by MakeJobId; nullopt for any other id. Callers may not choose
// an id of this form.
std::optional<uint64_t> SequenceOfJobId(absl::string_view job_id);

}  // namespace stint::storage

#endif  // STINT_STORAGE_JOB_ID_H_
