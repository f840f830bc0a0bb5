#include "server/api/edge.h"

#include <algorithm>

#include "server/engine/error.h"
#include "server/engine/limits.h"

namespace stint::api {

absl::Status UnexpectedAnswer() {
  return absl::InternalError("the answer has another form; this is a bug of the broker");
}

absl::Status Edge::CheckOpen() const {
  if (open_.load(std::memory_order_acquire)) return absl::OkStatus();
  return engine::MakeError(engine::Reason::kStarting, "the broker is starting; try again");
}

absl::Status Edge::Submit(runtime::Call call) {
  if (absl::Status status = CheckOpen(); !status.ok()) return status;
  return gateway_->Submit(std::move(call));
}

void Edge::SubmitUnattended(engine::Command command) {
  runtime::Call call;
  call.command = std::move(command);
  call.done = [](engine::Outcome) {};
  // A refusal is no harm here: what was to be undone lapses instead.
  Submit(std::move(call)).IgnoreError();
}

int64_t WaitMillis(std::optional<int64_t> asked_ms, const Exchange& exchange) {
  int64_t wait_ms = asked_ms.value_or(engine::kDefaultWaitMs);
  if (exchange.remaining_ms().has_value()) {
    wait_ms = std::min(wait_ms, *exchange.remaining_ms() - engine::kWaitDeadlineMarginMs);
  }
  return std::max<int64_t>(wait_ms, 0);
}

}  // namespace stint::api
