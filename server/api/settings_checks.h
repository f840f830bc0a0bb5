// Checks of what queues and jobs have in common: retry policy, budgets, waits.
#ifndef STINT_SERVER_API_SETTINGS_CHECKS_H_
#define STINT_SERVER_API_SETTINGS_CHECKS_H_

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/api/checks.h"
#include "server/engine/limits.h"
#include "stint/v1/queue.pb.h"

namespace stint::api {

void CheckRetryPolicy(absl::string_view field, const v1::RetryPolicy& retry,
                      Violations* violations);

// The fields that v1::QueueSettings and v1::JobSpec share, by the same names. `prefix` is
// empty or ends in a dot.
template <typename Message>
void CheckBudgets(absl::string_view prefix, const Message& message, Violations* violations) {
  const auto field = [prefix](absl::string_view name) { return absl::StrCat(prefix, name); };
  if (message.has_max_attempts()) {
    CheckRange(field("max_attempts"), int64_t{message.max_attempts()}, 1, engine::kLargestBudget,
               violations);
  }
  if (message.has_max_losses()) {
    CheckRange(field("max_losses"), int64_t{message.max_losses()}, 1, engine::kLargestBudget,
               violations);
  }
  if (message.has_retry()) CheckRetryPolicy(field("retry"), message.retry(), violations);
  if (message.has_loss_backoff()) {
    CheckDuration(field("loss_backoff"), message.loss_backoff(), 0, engine::kMaxLossBackoffMs,
                  violations);
  }
  if (message.has_run_limit()) {
    CheckDuration(field("run_limit"), message.run_limit(), engine::kMinRunLimitMs,
                  engine::kMaxRunLimitMs, violations);
  }
}

}  // namespace stint::api

#endif  // STINT_SERVER_API_SETTINGS_CHECKS_H_
