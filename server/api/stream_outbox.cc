#include "server/api/stream_outbox.h"

#include <utility>

namespace stint::api {

v1::StreamJobsResponse* StreamOutbox::AddItem() { return &items_.emplace_back().part; }

void StreamOutbox::Weigh() {
  items_.back().bytes = items_.back().part.ByteSizeLong();
  bytes_ += items_.back().bytes;
}

void StreamOutbox::SetWelcome(v1::Welcome welcome) {
  welcomed_ = true;
  Item first;
  *first.part.mutable_welcome() = std::move(welcome);
  first.bytes = first.part.ByteSizeLong();
  bytes_ += first.bytes;
  items_.push_front(std::move(first));
}

void StreamOutbox::Add(v1::StreamAnswer answer) {
  *AddItem()->add_answers() = std::move(answer);
  Weigh();
}

void StreamOutbox::Add(v1::HeartbeatResult verdict) {
  *AddItem()->add_verdicts() = std::move(verdict);
  Weigh();
}

void StreamOutbox::Add(v1::Drain drain) {
  *AddItem()->mutable_drain() = std::move(drain);
  Weigh();
}

void StreamOutbox::Add(v1::PushedJob job, engine::JobRef ref) {
  *AddItem()->add_jobs() = std::move(job);
  items_.back().job = std::move(ref);
  ++jobs_;
  Weigh();
}

size_t StreamOutbox::NextBytes() const {
  size_t size = 0;
  for (const Item& item : items_) {
    if (size != 0 && size + item.bytes > max_message_bytes_) break;
    size += item.bytes;
  }
  return size;
}

std::optional<v1::StreamJobsResponse> StreamOutbox::Pack() {
  if (!welcomed_ || items_.empty()) return std::nullopt;
  v1::StreamJobsResponse message;
  size_t size = 0;
  while (!items_.empty() && (size == 0 || size + items_.front().bytes <= max_message_bytes_)) {
    Item& item = items_.front();
    size += item.bytes;
    bytes_ -= item.bytes;
    if (item.part.has_welcome()) {
      *message.mutable_welcome() = std::move(*item.part.mutable_welcome());
    } else if (item.part.has_drain()) {
      *message.mutable_drain() = std::move(*item.part.mutable_drain());
    } else if (item.part.answers_size() > 0) {
      *message.add_answers() = std::move(*item.part.mutable_answers(0));
    } else if (item.part.verdicts_size() > 0) {
      *message.add_verdicts() = std::move(*item.part.mutable_verdicts(0));
    } else {
      *message.add_jobs() = std::move(*item.part.mutable_jobs(0));
      --jobs_;
    }
    items_.pop_front();
  }
  return message;
}

StreamOutbox::Unwritten StreamOutbox::TakeJobs() {
  Unwritten unwritten;
  std::deque<Item> kept;
  for (Item& item : items_) {
    if (item.part.jobs_size() == 0) {
      kept.push_back(std::move(item));
      continue;
    }
    const v1::PushedJob& pushed = item.part.jobs(0);
    engine::SettleItem release;
    release.kind = engine::SettleKind::kRelease;
    release.job = std::move(item.job);
    release.token = pushed.lease().token();
    unwritten.releases.push_back(std::move(release));
    unwritten.credit_bytes += pushed.credit_bytes();
    bytes_ -= item.bytes;
  }
  items_ = std::move(kept);
  jobs_ = 0;
  return unwritten;
}

}  // namespace stint::api
