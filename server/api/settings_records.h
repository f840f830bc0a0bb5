// Queue settings and job budgets between the API's form and the stored one: the same fields,
// durations as whole milliseconds, presence kept. Thread-safe: functions without state.
#ifndef STINT_SERVER_API_SETTINGS_RECORDS_H_
#define STINT_SERVER_API_SETTINGS_RECORDS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "server/api/time_values.h"
#include "stint/v1/queue.pb.h"
#include "storage/record.pb.h"

namespace stint::api {

record::QueueSettings SettingsToRecord(const v1::QueueSettings& settings);
v1::QueueSettings SettingsFromRecord(const record::QueueSettings& settings);

record::RetryPolicy RetryToRecord(const v1::RetryPolicy& retry);
v1::RetryPolicy RetryFromRecord(const record::RetryPolicy& retry);

// The name in record::QueueSettings of a field of v1::QueueSettings.
std::string SettingsRecordField(absl::string_view api_field);

// The fields that queue settings and jobs share, by the same names. `Api` is
// v1::QueueSettings or v1::JobSpec, `Record` its stored form.
template <typename Api, typename Record>
void BudgetsToRecord(const Api& api, Record* record) {
  if (api.has_max_attempts()) record->set_max_attempts(api.max_attempts());
  if (api.has_max_losses()) record->set_max_losses(api.max_losses());
  if (api.has_retry()) *record->mutable_retry() = RetryToRecord(api.retry());
  if (api.has_loss_backoff()) record->set_loss_backoff_ms(MillisOf(api.loss_backoff()));
  if (api.has_run_limit()) record->set_run_limit_ms(MillisOf(api.run_limit()));
}

template <typename Record, typename Api>
void BudgetsFromRecord(const Record& record, Api* api) {
  if (record.has_max_attempts()) api->set_max_attempts(record.max_attempts());
  if (record.has_max_losses()) api->set_max_losses(record.max_losses());
  if (record.has_retry()) *api->mutable_retry() = RetryFromRecord(record.retry());
  if (record.has_loss_backoff_ms()) {
    *api->mutable_loss_backoff() = DurationOfMillis(record.loss_backoff_ms());
  }
  if (record.has_run_limit_ms()) {
    *api->mutable_run_limit() = DurationOfMillis(record.run_limit_ms());
  }
}

}  // namespace stint::api

#endif  // STINT_SERVER_API_SETTINGS_RECORDS_H_
