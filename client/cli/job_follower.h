// Follows the jobs of a queue by polling ListJobs: tells of each job that appeared and of each
// whose state changed since the poll before.
//
// It remembers the page of the listing that holds the oldest job that has not ended; a poll reads
// from there to the end. What lies before is not read again, so that a poll costs the same however
// many jobs the queue has kept. When over kMaxPages pages would have to be read, the oldest are
// given up, and `unfollowed` counts what had not ended in them.
//
// What it misses: states between two polls, a job that was removed before a poll saw it, and
// whatever happens to jobs it has given up.
//
// Thread rule: one thread.
#ifndef STINT_CLIENT_CLI_JOB_FOLLOWER_H_
#define STINT_CLIENT_CLI_JOB_FOLLOWER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/client.h"

namespace stint::cli {

class JobFollower {
 public:
  static constexpr int kPageSize = 500;
  static constexpr int kMaxPages = 20;

  // `request` says which jobs, for all states: without page size and token.
  explicit JobFollower(v1::ListJobsRequest request);

  // Calls `on_change` in the order in which the jobs were enqueued. The first poll goes through the
  // whole listing; each page of it is a call.
  absl::Status Poll(client::Client& client, const client::CallOptions& calls,
                    const std::function<void(const v1::Job&)>& on_change);

  // Jobs that are not followed any more although they had not ended.
  int64_t unfollowed() const { return unfollowed_; }

 private:
  v1::ListJobsRequest request_;
  std::string position_;                       // token of the first page to read
  std::map<std::string, v1::JobState> known_;  // what the poll before saw from there on
  int64_t unfollowed_ = 0;
};

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_JOB_FOLLOWER_H_
