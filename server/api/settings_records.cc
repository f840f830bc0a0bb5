#include "server/api/settings_records.h"

#include "absl/strings/str_cat.h"

namespace stint::api {
namespace {

record::Retention RetentionToRecord(const v1::RetentionPolicy& api) {
  record::Retention record;
  if (api.has_finished_age()) record.set_finished_age_ms(MillisOf(api.finished_age()));
  if (api.has_finished_count()) record.set_finished_count(api.finished_count());
  if (api.has_finished_bytes()) record.set_finished_bytes(api.finished_bytes());
  if (api.has_dead_age()) record.set_dead_age_ms(MillisOf(api.dead_age()));
  if (api.has_dead_count()) record.set_dead_count(api.dead_count());
  if (api.has_dead_bytes()) record.set_dead_bytes(api.dead_bytes());
  return record;
}

v1::RetentionPolicy RetentionFromRecord(const record::Retention& record) {
  v1::RetentionPolicy api;
  if (record.has_finished_age_ms()) {
    *api.mutable_finished_age() = DurationOfMillis(record.finished_age_ms());
  }
  if (record.has_finished_count()) api.set_finished_count(record.finished_count());
  if (record.has_finished_bytes()) api.set_finished_bytes(record.finished_bytes());
  if (record.has_dead_age_ms()) *api.mutable_dead_age() = DurationOfMillis(record.dead_age_ms());
  if (record.has_dead_count()) api.set_dead_count(record.dead_count());
  if (record.has_dead_bytes()) api.set_dead_bytes(record.dead_bytes());
  return api;
}

}  // namespace

record::RetryPolicy RetryToRecord(const v1::RetryPolicy& retry) {
  record::RetryPolicy record;
  if (retry.has_initial_delay()) record.set_initial_delay_ms(MillisOf(retry.initial_delay()));
  if (retry.has_multiplier()) record.set_multiplier(retry.multiplier());
  if (retry.has_max_delay()) record.set_max_delay_ms(MillisOf(retry.max_delay()));
  if (retry.has_jitter()) record.set_jitter(retry.jitter());
  return record;
}

v1::RetryPolicy RetryFromRecord(const record::RetryPolicy& record) {
  v1::RetryPolicy retry;
  if (record.has_initial_delay_ms()) {
    *retry.mutable_initial_delay() = DurationOfMillis(record.initial_delay_ms());
  }
  if (record.has_multiplier()) retry.set_multiplier(record.multiplier());
  if (record.has_max_delay_ms()) {
    *retry.mutable_max_delay() = DurationOfMillis(record.max_delay_ms());
  }
  if (record.has_jitter()) retry.set_jitter(record.jitter());
  return retry;
}

record::QueueSettings SettingsToRecord(const v1::QueueSettings& settings) {
  record::QueueSettings record;
  BudgetsToRecord(settings, &record);
  if (settings.has_cancel_grace()) record.set_cancel_grace_ms(MillisOf(settings.cancel_grace()));
  if (settings.has_retention())
    *record.mutable_retention() = RetentionToRecord(settings.retention());
  if (settings.has_max_jobs()) record.set_max_jobs(settings.max_jobs());
  if (settings.has_max_bytes()) record.set_max_bytes(settings.max_bytes());
  return record;
}

v1::QueueSettings SettingsFromRecord(const record::QueueSettings& record) {
  v1::QueueSettings settings;
  BudgetsFromRecord(record, &settings);
  if (record.has_cancel_grace_ms()) {
    *settings.mutable_cancel_grace() = DurationOfMillis(record.cancel_grace_ms());
  }
  if (record.has_retention()) {
    *settings.mutable_retention() = RetentionFromRecord(record.retention());
  }
  if (record.has_max_jobs()) settings.set_max_jobs(record.max_jobs());
  if (record.has_max_bytes()) settings.set_max_bytes(record.max_bytes());
  return settings;
}

std::string SettingsRecordField(absl::string_view api_field) {
  // Durations are stored as milliseconds and say so in their name.
  const auto* field = v1::QueueSettings::descriptor()->FindFieldByName(std::string(api_field));
  const bool duration =
      field != nullptr && field->message_type() == google::protobuf::Duration::descriptor();
  return absl::StrCat(api_field, duration ? "_ms" : "");
}

}  // namespace stint::api
