#include "server/api/job_listing.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/api/convert.h"
#include "server/api/fingerprint.h"
#include "server/api/job_filter.h"
#include "server/api/not_found.h"
#include "server/api/violations.h"
#include "server/engine/limits.h"

namespace stint::api {
namespace {

// What the token is tied to: everything that decides which jobs are listed.
uint64_t FilterHash(const v1::ListJobsRequest& request, uint32_t queue) {
  v1::ListJobsRequest filter = request;
  filter.clear_page_size();
  filter.clear_page_token();
  filter.clear_view();
  return Fingerprint(absl::StrCat("ListJobs/", queue), filter);
}

absl::StatusOr<uint64_t> StartOf(const PageTokens& tokens, const v1::ListJobsRequest& request,
                                 uint64_t filter_hash) {
  if (request.page_token().empty()) return uint64_t{0};
  auto position = tokens.Open(filter_hash, request.page_token());
  if (!position.ok()) return position.status();
  uint64_t sequence = 0;
  if (!absl::SimpleAtoi(*position, &sequence)) {
    Violations violations;
    violations.Add("page_token", "is not a page token of this listing");
    return violations.ToStatus();
  }
  return sequence;
}

// Reads `page` again with payloads and results, as many of its jobs as fit.
absl::StatusOr<storage::JobPage> WithPayloads(const storage::Reader& reader,
                                              const storage::StoredQueue& queue,
                                              const v1::ListJobsRequest& request, uint64_t from,
                                              storage::JobPage page, size_t max_bytes) {
  absl::flat_hash_set<uint64_t> chosen;
  size_t bytes = 0;
  uint64_t next = page.next_sequence;
  for (const storage::StoredJob& job : page.jobs) {
    bytes += static_cast<size_t>(job.record.size_bytes() + job.state.result_bytes());
    if (!chosen.empty() && bytes > max_bytes) {
      next = job.key.sequence;
      break;
    }
    chosen.insert(job.key.sequence);
  }
  if (chosen.empty()) return page;
  auto full = reader.ListJobs(queue, from, chosen.size(), engine::kMaxRowsExaminedPerPage, true,
                              [&](const storage::StoredJob& job) {
                                return chosen.contains(job.key.sequence) && Matches(request, job);
                              });
  if (!full.ok()) return full.status();
  full->next_sequence = next;
  return full;
}

}  // namespace

absl::StatusOr<v1::ListJobsResponse> ReadJobPage(const storage::Reader& reader,
                                                 const PageTokens& tokens,
                                                 const v1::ListJobsRequest& request,
                                                 size_t max_bytes) {
  auto queue = reader.FindQueue(request.queue());
  if (!queue.ok()) return queue.status();
  if (!queue->has_value()) return QueueNotFound(request.queue());
  const uint64_t filter_hash = FilterHash(request, (*queue)->id);
  const auto from = StartOf(tokens, request, filter_hash);
  if (!from.ok()) return from.status();

  const int asked = request.page_size() == 0 ? engine::kDefaultPageSize : request.page_size();
  const size_t limit = static_cast<size_t>(std::min(asked, engine::kMaxPageSize));
  const size_t budget = max_bytes - std::min(max_bytes, kPageOverheadBytes);
  auto page =
      reader.ListJobs(**queue, *from, limit, engine::kMaxRowsExaminedPerPage, false,
                      [&request](const storage::StoredJob& job) { return Matches(request, job); });
  const v1::JobView view =
      request.view() == v1::JOB_VIEW_FULL ? v1::JOB_VIEW_FULL : v1::JOB_VIEW_BASIC;
  if (page.ok() && view == v1::JOB_VIEW_FULL) {
    page = WithPayloads(reader, **queue, request, *from, *std::move(page), budget);
  }
  if (!page.ok()) return page.status();

  v1::ListJobsResponse response;
  uint64_t next = page->next_sequence;
  size_t bytes = 0;
  for (storage::StoredJob& stored : page->jobs) {
    const uint64_t sequence = stored.key.sequence;
    v1::Job job = ToJob(request.queue(), std::move(stored), (*queue)->record.settings(), view);
    bytes += job.ByteSizeLong() + kItemOverheadBytes;
    if (bytes > budget && !response.jobs().empty()) {
      next = sequence;
      break;
    }
    *response.add_jobs() = std::move(job);
  }
  if (next != 0) response.set_next_page_token(tokens.Seal(filter_hash, absl::StrCat(next)));
  return response;
}

}  // namespace stint::api
