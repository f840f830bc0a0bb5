#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "server/api/convert.h"
#include "server/api/fingerprint.h"
#include "server/api/names.h"
#include "server/api/settings_records.h"
#include "server/api/text.h"
#include "server/api/time_values.h"
#include "server/engine/limits.h"

namespace stint::api {
namespace {

// Callers that give no id.
constexpr char kAnonymousWorker[] = "anonymous";

engine::JobRef JobOf(const std::string& name) {
  return ParseJobName(name).value_or(engine::JobRef{});
}

template <typename Request>
engine::RequestKey KeyOf(absl::string_view method, const Request& request,
                         const std::string& identity) {
  engine::RequestKey key;
  key.identity = identity;
  key.request_id = request.request_id();
  if (!key.request_id.empty()) key.fingerprint = Fingerprint(method, request);
  return key;
}

engine::NewJob ToNewJob(v1::JobSpec&& spec, std::string&& job_id) {
  engine::NewJob job;
  record::JobRecord& record = job.record;
  record.set_job_id(std::move(job_id));
  record.set_kind(std::move(*spec.mutable_kind()));
  record.set_payload(std::move(*spec.mutable_payload()));
  record.set_content_type(std::move(*spec.mutable_content_type()));
  record.mutable_headers()->swap(*spec.mutable_headers());
  record.mutable_labels()->swap(*spec.mutable_labels());
  record.set_priority(spec.has_priority() ? spec.priority() : engine::kDefaultPriority);
  if (spec.has_due_time()) job.due_wall_ms = MillisOf(spec.due_time());
  if (spec.has_delay()) job.delay_ms = MillisOf(spec.delay());
  if (spec.has_expire_time()) record.set_expiry_wall_ms(MillisOf(spec.expire_time()));
  if (spec.has_expire_after()) job.expire_after_ms = MillisOf(spec.expire_after());
  BudgetsToRecord(spec, &record);
  return job;
}

std::vector<engine::HeartbeatItem> ToItems(
    const google::protobuf::RepeatedPtrField<v1::HeartbeatItem>& leases) {
  std::vector<engine::HeartbeatItem> items;
  items.reserve(static_cast<size_t>(leases.size()));
  for (const v1::HeartbeatItem& item : leases) {
    engine::HeartbeatItem& added = items.emplace_back();
    added.job = JobOf(item.job());
    added.token = item.token();
    if (item.has_progress()) added.progress = item.progress();
  }
  return items;
}

}  // namespace

engine::EnqueueCommand ToCommand(v1::EnqueueJobRequest&& request, const std::string& identity) {
  engine::EnqueueCommand command;
  command.request = KeyOf("EnqueueJob", request, identity);
  command.queue = std::move(*request.mutable_queue());
  command.jobs.push_back(
      ToNewJob(std::move(*request.mutable_job()), std::move(*request.mutable_job_id())));
  return command;
}

engine::EnqueueCommand ToCommand(v1::BatchEnqueueJobsRequest&& request,
                                 const std::string& identity) {
  engine::EnqueueCommand command;
  command.request = KeyOf("BatchEnqueueJobs", request, identity);
  command.queue = std::move(*request.mutable_queue());
  command.jobs.reserve(static_cast<size_t>(request.items_size()));
  for (v1::BatchEnqueueItem& item : *request.mutable_items()) {
    command.jobs.push_back(
        ToNewJob(std::move(*item.mutable_job()), std::move(*item.mutable_job_id())));
  }
  return command;
}

engine::WaitJobCommand ToCommand(const v1::WaitJobRequest& request, int64_t wait_ms) {
  return {JobOf(request.job()), wait_ms};
}

engine::CancelCommand ToCommand(const v1::CancelJobRequest& request, const std::string& identity) {
  return {JobOf(request.job()), KeyOf("CancelJob", request, identity)};
}

engine::RedriveCommand ToCommand(const v1::RedriveJobRequest& request,
                                 const std::string& identity) {
  return {JobOf(request.job()), KeyOf("RedriveJob", request, identity)};
}

engine::DeleteJobCommand ToCommand(const v1::DeleteJobRequest& request,
                                   const std::string& identity) {
  return {JobOf(request.job()), request.force(), KeyOf("DeleteJob", request, identity)};
}

engine::UpdateJobCommand ToCommand(const v1::UpdateJobRequest& request,
                                   const std::string& identity) {
  engine::UpdateJobCommand command;
  command.job = JobOf(request.job());
  command.request = KeyOf("UpdateJob", request, identity);
  const v1::JobSpec& spec = request.spec();
  for (const std::string& path : request.update_mask().paths()) {
    if (path == "priority") command.priority = spec.priority();
    if (path == "due_time") command.due_wall_ms = MillisOf(spec.due_time());
    if (path == "delay") command.delay_ms = MillisOf(spec.delay());
    if (path == "max_attempts") command.max_attempts = spec.max_attempts();
    if (path == "max_losses") command.max_losses = spec.max_losses();
  }
  return command;
}

engine::LeaseCommand ToCommand(v1::LeaseJobsRequest&& request, int64_t wait_ms) {
  engine::LeaseCommand command;
  // A queue named twice is served once, in its first place.
  absl::flat_hash_set<std::string> seen;
  for (std::string& queue : *request.mutable_queues()) {
    if (seen.insert(queue).second) command.queues.push_back(std::move(queue));
  }
  command.max_jobs = request.max_jobs() == 0 ? 1 : request.max_jobs();
  command.lease_ms =
      request.has_lease_duration() ? MillisOf(request.lease_duration()) : engine::kDefaultLeaseMs;
  command.wait_ms = wait_ms;
  command.worker = request.worker().empty() ? kAnonymousWorker : request.worker();
  command.request_id = request.request_id();
  command.max_reply_bytes =
      request.max_reply_bytes() == 0 ? engine::kDefaultReplyBytes : request.max_reply_bytes();
  return command;
}

engine::HeartbeatCommand ToCommand(const v1::HeartbeatRequest& request) {
  engine::HeartbeatCommand command;
  command.worker = request.worker().empty() ? kAnonymousWorker : request.worker();
  command.items = ToItems(request.leases());
  return command;
}

engine::HeartbeatCommand ToCommand(const v1::StreamHeartbeat& heartbeat, const std::string& worker,
                                   uint64_t session) {
  engine::HeartbeatCommand command;
  command.worker = worker;
  command.session = session;
  command.items = ToItems(heartbeat.leases());
  return command;
}

engine::SettleCommand ToUndo(const engine::LeaseReply& reply) {
  engine::SettleCommand undo;
  undo.items.reserve(reply.leases.size());
  for (const engine::GrantedLease& lease : reply.leases) {
    engine::SettleItem item;
    item.kind = engine::SettleKind::kRelease;
    item.job = {lease.job.queue, lease.job.job_id};
    item.token = lease.token;
    undo.items.push_back(std::move(item));
  }
  return undo;
}

engine::SettleItem ToItem(v1::CompleteJobRequest&& request) {
  engine::SettleItem item;
  item.kind = engine::SettleKind::kComplete;
  item.job = JobOf(request.job());
  item.token = request.token();
  item.result = std::move(*request.mutable_result());
  return item;
}

engine::SettleItem ToItem(v1::FailJobRequest&& request) {
  engine::SettleItem item;
  item.kind = engine::SettleKind::kFail;
  item.job = JobOf(request.job());
  item.token = request.token();
  item.error = Shorten(std::move(*request.mutable_error()), engine::kMaxErrorBytes);
  if (request.has_retry_after()) item.delay_ms = MillisOf(request.retry_after());
  item.no_retry = request.no_retry();
  return item;
}

engine::SettleItem ToItem(v1::ReleaseJobRequest&& request) {
  engine::SettleItem item;
  item.kind = engine::SettleKind::kRelease;
  item.job = JobOf(request.job());
  item.token = request.token();
  if (request.has_delay()) item.delay_ms = MillisOf(request.delay());
  item.release_reason = static_cast<engine::ReleaseReason>(request.reason());
  return item;
}

engine::SettleItem ToItem(v1::SettleItem&& item) {
  switch (item.settle_case()) {
    case v1::SettleItem::kComplete:
      return ToItem(std::move(*item.mutable_complete()));
    case v1::SettleItem::kFail:
      return ToItem(std::move(*item.mutable_fail()));
    case v1::SettleItem::kRelease:
      return ToItem(std::move(*item.mutable_release()));
    case v1::SettleItem::SETTLE_NOT_SET:
      break;
  }
  return {};
}

engine::CreateQueueCommand ToCommand(const v1::CreateQueueRequest& request,
                                     const std::string& identity) {
  return {request.queue(), SettingsToRecord(request.settings()),
          KeyOf("CreateQueue", request, identity)};
}

engine::UpdateQueueCommand ToCommand(const v1::UpdateQueueRequest& request,
                                     const std::string& identity) {
  engine::UpdateQueueCommand command;
  command.queue = request.queue();
  command.settings = SettingsToRecord(request.settings());
  command.request = KeyOf("UpdateQueue", request, identity);
  for (const std::string& path : request.update_mask().paths()) {
    absl::string_view field = path;
    std::string name;
    if (path == "draining") {
      command.draining = request.draining();
    } else if (path == "settings") {
      name = "*";
    } else if (absl::ConsumePrefix(&field, "settings.")) {
      name = SettingsRecordField(field);
    }
    if (!name.empty() &&
        std::find(command.fields.begin(), command.fields.end(), name) == command.fields.end()) {
      command.fields.push_back(std::move(name));
    }
  }
  if (!absl::SimpleAtoi(request.etag(), &command.expected_version)) command.expected_version = 0;
  return command;
}

engine::DeleteQueueCommand ToCommand(const v1::DeleteQueueRequest& request,
                                     const std::string& identity) {
  return {request.queue(), request.force(), KeyOf("DeleteQueue", request, identity)};
}

engine::PauseQueueCommand ToCommand(const v1::PauseQueueRequest& request,
                                    const std::string& identity) {
  return {request.queue(), true, KeyOf("PauseQueue", request, identity)};
}

engine::PauseQueueCommand ToCommand(const v1::ResumeQueueRequest& request,
                                    const std::string& identity) {
  return {request.queue(), false, KeyOf("ResumeQueue", request, identity)};
}

engine::PurgeQueueCommand ToCommand(const v1::PurgeQueueRequest& request,
                                    const std::string& identity) {
  return {request.queue(), request.force(), KeyOf("PurgeQueue", request, identity)};
}

}  // namespace stint::api
