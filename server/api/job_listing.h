// One page of ListJobs from the store. Thread-safe: functions without state.
#ifndef STINT_SERVER_API_JOB_LISTING_H_
#define STINT_SERVER_API_JOB_LISTING_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "server/api/page_token.h"
#include "stint/v1/job_service.pb.h"
#include "storage/reader.h"

namespace stint::api {

// The page that `request` (checked by validate.h) asks for, in at most `max_bytes` unless
// its first job alone is larger.
absl::StatusOr<v1::ListJobsResponse> ReadJobPage(const storage::Reader& reader,
                                                 const PageTokens& tokens,
                                                 const v1::ListJobsRequest& request,
                                                 size_t max_bytes);

}  // namespace stint::api

#endif  // STINT_SERVER_API_JOB_LISTING_H_
