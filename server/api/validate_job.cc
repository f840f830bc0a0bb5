#include <string>

#include "absl/strings/str_cat.h"
#include "server/api/checks.h"
#include "server/api/settings_checks.h"
#include "server/api/text.h"
#include "server/api/validate.h"
#include "server/engine/types.h"
#include "storage/job_id.h"

namespace stint::api {
namespace {

void CheckHeaders(absl::string_view field, const v1::JobSpec& spec, Violations* violations) {
  CheckCount(field, static_cast<size_t>(spec.headers_size()), 0, engine::kMaxHeaders, violations);
  size_t bytes = 0;
  bool empty_key = false;
  for (const auto& [key, value] : spec.headers()) {
    bytes += key.size() + value.size();
    empty_key |= key.empty();
  }
  if (empty_key) violations->Add(field, "must not have an empty key");
  CheckBytes(field, bytes, engine::kMaxHeaderBytes, violations);
}

void CheckLabels(absl::string_view field,
                 const google::protobuf::Map<std::string, std::string>& labels,
                 Violations* violations) {
  CheckCount(field, labels.size(), 0, engine::kMaxLabels, violations);
  for (const auto& [key, value] : labels) {
    if (key.empty()) violations->Add(field, "must not have an empty key");
    CheckBytes(absl::StrCat(field, ": key ", Quote(key)), key.size(), engine::kMaxLabelBytes,
               violations);
    CheckBytes(absl::StrCat(field, "[", Quote(key), "]"), value.size(), engine::kMaxLabelBytes,
               violations);
  }
}

// `prefix` is empty or ends in a dot.
void CheckSchedule(absl::string_view prefix, const v1::JobSpec& spec, Violations* violations) {
  const auto field = [prefix](absl::string_view name) { return absl::StrCat(prefix, name); };
  if (spec.has_priority()) {
    CheckRange(field("priority"), int64_t{spec.priority()}, 0, engine::kMaxPriority, violations);
  }
  if (spec.has_due_time()) CheckTimestamp(field("due_time"), spec.due_time(), violations);
  if (spec.has_delay()) {
    CheckDuration(field("delay"), spec.delay(), 0, engine::kMaxDelayMs, violations);
  }
}

void CheckSpec(absl::string_view prefix, const v1::JobSpec& spec, const EdgeLimits& limits,
               Violations* violations) {
  const auto field = [prefix](absl::string_view name) { return absl::StrCat(prefix, name); };
  CheckBytes(field("kind"), spec.kind().size(), engine::kMaxKindBytes, violations);
  CheckBytes(field("payload"), spec.payload().size(), limits.max_payload_bytes, violations);
  CheckBytes(field("content_type"), spec.content_type().size(), engine::kMaxContentTypeBytes,
             violations);
  CheckHeaders(field("headers"), spec, violations);
  CheckLabels(field("labels"), spec.labels(), violations);
  CheckSchedule(prefix, spec, violations);
  if (spec.has_expire_time()) CheckTimestamp(field("expire_time"), spec.expire_time(), violations);
  if (spec.has_expire_after()) {
    CheckDuration(field("expire_after"), spec.expire_after(), 1, engine::kMaxDelayMs, violations);
  }
  CheckBudgets(prefix, spec, violations);
}

void CheckJobId(absl::string_view field, const std::string& job_id, Violations* violations) {
  CheckOptionalId(field, job_id, violations);
  if (storage::SequenceOfJobId(job_id).has_value()) {
    violations->Add(
        field, absl::StrCat("must not have the form of the broker's own ids; is ", Quote(job_id)));
  }
}

void CheckView(v1::JobView view, Violations* violations) {
  if (!v1::JobView_IsValid(view)) {
    violations->Add("view", absl::StrCat("must be BASIC or FULL, is ", static_cast<int>(view)));
  }
}

void CheckUpdatePath(const std::string& path, const v1::JobSpec& spec, Violations* violations) {
  bool set = false;
  if (path == "priority") {
    set = spec.has_priority();
  } else if (path == "due_time") {
    set = spec.has_due_time();
  } else if (path == "delay") {
    set = spec.has_delay();
  } else if (path == "max_attempts") {
    set = spec.has_max_attempts();
  } else if (path == "max_losses") {
    set = spec.has_max_losses();
  } else {
    violations->Add("update_mask",
                    absl::StrCat("may name priority, due_time, delay, max_attempts and "
                                 "max_losses; has ",
                                 Quote(path)));
    return;
  }
  if (!set) violations->Add(absl::StrCat("spec.", path), "is named by update_mask but not set");
}

// `prefix` is empty or ends in a dot; `Filter` is v1::ListJobsRequest or v1::JobFilter.
template <typename Filter>
void CheckFilter(absl::string_view prefix, const Filter& filter, Violations* violations) {
  const auto field = [prefix](absl::string_view name) { return absl::StrCat(prefix, name); };
  CheckCount(field("states"), static_cast<size_t>(filter.states_size()), 0, v1::JobState_ARRAYSIZE,
             violations);
  for (int i = 0; i < filter.states_size() && i < v1::JobState_ARRAYSIZE; ++i) {
    const int state = filter.states(i);
    if (state == v1::JOB_STATE_UNSPECIFIED || !v1::JobState_IsValid(state)) {
      violations->Add(absl::StrCat(prefix, "states[", i, "]"),
                      absl::StrCat("must be a state of a job, is ", state));
    }
  }
  if (filter.has_kind()) {
    CheckBytes(field("kind"), filter.kind().size(), engine::kMaxKindBytes, violations);
  }
  CheckLabels(field("labels"), filter.labels(), violations);
  if (filter.has_created_after()) {
    CheckTimestamp(field("created_after"), filter.created_after(), violations);
  }
  if (filter.has_created_before()) {
    CheckTimestamp(field("created_before"), filter.created_before(), violations);
  }
}

// What the three batch requests share. `allowed` says which states the filter may name, and
// `which` says it in words.
template <typename Request, typename Allowed>
absl::Status CheckBatch(const Request& request, Allowed allowed, absl::string_view which) {
  Violations violations;
  CheckId("queue", request.queue(), &violations);
  CheckFilter("filter.", request.filter(), &violations);
  for (int i = 0; i < request.filter().states_size() && i < v1::JobState_ARRAYSIZE; ++i) {
    const v1::JobState state = request.filter().states(i);
    if (state == v1::JOB_STATE_UNSPECIFIED || !v1::JobState_IsValid(state) || allowed(state)) {
      continue;
    }
    violations.Add(absl::StrCat("filter.states[", i, "]"),
                   absl::StrCat("must be ", which, "; is ",
                                engine::JobStateName(static_cast<engine::JobState>(state))));
  }
  if (request.limit() < 0) {
    violations.Add(
        "limit", absl::StrCat("must be 1 to ", engine::kMaxBatchChanges, ", is ", request.limit()));
  }
  CheckRequestId(request.request_id(), &violations);
  return violations.ToStatus();
}

}  // namespace

absl::Status Validate(const v1::EnqueueJobRequest& request, const EdgeLimits& limits) {
  Violations violations;
  CheckId("queue", request.queue(), &violations);
  CheckSpec("job.", request.job(), limits, &violations);
  CheckJobId("job_id", request.job_id(), &violations);
  CheckRequestId(request.request_id(), &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::BatchEnqueueJobsRequest& request, const EdgeLimits& limits) {
  Violations violations;
  CheckId("queue", request.queue(), &violations);
  CheckRequestId(request.request_id(), &violations);
  const size_t count = static_cast<size_t>(request.items_size());
  CheckCount("items", count, 1, engine::kMaxBatchItems, &violations);
  // Items beyond the limit are refused as a whole, unread.
  if (count <= engine::kMaxBatchItems) {
    for (int i = 0; i < request.items_size(); ++i) {
      const v1::BatchEnqueueItem& item = request.items(i);
      CheckSpec(absl::StrCat("items[", i, "].job."), item.job(), limits, &violations);
      CheckJobId(absl::StrCat("items[", i, "].job_id"), item.job_id(), &violations);
    }
  }
  return violations.ToStatus();
}

absl::Status Validate(const v1::GetJobRequest& request) {
  Violations violations;
  CheckJobName("job", request.job(), &violations);
  CheckView(request.view(), &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::ListJobsRequest& request) {
  Violations violations;
  CheckId("queue", request.queue(), &violations);
  CheckFilter("", request, &violations);
  CheckPageSize(request.page_size(), &violations);
  CheckView(request.view(), &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::WaitJobRequest& request) {
  Violations violations;
  CheckJobName("job", request.job(), &violations);
  if (request.has_wait()) {
    CheckDuration("wait", request.wait(), 0, engine::kMaxWaitMs, &violations);
  }
  return violations.ToStatus();
}

absl::Status Validate(const v1::CancelJobRequest& request) {
  Violations violations;
  CheckJobName("job", request.job(), &violations);
  CheckRequestId(request.request_id(), &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::RedriveJobRequest& request) {
  Violations violations;
  CheckJobName("job", request.job(), &violations);
  CheckRequestId(request.request_id(), &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::DeleteJobRequest& request) {
  Violations violations;
  CheckJobName("job", request.job(), &violations);
  CheckRequestId(request.request_id(), &violations);
  return violations.ToStatus();
}

absl::Status Validate(const v1::UpdateJobRequest& request) {
  Violations violations;
  CheckJobName("job", request.job(), &violations);
  CheckRequestId(request.request_id(), &violations);
  CheckSchedule("spec.", request.spec(), &violations);
  CheckBudgets("spec.", request.spec(), &violations);
  if (request.update_mask().paths().empty()) {
    violations.Add("update_mask", "is required: the fields of spec to change");
  }
  for (const std::string& path : request.update_mask().paths()) {
    CheckUpdatePath(path, request.spec(), &violations);
  }
  return violations.ToStatus();
}

absl::Status Validate(const v1::BatchCancelJobsRequest& request) {
  return CheckBatch(
      request, [](v1::JobState state) { return state <= v1::JOB_STATE_LEASED; },
      "DELAYED, HELD, READY or LEASED");
}

absl::Status Validate(const v1::BatchRedriveJobsRequest& request) {
  return CheckBatch(
      request,
      [](v1::JobState state) {
        return state == v1::JOB_STATE_CANCELLED || state == v1::JOB_STATE_DEAD;
      },
      "CANCELLED or DEAD");
}

absl::Status Validate(const v1::BatchDeleteJobsRequest& request) {
  return CheckBatch(
      request,
      [&request](v1::JobState state) { return request.force() || state != v1::JOB_STATE_LEASED; },
      "any but LEASED, which needs force");
}

}  // namespace stint::api
