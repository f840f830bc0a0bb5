// Requests: what is refused before the engine sees it, and what the engine then sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "server/api/convert.h"
#include "server/api/fingerprint.h"
#include "server/api/names.h"
#include "server/api/validate.h"
#include "server/engine/error.h"
#include "storage/job_id.h"

namespace stint::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

template <typename Message>
Message Parse(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// Fields named by the violations, in order.
std::vector<std::string> FieldsOf(const absl::Status& status) {
  std::vector<std::string> fields;
  if (status.ok()) return fields;
  EXPECT_EQ(engine::ReasonOf(status), engine::Reason::kInvalidRequest);
  const auto details = engine::DetailsOf(status);
  for (const auto& [field, description] : details->violations) {
    fields.push_back(field);
  }
  return fields;
}

const EdgeLimits kLimits;

TEST(ValidateTest, SmallestCallsAreValid) {
  EXPECT_TRUE(Validate(Parse<v1::EnqueueJobRequest>("queue: 'email'"), kLimits).ok());
  EXPECT_TRUE(Validate(Parse<v1::LeaseJobsRequest>("queues: 'email'")).ok());
  EXPECT_TRUE(
      Validate(Parse<v1::CompleteJobRequest>("job: 'queues/email/jobs/1' token: 7"), kLimits).ok());
  EXPECT_TRUE(Validate(v1::HeartbeatRequest()).ok());
  EXPECT_TRUE(Validate(v1::ListQueuesRequest()).ok());
}

TEST(ValidateTest, EverythingWrongIsSaidAtOnce) {
  const auto request = Parse<v1::EnqueueJobRequest>(R"(
      queue: "a/b" job_id: "-x" job {
        priority: 10 max_attempts: 0 max_losses: 10001 delay { seconds: -1 }
        expire_after { } loss_backoff { seconds: 601 } run_limit { nanos: 1 }
        retry { multiplier: 0.5 jitter: 2 initial_delay { seconds: 86401 }
                max_delay { seconds: -1 } }
        labels { key: "" value: "v" }
      })");
  EXPECT_THAT(FieldsOf(Validate(request, kLimits)),
              ElementsAre("queue", "job.labels", "job.priority", "job.delay", "job.expire_after",
                          "job.max_attempts", "job.max_losses", "job.retry.initial_delay",
                          "job.retry.multiplier", "job.retry.max_delay", "job.retry.jitter",
                          "job.loss_backoff", "job.run_limit", "job_id"));
}

TEST(ValidateTest, BatchCallsTakeOnlyStatesTheirOperationKnows) {
  EXPECT_TRUE(Validate(Parse<v1::BatchCancelJobsRequest>("queue: 'q'")).ok());
  EXPECT_TRUE(Validate(Parse<v1::BatchRedriveJobsRequest>("queue: 'q'")).ok());
  EXPECT_TRUE(Validate(Parse<v1::BatchDeleteJobsRequest>("queue: 'q'")).ok());
  EXPECT_THAT(
      FieldsOf(Validate(Parse<v1::BatchCancelJobsRequest>(R"(
                  queue: "" limit: -1
                  filter { states: JOB_STATE_READY states: JOB_STATE_DEAD
                           labels { key: "" value: "v" } created_after { seconds: -99999999999 } }
                  )"))),
      ElementsAre("queue", "filter.labels", "filter.created_after", "filter.states[1]", "limit"));
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::BatchRedriveJobsRequest>(
                  "queue: 'q' filter { states: JOB_STATE_CANCELLED states: JOB_STATE_READY }"))),
              ElementsAre("filter.states[1]"));
  const std::string leased = "queue: 'q' filter { states: JOB_STATE_LEASED }";
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::BatchDeleteJobsRequest>(leased))),
              ElementsAre("filter.states[0]"));
  EXPECT_TRUE(Validate(Parse<v1::BatchDeleteJobsRequest>(leased + " force: true")).ok());
}

TEST(ValidateTest, ProgressHasALimit) {
  auto request = Parse<v1::HeartbeatRequest>("leases { job: 'queues/q/jobs/j' token: 1 }");
  request.mutable_leases(0)->set_progress(std::string(engine::kMaxProgressBytes, 'x'));
  EXPECT_TRUE(Validate(request).ok());
  EXPECT_EQ(ToCommand(request).items.at(0).progress, request.leases(0).progress());
  request.mutable_leases(0)->set_progress(std::string(engine::kMaxProgressBytes + 1, 'x'));
  EXPECT_THAT(FieldsOf(Validate(request)), ElementsAre("leases[0].progress"));
}

// S64: at the limit, and one over.
TEST(ValidateTest, LimitsHoldToTheByte) {
  using Change = std::function<void(v1::EnqueueJobRequest*, size_t)>;
  const std::vector<std::tuple<const char*, size_t, Change>> limits = {
      {"job.payload", engine::kDefaultMaxPayloadBytes,
       [](v1::EnqueueJobRequest* r, size_t n) {
         r->mutable_job()->set_payload(std::string(n, '\xFF'));
       }},
      {"job.kind", 128,
       [](v1::EnqueueJobRequest* r, size_t n) { r->mutable_job()->set_kind(std::string(n, 'k')); }},
      {"job.content_type", 128,
       [](v1::EnqueueJobRequest* r, size_t n) {
         r->mutable_job()->set_content_type(std::string(n, 'c'));
       }},
      {"job.headers", 4096,
       [](v1::EnqueueJobRequest* r, size_t n) {
         (*r->mutable_job()->mutable_headers())["key"] = std::string(n - 3, 'v');
       }},
      {"job.headers", 32,
       [](v1::EnqueueJobRequest* r, size_t n) {
         for (size_t i = 0; i < n; ++i) {
           (*r->mutable_job()->mutable_headers())[absl::StrCat("k", i)] = "v";
         }
       }},
      {"job.labels", 8,
       [](v1::EnqueueJobRequest* r, size_t n) {
         for (size_t i = 0; i < n; ++i) {
           (*r->mutable_job()->mutable_labels())[absl::StrCat("k", i)] = "v";
         }
       }},
      {"job.labels[\"k\"]", 63,
       [](v1::EnqueueJobRequest* r, size_t n) {
         (*r->mutable_job()->mutable_labels())["k"] = std::string(n, 'v');
       }},
      {"queue", 128, [](v1::EnqueueJobRequest* r, size_t n) { r->set_queue(std::string(n, 'q')); }},
      {"job_id", 128,
       [](v1::EnqueueJobRequest* r, size_t n) { r->set_job_id(std::string(n, 'i')); }},
      {"request_id", 256,
       [](v1::EnqueueJobRequest* r, size_t n) { r->set_request_id(std::string(n, 'r')); }},
  };
  for (const auto& [field, limit, change] : limits) {
    for (const size_t size : {limit - 1, limit, limit + 1}) {
      v1::EnqueueJobRequest request;
      request.set_queue("q");
      change(&request, size);
      const absl::Status status = Validate(request, kLimits);
      if (size <= limit) {
        EXPECT_TRUE(status.ok()) << field << ": " << status;
      } else {
        EXPECT_THAT(FieldsOf(status), ElementsAre(field));
        if (std::string(field) == "job.payload") {
          EXPECT_THAT(std::string(status.message()),
                      HasSubstr("must be at most 1048576 bytes, has 1048577"));
        }
      }
    }
  }
}

// S66 to S68: every way in says the same about the same name.
TEST(ValidateTest, OneRuleForNamesAtEveryEntry) {
  const std::vector<std::function<absl::Status(const std::string&)>> entries = {
      [](const std::string& queue) {
        v1::EnqueueJobRequest r;
        r.set_queue(queue);
        return Validate(r, kLimits);
      },
      [](const std::string& queue) {
        v1::BatchEnqueueJobsRequest r;
        r.set_queue(queue);
        r.add_items();
        return Validate(r, kLimits);
      },
      [](const std::string& queue) {
        v1::LeaseJobsRequest r;
        r.add_queues(queue);
        return Validate(r);
      },
      [](const std::string& queue) {
        v1::PauseQueueRequest r;
        r.set_queue(queue);
        return Validate(r);
      },
      [](const std::string& queue) {
        v1::PurgeQueueRequest r;
        r.set_queue(queue);
        return Validate(r);
      },
      [](const std::string& queue) {
        v1::ListJobsRequest r;
        r.set_queue(queue);
        return Validate(r);
      },
      [](const std::string& queue) {
        v1::CreateQueueRequest r;
        r.set_queue(queue);
        return Validate(r);
      },
      [](const std::string& queue) {
        v1::GetQueueStatsRequest r;
        r.set_queue(queue);
        return Validate(r);
      },
  };
  for (const std::string queue : {"a b", "a+b", "a/b", "100%", "..", "Upper", "-lead", "trail ",
                                  "a\tb", "\xE9\x98\x9F\xE5\x88\x97", "", "a:b"}) {
    const absl::Status first = entries.front()(queue);
    EXPECT_EQ(first.ok(), IsValidId(queue)) << queue;
    for (const auto& entry : entries) {
      const absl::Status status = entry(queue);
      EXPECT_EQ(status.ok(), first.ok()) << queue;
      if (status.ok()) continue;
      // The same words after the name of the field.
      EXPECT_EQ(engine::DetailsOf(status)->violations.front().second,
                engine::DetailsOf(first)->violations.front().second);
    }
  }
}

TEST(ValidateTest, TheBrokersOwnIdsAreNotForCallers) {
  v1::EnqueueJobRequest request;
  request.set_queue("q");
  request.set_job_id(storage::MakeJobId(7));
  EXPECT_THAT(FieldsOf(Validate(request, kLimits)), ElementsAre("job_id"));
  request.set_job_id("j-7");
  EXPECT_TRUE(Validate(request, kLimits).ok());
}

// S69.
TEST(ValidateTest, BatchesAreCountedBeforeTheyAreRead) {
  v1::BatchEnqueueJobsRequest request;
  request.set_queue("q");
  EXPECT_THAT(FieldsOf(Validate(request, kLimits)), ElementsAre("items"));
  for (int i = 0; i < 1000; ++i) request.add_items();
  EXPECT_TRUE(Validate(request, kLimits).ok());
  request.add_items()->mutable_job()->set_priority(-1);
  const absl::Status status = Validate(request, kLimits);
  EXPECT_THAT(FieldsOf(status), ElementsAre("items"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1 to 1000 items, has 1001"));
}

TEST(ValidateTest, ItemsAreNamedByTheirPlace) {
  const auto request = Parse<v1::BatchEnqueueJobsRequest>(
      "queue: 'q' items { } items { job { priority: 11 } } items { job_id: '/' }");
  EXPECT_THAT(FieldsOf(Validate(request, kLimits)),
              ElementsAre("items[1].job.priority", "items[2].job_id"));
}

TEST(ValidateTest, LeasesAndHeartbeats) {
  EXPECT_THAT(FieldsOf(Validate(v1::LeaseJobsRequest())), ElementsAre("queues"));
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::LeaseJobsRequest>(R"(
                  queues: "q" max_jobs: 1001 lease_duration { nanos: 999999999 }
                  wait { seconds: 61 } worker: "a b" request_id: "r" max_reply_bytes: 4095)"))),
              ElementsAre("max_jobs", "lease_duration", "wait", "worker", "max_reply_bytes"));
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::LeaseJobsRequest>("queues: 'q' request_id: 'r'"))),
              ElementsAre("worker"));
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::LeaseJobsRequest>("queues: 'q' max_jobs: -1"))),
              ElementsAre("max_jobs"));
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::HeartbeatRequest>(
                  "leases { job: 'queues/q/jobs/j' token: 1 } leases { job: 'j' }"))),
              ElementsAre("leases[1].job", "leases[1].token"));
}

TEST(ValidateTest, SettlesAreCheckedOneByOne) {
  EXPECT_THAT(FieldsOf(Validate(v1::SettleItem(), kLimits)), ElementsAre("settle"));
  v1::SettleItem item;
  item.mutable_complete()->set_job("queues/q/jobs/j");
  item.mutable_complete()->set_token(1);
  item.mutable_complete()->set_result(std::string(engine::kDefaultMaxPayloadBytes + 1, 'x'));
  const absl::Status status = Validate(item, kLimits);
  EXPECT_THAT(FieldsOf(status), ElementsAre("result"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1048576"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1048577"));
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::SettleItem>("release { reason: 9 }"), kLimits)),
              ElementsAre("job", "token", "reason"));
  EXPECT_THAT(
      FieldsOf(Validate(Parse<v1::SettleItem>(
                            "fail { job: 'queues/q/jobs/j' token: 1 retry_after { nanos: -1 } }"),
                        kLimits)),
      ElementsAre("retry_after"));
}

TEST(ValidateTest, UpdatesNameWhatTheyChange) {
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::UpdateJobRequest>("job: 'queues/q/jobs/j'"))),
              ElementsAre("update_mask"));
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::UpdateJobRequest>(
                  R"(job: "queues/q/jobs/j" spec { priority: 3 delay { } }
                     update_mask { paths: "priority" paths: "delay" paths: "due_time"
                                   paths: "payload" paths: "max_attempts" })"))),
              ElementsAre("spec.due_time", "update_mask", "spec.max_attempts"));
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::UpdateQueueRequest>(
                  R"(queue: "q" etag: "x" update_mask { paths: "settings" paths: "draining"
                     paths: "settings.max_jobs" paths: "settings.retention.dead_age"
                     paths: "paused" })"))),
              ElementsAre("update_mask", "update_mask", "etag"));
}

TEST(ValidateTest, ListingsCheckTheirFilters) {
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::ListJobsRequest>(
                  R"(queue: "q" states: 0 states: JOB_STATE_READY states: 99 page_size: -1
                     view: 7 created_after { nanos: -1 })"))),
              ElementsAre("states[0]", "states[2]", "created_after", "page_size", "view"));
  EXPECT_THAT(FieldsOf(Validate(Parse<v1::ListQueuesRequest>("prefix: '/' page_size: -1"))),
              ElementsAre("page_size", "prefix"));
}

TEST(ConvertTest, EnqueueMovesThePayloadAndKeepsWhatIsUnsetUnset) {
  v1::EnqueueJobRequest request;
  request.set_queue("email");
  request.mutable_job()->set_payload(std::string(100'000, 'p'));
  const char* const bytes = request.job().payload().data();
  const engine::EnqueueCommand command = ToCommand(std::move(request), "me");
  EXPECT_EQ(command.queue, "email");
  EXPECT_EQ(command.request.identity, "me");
  ASSERT_EQ(command.jobs.size(), 1u);
  const engine::NewJob& job = command.jobs.front();
  EXPECT_EQ(static_cast<const void*>(job.record.payload().data()), static_cast<const void*>(bytes));
  EXPECT_EQ(job.record.priority(), engine::kDefaultPriority);
  EXPECT_FALSE(job.record.has_max_attempts());
  EXPECT_FALSE(job.record.has_retry());
  EXPECT_FALSE(job.delay_ms.has_value());
  EXPECT_FALSE(job.due_wall_ms.has_value());
  EXPECT_FALSE(job.expire_after_ms.has_value());
}

TEST(ConvertTest, EnqueueKeepsZeroApartFromUnset) {
  auto request = Parse<v1::EnqueueJobRequest>(R"(
      queue: "q" job_id: "mine" job {
        kind: "k" content_type: "t" priority: 0 delay { } expire_time { seconds: 5 }
        max_attempts: 1 max_losses: 2 loss_backoff { } run_limit { seconds: 60 }
        retry { initial_delay { } jitter: 0 }
        headers { key: "h" value: "1" } labels { key: "l" value: "2" } })");
  const engine::EnqueueCommand command = ToCommand(std::move(request), "");
  const engine::NewJob& job = command.jobs.front();
  EXPECT_EQ(job.record.job_id(), "mine");
  EXPECT_EQ(job.record.priority(), 0);
  EXPECT_EQ(job.delay_ms, 0);
  EXPECT_EQ(job.record.expiry_wall_ms(), 5000);
  EXPECT_EQ(job.record.max_attempts(), 1);
  EXPECT_EQ(job.record.max_losses(), 2);
  EXPECT_TRUE(job.record.has_loss_backoff_ms());
  EXPECT_EQ(job.record.loss_backoff_ms(), 0);
  EXPECT_EQ(job.record.run_limit_ms(), 60'000);
  EXPECT_TRUE(job.record.retry().has_initial_delay_ms());
  EXPECT_TRUE(job.record.retry().has_jitter());
  EXPECT_FALSE(job.record.retry().has_multiplier());
  EXPECT_EQ(job.record.headers().at("h"), "1");
  EXPECT_EQ(job.record.labels().at("l"), "2");
}

TEST(ConvertTest, LeasesTakeTheDefaults) {
  auto request = Parse<v1::LeaseJobsRequest>("queues: 'b' queues: 'a' queues: 'b'");
  const engine::LeaseCommand command = ToCommand(std::move(request), 1234);
  EXPECT_THAT(command.queues, ElementsAre("b", "a"));
  EXPECT_EQ(command.max_jobs, 1);
  EXPECT_EQ(command.lease_ms, 15'000);
  EXPECT_EQ(command.wait_ms, 1234);
  EXPECT_EQ(command.worker, "anonymous");
  EXPECT_EQ(command.max_reply_bytes, engine::kDefaultReplyBytes);
}

// S65.
TEST(ConvertTest, LongErrorTextsAreShortenedAndMarked) {
  v1::FailJobRequest request;
  request.set_job("queues/q/jobs/j");
  request.set_token(3);
  request.set_error(std::string(20 << 20, 'e'));
  request.set_no_retry(true);
  const engine::SettleItem item = ToItem(std::move(request));
  EXPECT_EQ(item.error.size(), engine::kMaxErrorBytes);
  EXPECT_THAT(item.error, HasSubstr("[shortened from 20971520 bytes]"));
  EXPECT_TRUE(item.no_retry);
  EXPECT_EQ(item.token, 3);
  EXPECT_EQ(item.job.queue, "q");
}

TEST(ConvertTest, QueueUpdatesNameStoredFields) {
  const auto request = Parse<v1::UpdateQueueRequest>(R"(
      queue: "q" etag: "12" draining: true settings { max_jobs: 5 }
      update_mask { paths: "draining" paths: "settings.loss_backoff" paths: "settings.retention"
                    paths: "settings.max_jobs" paths: "settings.max_jobs" })");
  const engine::UpdateQueueCommand command = ToCommand(request, "");
  EXPECT_THAT(command.fields, ElementsAre("loss_backoff_ms", "retention", "max_jobs"));
  EXPECT_EQ(command.draining, true);
  EXPECT_EQ(command.expected_version, 12u);
  EXPECT_EQ(command.settings.max_jobs(), 5);
  // Every field of the API has its stored one.
  const auto* api = v1::QueueSettings::descriptor();
  for (int i = 0; i < api->field_count(); ++i) {
    v1::UpdateQueueRequest one;
    one.mutable_update_mask()->add_paths(absl::StrCat("settings.", api->field(i)->name()));
    const auto fields = ToCommand(one, "").fields;
    ASSERT_EQ(fields.size(), 1u);
    EXPECT_NE(record::QueueSettings::descriptor()->FindFieldByName(fields[0]), nullptr)
        << fields[0];
  }
  EXPECT_THAT(
      ToCommand(Parse<v1::UpdateQueueRequest>("update_mask { paths: 'settings' }"), "").fields,
      ElementsAre("*"));
}

TEST(FingerprintTest, DependsOnContentAndNotOnOrder) {
  auto request = Parse<v1::EnqueueJobRequest>(R"(
      queue: "q" request_id: "r" job { payload: "a"
        headers { key: "x" value: "1" } headers { key: "y" value: "2" } priority: 0 })");
  const uint64_t fingerprint = Fingerprint("EnqueueJob", request);
  auto other = Parse<v1::EnqueueJobRequest>(R"(
      job { priority: 0 headers { key: "y" value: "2" } headers { key: "x" value: "1" }
        payload: "a" } request_id: "another" queue: "q")");
  EXPECT_EQ(Fingerprint("EnqueueJob", other), fingerprint);
  EXPECT_NE(Fingerprint("BatchEnqueueJobs", other), fingerprint);
  // S73: each change of content shows.
  const std::vector<std::function<void(v1::EnqueueJobRequest*)>> changes = {
      [](auto* r) { r->set_queue("p"); },
      [](auto* r) { r->mutable_job()->set_payload("b"); },
      [](auto* r) { r->mutable_job()->clear_priority(); },
      [](auto* r) { r->mutable_job()->mutable_headers()->erase("x"); },
      [](auto* r) { (*r->mutable_job()->mutable_headers())["x"] = "2"; },
      [](auto* r) { r->mutable_job()->mutable_delay(); },
      [](auto* r) { r->mutable_job()->mutable_due_time(); },
      [](auto* r) { r->set_job_id("i"); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    auto changed = request;
    changes[i](&changed);
    EXPECT_NE(Fingerprint("EnqueueJob", changed), fingerprint) << i;
  }
}

// The hash is in the store of every broker: it may never change.
TEST(FingerprintTest, IsTheSameInEveryRelease) {
  EXPECT_EQ(Fingerprint("EnqueueJob", Parse<v1::EnqueueJobRequest>("queue: 'q'")),
            0xf6ba3c2a067bf518u);
  EXPECT_EQ(Fingerprint("BatchEnqueueJobs", Parse<v1::BatchEnqueueJobsRequest>(R"(
                queue: "q" items { job { payload: "x" labels { key: "a" value: "b" }
                retry { multiplier: 1.5 } delay { seconds: 3 nanos: 4 } } job_id: "i" } items { }
                request_id: "not counted")")),
            0x30eb83c5e814c76cu);
  EXPECT_EQ(Fingerprint("UpdateQueue", Parse<v1::UpdateQueueRequest>(R"(
                queue: "q" draining: true update_mask { paths: "draining" paths: "settings" })")),
            0x5cd665f04a9f9a0cu);
}

}  // namespace
}  // namespace stint::api
