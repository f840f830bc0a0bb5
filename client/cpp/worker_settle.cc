// The settle thread of a worker: tells the broker what became of jobs.
//
// While one call is under way results gather and go with the next. A settle stays in the
// queue, and its lease is renewed, until the broker has answered it.
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/proto_time.h"
#include "client/cpp/status.h"
#include "client/cpp/text.h"
#include "client/cpp/worker_impl.h"

namespace stint::client {
namespace {

constexpr size_t kMaxSettlesPerCall = 1000;
// A call stays well under the broker's limit; a larger settle goes alone.
constexpr size_t kMaxBytesPerCall = 1024 * 1024;
constexpr absl::Duration kDeadline = absl::Seconds(10);

v1::SettleItem MakeItem(const v1::Lease& lease, const Result& result, v1::ReleaseReason reason) {
  v1::SettleItem item;
  switch (result.kind()) {
    case Result::Kind::kComplete:
      item.mutable_complete()->set_job(lease.job());
      item.mutable_complete()->set_token(lease.token());
      item.mutable_complete()->set_result(result.text());
      break;
    case Result::Kind::kFail: {
      v1::FailJobRequest* const fail = item.mutable_fail();
      fail->set_job(lease.job());
      fail->set_token(lease.token());
      fail->set_error(ShortenedText(result.text(), kMaxErrorBytes));
      if (result.no_retry()) fail->set_no_retry(true);
      if (result.delay().has_value()) *fail->mutable_retry_after() = ToProto(*result.delay());
      break;
    }
    case Result::Kind::kRelease: {
      v1::ReleaseJobRequest* const release = item.mutable_release();
      release->set_job(lease.job());
      release->set_token(lease.token());
      release->set_reason(reason);
      if (result.delay().has_value()) *release->mutable_delay() = ToProto(*result.delay());
      break;
    }
  }
  return item;
}

bool IsLost(const absl::Status& status) {
  const std::string reason = ErrorReason(status);
  return reason == "LEASE_LOST" || reason == "JOB_NOT_FOUND" || reason == "QUEUE_NOT_FOUND";
}

// Whether a later repeat of the same settle may be accepted. A credential can be mended while
// the worker runs.
bool MayHelpLater(const absl::Status& status) {
  return IsSafeToRepeat(status) || absl::IsCancelled(status) || absl::IsUnauthenticated(status) ||
         absl::IsPermissionDenied(status);
}

}  // namespace

void Worker::Impl::QueueSettle(const HeldPtr& held, const Result& result,
                               v1::ReleaseReason reason) {
  PendingSettle settle{
      held, MakeItem(held->lease, result, reason), result.kind(),
      held->phase == Phase::kRunning ? clock_->Now() - held->started_at : absl::ZeroDuration()};
  held->phase = Phase::kSettling;
  settle_bytes_ += settle.item.ByteSizeLong();
  settles_.push_back(std::move(settle));
  settle_changed_.NotifyAll();
}

void Worker::Impl::RunSettle() {
  while (true) {
    std::vector<PendingSettle> batch;
    {
      const MutexLock lock(mutex_);
      while (settles_.empty() && mode_ != Mode::kStopped) settle_changed_.Wait(mutex_);
      if (mode_ == Mode::kStopped) return;
      batch = TakeBatch();
    }
    SendBatch(std::move(batch));
    const MutexLock lock(mutex_);
    settling_ = 0;
    poll_changed_.NotifyAll();
    NoteChange();
  }
}

std::vector<Worker::Impl::PendingSettle> Worker::Impl::TakeBatch() {
  std::vector<PendingSettle> batch;
  size_t bytes = 0;
  const size_t most = send_alone_ > 0 ? 1 : kMaxSettlesPerCall;
  if (send_alone_ > 0) --send_alone_;
  while (!settles_.empty() && batch.size() < most) {
    const size_t size = settles_.front().item.ByteSizeLong();
    if (!batch.empty() && bytes + size > kMaxBytesPerCall) break;
    bytes += size;
    batch.push_back(std::move(settles_.front()));
    settles_.pop_front();
  }
  settle_bytes_ -= bytes;
  settling_ = batch.size();
  return batch;
}

void Worker::Impl::SendBatch(std::vector<PendingSettle> batch) {
  v1::SettleJobsRequest request;
  for (const PendingSettle& settle : batch) *request.add_items() = settle.item;
  v1::SettleJobsResponse response;
  absl::Status status = link_->Settle(request, &response, kDeadline, &settle_call_);
  if (status.ok() && response.results_size() != request.items_size()) {
    status = absl::UnavailableError("the broker answered with another number of results");
  }
  if (!status.ok()) {
    if (MayHelpLater(status)) {
      SettleAgain(std::move(batch));
      WaitBeforeSettle(status);
    } else if (batch.size() > 1) {
      send_alone_ = batch.size();
      SettleAgain(std::move(batch));
    } else {
      Refused(std::move(batch.front()), status);
    }
    return;
  }
  std::vector<PendingSettle> again;
  absl::Status last_error;
  for (size_t i = 0; i < batch.size(); ++i) {
    const v1::SettleResult& result = response.results(static_cast<int>(i));
    if (!result.has_error()) {
      Accepted(batch[i], result);
      continue;
    }
    const absl::Status error = FromRpcStatus(result.error());
    if (MayHelpLater(error)) {
      last_error = error;
      again.push_back(std::move(batch[i]));
    } else {
      Refused(std::move(batch[i]), error);
    }
  }
  if (again.empty()) {
    settle_backoff_.Reset();
  } else {
    SettleAgain(std::move(again));
    WaitBeforeSettle(last_error);
  }
}

void Worker::Impl::SettleAgain(std::vector<PendingSettle> settles) {
  const MutexLock lock(mutex_);
  for (const PendingSettle& settle : settles) settle_bytes_ += settle.item.ByteSizeLong();
  settles_.insert(settles_.begin(), std::make_move_iterator(settles.begin()),
                  std::make_move_iterator(settles.end()));
  settling_ = 0;
}

void Worker::Impl::WaitBeforeSettle(const absl::Status& status) {
  const MutexLock lock(mutex_);
  const absl::Duration until =
      clock_->Now() + settle_backoff_.Next(RetryDelay(status).value_or(absl::ZeroDuration()));
  while (mode_ != Mode::kStopped && clock_->Now() < until) {
    clock_->Wait(settle_changed_, mutex_, until);
  }
}

void Worker::Impl::Refused(PendingSettle settle, const absl::Status& status) {
  WorkerEvent event{IsLost(status) ? WorkerEvent::Kind::kLeaseLost
                                   : WorkerEvent::Kind::kSettleRefused};
  event.lease = &settle.held->lease;
  event.result = settle.kind;
  event.run_time = settle.run_time;
  event.status = status;
  event.detail = "the settle was refused";
  {
    const MutexLock lock(mutex_);
    if (IsLost(status)) {
      ++stats_.lost;
      DropLease(settle.held);
    } else if (settle.kind == Result::Kind::kComplete) {
      // The work is done but its result cannot be kept: the attempt has to end all the same.
      const size_t bytes = settle.item.complete().result().size();
      QueueSettle(settle.held,
                  Result::Fail(absl::StrCat("the broker refused the result of ", bytes,
                                            " bytes: ", status.message())),
                  v1::RELEASE_REASON_UNSPECIFIED);
      event.detail = "the result was refused; the attempt is failed instead";
    } else {
      ++stats_.refused;
      DropLease(settle.held);
    }
  }
  Tell(event);
}

void Worker::Impl::Accepted(const PendingSettle& settle, const v1::SettleResult& result) {
  WorkerEvent event{WorkerEvent::Kind::kSettled};
  event.lease = &settle.held->lease;
  event.result = settle.kind;
  event.run_time = settle.run_time;
  if (result.has_complete()) {
    event.state = result.complete().state();
  } else if (result.has_fail()) {
    event.state = result.fail().state();
    event.error = settle.item.fail().error();
    if (result.fail().next_attempt() > 0) {
      event.detail = absl::StrCat("attempt ", result.fail().next_attempt(), " in ",
                                  absl::FormatDuration(ToAbsl(result.fail().retry_delay())));
    }
  } else {
    event.state = result.release().state();
  }
  {
    const MutexLock lock(mutex_);
    switch (settle.kind) {
      case Result::Kind::kComplete:
        ++stats_.completed;
        break;
      case Result::Kind::kFail:
        ++stats_.failed;
        break;
      case Result::Kind::kRelease:
        ++stats_.released;
        break;
    }
    DropLease(settle.held);
  }
  Tell(event);
}

void Worker::Impl::DropLease(const HeldPtr& held) {
  leases_.erase(Key(held->lease.job(), held->lease.token()));
  if (leases_.empty()) retry_beat_at_ = absl::InfiniteDuration();
  NoteChange();
}

}  // namespace stint::client
