#include "client/cli/job_follower.h"

#include <deque>
#include <utility>

namespace stint::cli {
namespace {

struct Page {
  std::string next;
  int64_t open = 0;  // jobs that have not ended
  std::map<std::string, v1::JobState> jobs;
};

}  // namespace

JobFollower::JobFollower(v1::ListJobsRequest request) : request_(std::move(request)) {
  request_.set_page_size(kPageSize);
}

absl::Status JobFollower::Poll(client::Client& client, const client::CallOptions& calls,
                               const std::function<void(const v1::Job&)>& on_change) {
  std::deque<Page> pages;  // kept ones, from position_ on
  request_.set_page_token(position_);
  do {
    const auto answer = client.ListJobs(request_, calls);
    if (!answer.ok()) return answer.status();
    Page page;
    page.next = answer->next_page_token();
    for (const v1::Job& job : answer->jobs()) {
      const auto before = known_.find(job.name());
      if (before == known_.end() || before->second != job.state()) on_change(job);
      page.jobs[job.name()] = job.state();
      if (!client::HasEnded(job.state())) ++page.open;
    }
    pages.push_back(std::move(page));
    // The last page is kept in any case: it grows.
    while (!pages.front().next.empty() &&
           (pages.front().open == 0 || pages.size() > size_t{kMaxPages})) {
      unfollowed_ += pages.front().open;
      position_ = pages.front().next;
      pages.pop_front();
      if (pages.empty()) break;
    }
    request_.set_page_token(answer->next_page_token());
  } while (!request_.page_token().empty());
  known_.clear();
  for (Page& page : pages) known_.merge(page.jobs);
  return absl::OkStatus();
}

}  // namespace stint::cli
