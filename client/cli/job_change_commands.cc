// stint jobs wait|cancel|redrive|delete|update
#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/jobs_batch.h"
#include "client/cli/jobs_display.h"
#include "client/cpp/proto_time.h"

namespace stint::cli {
namespace {

struct WaitOptions {
  std::string job;
  std::string limit;
  bool result = false;
};

struct ChangeOptions {
  std::vector<std::string> jobs;
  std::string request_id;
  bool force = false;
  BatchOptions batch;
};

struct UpdateOptions {
  std::string job;
  int priority = -1;
  std::string due;
  std::string delay;
  int max_attempts = 0;
  int max_losses = 0;
  std::string request_id;
};

int RunWait(const WaitOptions& options, Session& session) {
  const auto name = ParseJobName(options.job);
  if (!name.ok()) return session.Misuse(name.status());
  absl::Duration limit = absl::InfiniteDuration();
  if (!options.limit.empty()) {
    const auto given = ParseDuration(options.limit);
    if (!given.ok()) return session.Misuse(given.status());
    limit = *given;
  }
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  const auto job = client->AwaitJob(*name, limit, session.Calls());
  if (!job.ok()) {
    if (!absl::IsDeadlineExceeded(job.status())) {
      return session.Fail("wait for " + *name, job.status());
    }
    return session.Fail(
        "wait for " + *name, job.status(), kStillRunning,
        "wait longer with --for, or see what it waits for: stint jobs get " + *name);
  }
  if (options.result) {
    session.out() << job->result();
  } else if (session.json()) {
    session.PrintJson(*job);
  } else {
    PrintJob(*job, session);
  }
  return job->state() == v1::JOB_STATE_COMPLETED ? kOk : kNotCompleted;
}

// Makes one call for each job and prints what it has become. Goes on after a refusal; the
// first one gives the exit code.
template <typename Request, typename Send>
int ChangeEach(const ChangeOptions& options, Session& session, const char* doing, Send send) {
  std::vector<std::string> names;
  for (const std::string& text : options.jobs) {
    auto name = ParseJobName(text);
    if (!name.ok()) return session.Misuse(name.status());
    names.push_back(*std::move(name));
  }
  absl::Status valid = CheckText("--request-id", options.request_id);
  if (valid.ok() && !options.request_id.empty() && names.size() > 1) {
    valid = absl::InvalidArgumentError("--request-id is for one job; these are several calls");
  }
  if (!valid.ok()) return session.Misuse(valid);
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  int code = kOk;
  for (const std::string& name : names) {
    Request request;
    request.set_job(name);
    request.set_request_id(options.request_id);
    const absl::Status status = send(*client, std::move(request));
    if (status.ok()) continue;
    const int failed = session.Fail(absl::StrCat(doing, " ", name), status);
    if (code == kOk) code = failed;
  }
  return code;
}

void PrintState(Session& session, const std::string& job, const google::protobuf::Message& answer,
                absl::string_view state) {
  if (session.json()) {
    session.PrintJson(answer);
  } else {
    session.out() << Printable(job) << ' ' << state << '\n';
  }
}

// Whether jobs are named or matched; exactly one of them.
absl::Status CheckChoice(const ChangeOptions& options) {
  const bool by_filter = options.batch.filter.any() || options.batch.dry_run || options.batch.yes;
  if (options.batch.queue.empty()) {
    if (by_filter) {
      return absl::InvalidArgumentError(
          "filters, --dry-run and --yes go with --queue QUEUE; jobs by name need none");
    }
    if (options.jobs.empty()) {
      return absl::InvalidArgumentError("say which: one or more jobs, or --queue QUEUE");
    }
  } else if (!options.jobs.empty()) {
    return absl::InvalidArgumentError("jobs are named, or matched with --queue; not both");
  } else if (!options.request_id.empty()) {
    return absl::InvalidArgumentError("--request-id is for one job; these are several calls");
  }
  return absl::OkStatus();
}

// The answer of a batch call without what is around it.
template <typename Response>
absl::StatusOr<v1::BatchResult> ResultOf(absl::StatusOr<Response> answer) {
  if (!answer.ok()) return answer.status();
  return std::move(*answer->mutable_result());
}

// The same step for another of the batch calls.
template <typename Request>
Request StepOf(const v1::BatchCancelJobsRequest& step) {
  Request request;
  request.set_queue(step.queue());
  *request.mutable_filter() = step.filter();
  request.set_page_token(step.page_token());
  request.set_dry_run(step.dry_run());
  return request;
}

int RunCancel(const ChangeOptions& options, Session& session) {
  if (!options.batch.queue.empty()) {
    return ChangeMatching(options.batch, session, "cancel", "cancelled",
                          [&](client::Client& client, const v1::BatchCancelJobsRequest& request) {
                            return ResultOf(client.BatchCancelJobs(request, session.Calls()));
                          });
  }
  return ChangeEach<v1::CancelJobRequest>(
      options, session, "cancel", [&](client::Client& client, v1::CancelJobRequest request) {
        const auto answer = client.CancelJob(request, session.Calls());
        if (answer.ok()) PrintState(session, request.job(), *answer, StateName(answer->state()));
        return answer.status();
      });
}

int RunRedrive(const ChangeOptions& options, Session& session) {
  if (!options.batch.queue.empty()) {
    return ChangeMatching(options.batch, session, "redrive", "redriven",
                          [&](client::Client& client, const v1::BatchCancelJobsRequest& request) {
                            return ResultOf(client.BatchRedriveJobs(
                                StepOf<v1::BatchRedriveJobsRequest>(request), session.Calls()));
                          });
  }
  return ChangeEach<v1::RedriveJobRequest>(
      options, session, "redrive", [&](client::Client& client, v1::RedriveJobRequest request) {
        const auto answer = client.RedriveJob(request, session.Calls());
        if (answer.ok()) PrintState(session, request.job(), *answer, StateName(answer->state()));
        return answer.status();
      });
}

int RunDelete(const ChangeOptions& options, Session& session) {
  if (!options.batch.queue.empty()) {
    return ChangeMatching(
        options.batch, session, "delete", "deleted",
        [&](client::Client& client, const v1::BatchCancelJobsRequest& request) {
          auto step = StepOf<v1::BatchDeleteJobsRequest>(request);
          step.set_force(options.force);
          return ResultOf(client.BatchDeleteJobs(std::move(step), session.Calls()));
        });
  }
  return ChangeEach<v1::DeleteJobRequest>(
      options, session, "delete", [&](client::Client& client, v1::DeleteJobRequest request) {
        request.set_force(options.force);
        const auto answer = client.DeleteJob(request, session.Calls());
        if (answer.ok()) PrintState(session, request.job(), *answer, "deleted");
        return answer.status();
      });
}

int RunUpdate(const UpdateOptions& options, Session& session) {
  const auto name = ParseJobName(options.job);
  if (!name.ok()) return session.Misuse(name.status());
  const absl::Status valid = CheckText("--request-id", options.request_id);
  if (!valid.ok()) return session.Misuse(valid);
  v1::UpdateJobRequest request;
  request.set_job(*name);
  request.set_request_id(options.request_id);
  v1::JobSpec* const spec = request.mutable_spec();
  google::protobuf::FieldMask* const mask = request.mutable_update_mask();
  if (options.priority >= 0) {
    spec->set_priority(options.priority);
    mask->add_paths("priority");
  }
  if (options.max_attempts > 0) {
    spec->set_max_attempts(options.max_attempts);
    mask->add_paths("max_attempts");
  }
  if (options.max_losses > 0) {
    spec->set_max_losses(options.max_losses);
    mask->add_paths("max_losses");
  }
  if (!options.due.empty()) {
    const auto due = ParseTime(options.due);
    if (!due.ok()) return session.Misuse(due.status());
    *spec->mutable_due_time() = client::ToProto(*due);
    mask->add_paths("due_time");
  }
  if (!options.delay.empty()) {
    const auto delay = ParseDuration(options.delay);
    if (!delay.ok()) return session.Misuse(delay.status());
    *spec->mutable_delay() = client::ToProto(*delay);
    mask->add_paths("delay");
  }
  if (mask->paths().empty()) {
    return session.Misuse(absl::InvalidArgumentError(
        "nothing to change; give --priority, --due, --delay, --max-attempts or --max-losses"));
  }
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  const auto answer = client->UpdateJob(std::move(request), session.Calls());
  if (!answer.ok()) return session.Fail("update " + *name, answer.status());
  if (session.json()) {
    session.PrintJson(answer->job());
  } else {
    PrintJob(answer->job(), session);
  }
  return kOk;
}

std::shared_ptr<ChangeOptions> AddChange(CLI::App* command) {
  auto options = std::make_shared<ChangeOptions>();
  command->add_option("jobs", options->jobs, "One or more jobs");
  command->add_option("--request-id", options->request_id, "Makes it safe to repeat; one job");
  AddBatchFlags(command, &options->batch);
  return options;
}

void OnChange(CLI::App* command, const std::shared_ptr<ChangeOptions>& options, Session& session,
              int (*run)(const ChangeOptions&, Session&)) {
  session.OnChosen(command, [options, run, &session] {
    const absl::Status valid = CheckChoice(*options);
    return valid.ok() ? run(*options, session) : session.Misuse(valid);
  });
}

void AddUpdate(CLI::App* jobs, Session& session) {
  auto options = std::make_shared<UpdateOptions>();
  CLI::App* const command = jobs->add_subcommand("update", "Change a job that has not ended");
  command->add_option("job", options->job, "Job")->required();
  command->add_option("--priority", options->priority, "0 to 9")->check(CLI::Range(0, 9));
  auto* const due = command->add_option("--due", options->due, "Start at this time, RFC 3339");
  command->add_option("--delay", options->delay, "Start after this long; 0s: now")->excludes(due);
  command->add_option("--max-attempts", options->max_attempts, "Failures that end it as dead")
      ->check(CLI::Range(1, 10'000));
  command->add_option("--max-losses", options->max_losses, "Losses in a row that end it as dead")
      ->check(CLI::Range(1, 10'000));
  command->add_option("--request-id", options->request_id, "Makes it safe to repeat");
  command->footer("\nExample: stint jobs update reports/j17 --delay 0s --priority 9");
  session.OnChosen(command, [options, &session] { return RunUpdate(*options, session); });
}

}  // namespace

void AddJobChangeCommands(CLI::App* jobs, Session& session) {
  auto wait = std::make_shared<WaitOptions>();
  CLI::App* const wait_command = jobs->add_subcommand("wait", "Wait until a job has ended");
  wait_command->add_option("job", wait->job, "Job")->required();
  wait_command->add_option("--for", wait->limit, "At most this long; default: for ever");
  wait_command->add_flag("--result", wait->result, "Print the result's bytes and nothing else");
  wait_command->footer(R"(
Exits with 0 if the job completed, 6 if it ended otherwise, 7 if it has not ended in time, 3 if
no broker answered for --timeout. Example:
  stint jobs wait $(stint enqueue reports --payload may) --result --for 10m)");
  session.OnChosen(wait_command, [wait, &session] { return RunWait(*wait, session); });

  CLI::App* const cancel_command = jobs->add_subcommand("cancel", "Cancel jobs");
  auto cancel = AddChange(cancel_command);
  cancel_command->footer(
      R"(
A waiting job is CANCELLED at once; the worker of a leased one is told to stop. With --queue:
every job that has not ended, or of those in the states named. Examples:
  stint jobs cancel email/j-0000000000001
  stint jobs cancel --queue email --state delayed --label campaign=may --dry-run)");
  OnChange(cancel_command, cancel, session, RunCancel);

  CLI::App* const redrive_command =
      jobs->add_subcommand("redrive", "Revive dead or cancelled jobs with fresh budgets");
  auto redrive = AddChange(redrive_command);
  redrive_command->footer(R"(
With --queue: every dead job, or those in the states named (dead, cancelled). Examples:
  stint jobs redrive email/order-17
  stint jobs redrive --queue email --kind welcome --yes)");
  OnChange(redrive_command, redrive, session, RunRedrive);

  CLI::App* const delete_command = jobs->add_subcommand("delete", "Remove jobs and their records");
  auto remove = AddChange(delete_command);
  delete_command->add_flag("--force", remove->force, "Also jobs that a worker holds");
  delete_command->footer(R"(
With --queue: every job that has ended, or those in the states named; leased ones only with
--force. Examples:
  stint jobs delete email/order-17
  stint jobs delete --queue email --state completed --created-before 2026-05-01T00:00:00Z)");
  OnChange(delete_command, remove, session, RunDelete);

  AddUpdate(jobs, session);
}

}  // namespace stint::cli
