#include "tests/sim/describe.h"

#include <variant>

#include "absl/strings/str_cat.h"
#include "server/engine/error.h"
#include "storage/job_id.h"

namespace stint::sim {
namespace {

using engine::JobStateName;

std::string Name(const engine::JobRef& job) { return absl::StrCat(job.queue, "/", job.job_id); }

std::string Text(const engine::RequestKey& request) {
  if (request.request_id.empty()) return "";
  return absl::StrCat(" request ", request.identity, "/", request.request_id, ":",
                      request.fingerprint);
}

std::string Text(const engine::EnqueueCommand& c) {
  std::string text = absl::StrCat("enqueue ", c.queue);
  for (const engine::NewJob& job : c.jobs) {
    absl::StrAppend(&text, " [", job.record.payload().substr(0, 8), " ", job.record.job_id());
    if (job.delay_ms.has_value()) absl::StrAppend(&text, " delay ", *job.delay_ms);
    if (job.due_wall_ms.has_value()) absl::StrAppend(&text, " due ", *job.due_wall_ms);
    if (job.expire_after_ms.has_value()) absl::StrAppend(&text, " expire ", *job.expire_after_ms);
    absl::StrAppend(&text, "]");
  }
  return text + Text(c.request);
}

std::string Text(const engine::LeaseCommand& c) {
  std::string text = absl::StrCat("lease ", c.max_jobs, " for ", c.lease_ms, " wait ", c.wait_ms,
                                  " worker ", c.worker, " request ", c.request_id, " of");
  for (const std::string& queue : c.queues) absl::StrAppend(&text, " ", queue);
  if (c.session != 0) absl::StrAppend(&text, " session ", c.session);
  return text;
}

std::string Text(const engine::HeartbeatCommand& c) {
  std::string text = absl::StrCat("heartbeat ", c.worker);
  for (const engine::HeartbeatItem& item : c.items) {
    absl::StrAppend(&text, " ", Name(item.job), "#", item.token);
  }
  if (c.session != 0) absl::StrAppend(&text, " session ", c.session);
  return text;
}

std::string Text(const engine::EndSessionCommand& c) {
  std::string text = absl::StrCat("end of session ", c.session, " of ", c.worker);
  if (c.grace_ms.has_value()) absl::StrAppend(&text, " grace ", *c.grace_ms);
  return text;
}

std::string Text(const engine::SettleCommand& c) {
  std::string text = "settle";
  for (const engine::SettleItem& item : c.items) {
    absl::StrAppend(&text, " ", Name(item.job), "#", item.token, ":", static_cast<int>(item.kind));
    if (item.delay_ms.has_value()) absl::StrAppend(&text, " delay ", *item.delay_ms);
    if (item.no_retry) absl::StrAppend(&text, " no retry");
  }
  return text;
}

std::string Text(const engine::CancelCommand& c) {
  return absl::StrCat("cancel ", Name(c.job), Text(c.request));
}
std::string Text(const engine::RedriveCommand& c) {
  return absl::StrCat("redrive ", Name(c.job), Text(c.request));
}
std::string Text(const engine::DeleteJobCommand& c) {
  return absl::StrCat("delete ", Name(c.job), c.force ? " force" : "", Text(c.request));
}
std::string Text(const engine::UpdateJobCommand& c) {
  std::string text = absl::StrCat("update ", Name(c.job));
  if (c.delay_ms.has_value()) absl::StrAppend(&text, " delay ", *c.delay_ms);
  if (c.due_wall_ms.has_value()) absl::StrAppend(&text, " due ", *c.due_wall_ms);
  return text + Text(c.request);
}
std::string Text(const engine::WaitJobCommand& c) {
  return absl::StrCat("wait ", c.wait_ms, " for ", Name(c.job));
}
std::string Text(const engine::CreateQueueCommand& c) {
  return absl::StrCat("create queue ", c.queue, " {", c.settings.ShortDebugString(), "}",
                      Text(c.request));
}
std::string Text(const engine::UpdateQueueCommand& c) {
  std::string text =
      absl::StrCat("update queue ", c.queue, " {", c.settings.ShortDebugString(), "}");
  for (const std::string& field : c.fields) absl::StrAppend(&text, " ", field);
  if (c.draining.has_value()) absl::StrAppend(&text, " draining ", *c.draining ? "on" : "off");
  return text + Text(c.request);
}
std::string Text(const engine::DeleteQueueCommand& c) {
  return absl::StrCat("delete queue ", c.queue, c.force ? " force" : "", Text(c.request));
}
std::string Text(const engine::PauseQueueCommand& c) {
  return absl::StrCat(c.paused ? "pause " : "resume ", c.queue, Text(c.request));
}
std::string Text(const engine::PurgeQueueCommand& c) {
  return absl::StrCat("purge ", c.queue, c.force ? " force" : "", Text(c.request));
}
std::string Text(const engine::BatchCommand& c) {
  std::string text =
      absl::StrCat("batch ", static_cast<int>(c.operation), " of ", c.queue,
                   c.force ? " force" : "", c.dry_run ? " dry" : "", " bound ", c.bound);
  for (const uint64_t sequence : c.sequences) {
    absl::StrAppend(&text, " ", storage::MakeJobId(sequence));
  }
  return text + Text(c.request);
}
std::string Text(const engine::QueueStatsCommand& c) { return absl::StrCat("stats ", c.queue); }
std::string Text(const engine::ServerInfoCommand&) { return "info"; }
// Commands of the engine's own are not calls.
template <typename Own>
std::string Text(const Own&) {
  return "";
}

std::string Text(const engine::EmptyReply&) { return "done"; }

std::string Text(const engine::EnqueueReply& reply) {
  std::string text = absl::StrCat("enqueued ", reply.queue);
  for (const engine::EnqueuedJob& job : reply.jobs) {
    absl::StrAppend(&text, " ", job.job_id, "=", JobStateName(job.state));
  }
  return text;
}

std::string Text(const engine::JobSnapshot& job) {
  return absl::StrCat(job.queue, "/", job.job_id, " {", job.state.ShortDebugString(), "}");
}

std::string Text(const engine::LeaseReply& reply) {
  std::string text = "leases";
  for (const engine::GrantedLease& lease : reply.leases) {
    absl::StrAppend(&text, " ", lease.job.job_id, "#", lease.token, " attempt ",
                    1 + lease.job.state.total_failures() + lease.job.state.total_losses());
  }
  return text;
}

std::string Text(const engine::HeartbeatReply& reply) {
  std::string text = "heartbeat";
  for (const engine::LeaseStatus status : reply.statuses) {
    absl::StrAppend(&text, " ", static_cast<int>(status));
  }
  return text;
}

std::string Text(const engine::SettleReply& reply) {
  std::string text = "settled";
  for (const engine::SettleResult& result : reply.results) {
    absl::StrAppend(
        &text, " ",
        result.status.ok()
            ? absl::StrCat(JobStateName(result.state), "/", static_cast<int>(result.end_reason),
                           "/", result.retry_delay_ms, "/", result.next_attempt)
            : std::string(engine::ReasonName(engine::ReasonOf(result.status))));
  }
  return text;
}

std::string Text(const engine::StateReply& reply) { return std::string(JobStateName(reply.state)); }

std::string Text(const engine::JobReply& reply) { return Text(reply.job); }

std::string Text(const engine::QueueReply& reply) {
  return absl::StrCat("queue {", reply.queue.ShortDebugString(), "}");
}

std::string Text(const engine::PurgeReply& reply) { return absl::StrCat("purged ", reply.purged); }

std::string Text(const engine::BatchReply& reply) {
  return absl::StrCat("batch ", reply.changed, "+", reply.moved, "+", reply.cancelling, " bound ",
                      reply.bound, " next ", reply.next_sequence);
}

std::string Text(const engine::ProgressReply& reply) {
  return absl::StrCat("progress ", reply.progress.value_or("none"));
}

std::string Text(const engine::QueueStatsReply& reply) {
  return absl::StrCat("stats {", reply.counters.ShortDebugString(), "}");
}

std::string Text(const engine::ServerInfoReply& reply) {
  return absl::StrCat("info ", reply.broker_ms);
}

}  // namespace

bool SameAnswer(const engine::Outcome& a, const engine::Outcome& b) {
  return a.body.index() == b.body.index() && DescribeAnswer(a) == DescribeAnswer(b);
}

std::string DescribeCommand(const engine::Command& command) {
  return std::visit([](const auto& c) { return Text(c); }, command);
}

std::string DescribeAnswer(const engine::Outcome& outcome) {
  if (!outcome.status.ok()) {
    return std::string(engine::ReasonName(engine::ReasonOf(outcome.status)));
  }
  return std::visit([](const auto& reply) { return Text(reply); }, outcome.body);
}

}  // namespace stint::sim
