// Collects everything that is wrong with one request, so that the caller hears of all of it
// at once. One per call; not thread-safe.
#ifndef STINT_SERVER_API_VIOLATIONS_H_
#define STINT_SERVER_API_VIOLATIONS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace stint::api {

class Violations {
 public:
  // `field` is the path in the request, such as `items[3].job.priority`, or empty for the request
  // as a whole; `description` says what it must be and what it was. Only the first kMaxViolations
  // are kept, the rest are counted.
  void Add(absl::string_view field, absl::string_view description);

  bool empty() const { return kept_.empty(); }

  // OK, or INVALID_REQUEST with the violations; each is also named in the message.
  absl::Status ToStatus() const;

 private:
  std::vector<std::pair<std::string, std::string>> kept_;
  size_t kept_bytes_ = 0;
  size_t omitted_ = 0;
};

}  // namespace stint::api

#endif  // STINT_SERVER_API_VIOLATIONS_H_
