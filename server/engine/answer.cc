#include "server/engine/answer.h"

#include <type_traits>
#include <variant>

namespace stint::engine {
namespace {

void Store(const EnqueueReply& reply, record::StoredAnswer* stored) {
  stored->set_queue(reply.queue);
  for (const EnqueuedJob& job : reply.jobs) {
    stored->add_job_ids(job.job_id);
    stored->add_job_states(static_cast<int32_t>(job.state));
  }
}

void Store(const StateReply& reply, record::StoredAnswer* stored) {
  stored->set_state(static_cast<int32_t>(reply.state));
}

void Store(const QueueReply& reply, record::StoredAnswer* stored) {
  *stored->mutable_queue_record() = reply.queue;
}

void Store(const PurgeReply& reply, record::StoredAnswer* stored) {
  stored->set_purged(reply.purged);
}

void Store(const JobReply& reply, record::StoredAnswer* stored) {
  stored->set_queue(reply.job.queue);
  stored->set_job_id(reply.job.job_id);
  *stored->mutable_job_record() = reply.job.record;
  stored->mutable_job_record()->clear_payload();
  stored->mutable_job_record()->clear_headers();
  *stored->mutable_job_state() = reply.job.state;
  *stored->mutable_settings() = reply.settings;
}

void Store(const BatchReply& reply, record::StoredAnswer* stored) {
  record::BatchAnswer* batch = stored->mutable_batch();
  batch->set_changed(reply.changed);
  batch->set_moved(reply.moved);
  batch->set_cancelling(reply.cancelling);
  batch->set_queue(reply.queue_id);
  batch->set_bound(reply.bound);
  batch->set_next_sequence(reply.next_sequence);
}

EnqueueReply LoadEnqueue(const record::StoredAnswer& stored) {
  EnqueueReply reply;
  reply.queue = stored.queue();
  for (int i = 0; i < stored.job_ids_size() && i < stored.job_states_size(); ++i) {
    reply.jobs.push_back({stored.job_ids(i), static_cast<JobState>(stored.job_states(i))});
  }
  return reply;
}

// Numbers in StoredAnswer.kind. Never reused.
enum Kind : int32_t {
  kEmpty = 0,
  kEnqueue = 1,
  kState = 2,
  kQueue = 3,
  kPurge = 4,
  kJob = 5,
  kBatch = 6
};

}  // namespace

record::StoredAnswer StoreAnswer(const ReplyBody& body) {
  record::StoredAnswer stored;
  std::visit(
      [&stored](const auto& reply) {
        using Reply = std::decay_t<decltype(reply)>;
        if constexpr (std::is_same_v<Reply, EnqueueReply>) {
          stored.set_kind(kEnqueue);
          Store(reply, &stored);
        } else if constexpr (std::is_same_v<Reply, StateReply>) {
          stored.set_kind(kState);
          Store(reply, &stored);
        } else if constexpr (std::is_same_v<Reply, QueueReply>) {
          stored.set_kind(kQueue);
          Store(reply, &stored);
        } else if constexpr (std::is_same_v<Reply, PurgeReply>) {
          stored.set_kind(kPurge);
          Store(reply, &stored);
        } else if constexpr (std::is_same_v<Reply, JobReply>) {
          stored.set_kind(kJob);
          Store(reply, &stored);
        } else if constexpr (std::is_same_v<Reply, BatchReply>) {
          stored.set_kind(kBatch);
          Store(reply, &stored);
        } else {
          stored.set_kind(kEmpty);
        }
      },
      body);
  return stored;
}

ReplyBody LoadAnswer(const record::StoredAnswer& stored) {
  switch (stored.kind()) {
    case kEnqueue:
      return LoadEnqueue(stored);
    case kState:
      return StateReply{static_cast<JobState>(stored.state())};
    case kQueue:
      return QueueReply{stored.queue_record()};
    case kPurge:
      return PurgeReply{stored.purged()};
    case kJob: {
      JobReply reply;
      reply.job.queue = stored.queue();
      reply.job.job_id = stored.job_id();
      reply.job.record = stored.job_record();
      reply.job.state = stored.job_state();
      reply.settings = stored.settings();
      return reply;
    }
    case kBatch: {
      const record::BatchAnswer& batch = stored.batch();
      return BatchReply{batch.changed(), batch.moved(), batch.cancelling(),
                        batch.queue(),   batch.bound(), batch.next_sequence()};
    }
    default:
      return EmptyReply{};
  }
}

}  // namespace stint::engine
