#include "server/engine/refusals.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/error.h"
#include "server/engine/limits.h"

namespace stint::engine {
namespace {

absl::Status About(Reason reason, absl::string_view type, std::string name,
                   absl::string_view message) {
  ErrorDetails details;
  details.reason = reason;
  details.resource_type = std::string(type);
  details.resource_name = std::move(name);
  return MakeError(std::move(details), message);
}

}  // namespace

std::string JobName(const JobRef& job) {
  return absl::StrCat("queues/", job.queue, "/jobs/", job.job_id);
}

absl::Status JobNotFound(const JobRef& job) {
  return About(Reason::kJobNotFound, "job", JobName(job),
               absl::StrCat(JobName(job), " does not exist, or its record is no longer kept"));
}

absl::Status JobUnreadable(const JobRef& job) {
  return MakeError(Reason::kCorruptRecord,
                   absl::StrCat("the record of ", JobName(job),
                                " cannot be read; purge or delete its queue, or restore a "
                                "checkpoint"));
}

absl::Status JobExists(const JobRef& job) {
  return About(
      Reason::kJobExists, "job", JobName(job),
      absl::StrCat("queue ", job.queue, " already has a job ", job.job_id, "; nothing was added"));
}

absl::Status QueueNotFound(absl::string_view queue) {
  return About(Reason::kQueueNotFound, "queue", absl::StrCat("queues/", queue),
               absl::StrCat("there is no queue ", queue));
}

absl::Status QueueExists(absl::string_view queue) {
  return About(Reason::kQueueExists, "queue", absl::StrCat("queues/", queue),
               absl::StrCat("queue ", queue, " exists; update it instead"));
}

absl::Status QueueFull(absl::string_view queue, absl::string_view what, int64_t limit) {
  ErrorDetails details;
  details.reason = Reason::kQueueFull;
  details.metadata = {{"queue", std::string(queue)}, {"limit", absl::StrCat(limit)}};
  details.retry_after_ms = kSecondMs;
  return MakeError(
      std::move(details),
      absl::StrCat("queue ", queue, " is full: its settings allow ", limit, " ", what));
}

absl::Status TooManyQueues() {
  return MakeError(Reason::kQuota,
                   absl::StrCat("there are ", kMaxQueues, " queues already; delete some"));
}

absl::Status LowSpace() {
  ErrorDetails details;
  details.reason = Reason::kStoreLowSpace;
  details.retry_after_ms = 5 * kSecondMs;
  return MakeError(std::move(details),
                   "the broker's disk is nearly full: nothing that adds jobs is taken until "
                   "space returns");
}

}  // namespace stint::engine
