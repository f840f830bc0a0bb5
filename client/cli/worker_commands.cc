// stint lease, complete, fail, release, heartbeat: a worker made by hand, for scripts.

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cpp/proto_time.h"
#include "client/cpp/random_id.h"

namespace stint::cli {
namespace {

struct LeaseOptions {
  std::vector<std::string> queues;
  int max_jobs = 1;
  std::string lease = "15s";
  std::string wait = "20s";
  std::string worker;
  std::string request_id;
};

// The token that owns the job, on the command line of every settle.
struct Held {
  std::string job;
  int64_t token = 0;
};

struct SettleOptions {
  Held held;
  std::string result;
  std::string error;
  std::string retry_after;
  std::string delay;
  bool no_retry = false;
};

int RunLease(const LeaseOptions& options, Session& session) {
  const auto lease = ParseDuration(options.lease);
  if (!lease.ok()) return session.Misuse(lease.status());
  const auto wait = ParseDuration(options.wait);
  if (!wait.ok()) return session.Misuse(wait.status());
  v1::LeaseJobsRequest request;
  for (const std::string& queue : options.queues) {
    const absl::Status valid = CheckText("the queue", queue);
    if (!valid.ok()) return session.Misuse(valid);
    request.add_queues(queue);
  }
  absl::Status valid = CheckText("--worker", options.worker);
  if (valid.ok()) valid = CheckText("--request-id", options.request_id);
  if (!valid.ok()) return session.Misuse(valid);
  request.set_max_jobs(options.max_jobs);
  *request.mutable_lease_duration() = client::ToProto(*lease);
  *request.mutable_wait() = client::ToProto(*wait);
  request.set_worker(options.worker.empty() ? client::RandomWorkerId() : options.worker);
  request.set_request_id(options.request_id);
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  const auto answer = client->LeaseJobs(std::move(request), session.Calls());
  if (!answer.ok()) return session.Fail("take a job", answer.status());
  Table table({"JOB", "TOKEN", "ATTEMPT", "KIND", "PAYLOAD"}, session.align(), session.colour(),
              /*header=*/session.align());
  for (const v1::Lease& one : answer->leases()) {
    if (session.json()) {
      session.PrintJson(one);
    } else {
      table.AddRow({Printable(one.job()), absl::StrCat(one.token()), absl::StrCat(one.attempt()),
                    Printable(one.kind()), Printable(one.payload())});
    }
  }
  if (answer->leases().empty()) {
    return session.Fail("take a job",
                        absl::NotFoundError(absl::StrCat("none came within ", options.wait)),
                        kNotFound, "");
  }
  if (!session.json()) table.Print(session.out());
  return kOk;
}

// Checks job and token; `send` makes the call and returns its status.
template <typename Request, typename Send>
int Settle(const Held& held, Session& session, const char* doing, Request* request, Send send) {
  const auto job = ParseJobName(held.job);
  if (!job.ok()) return session.Misuse(job.status());
  request->set_job(*job);
  request->set_token(held.token);
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  const auto answer = send(*client);
  if (!answer.ok()) return session.Fail(absl::StrCat(doing, " ", *job), answer.status());
  if (session.json()) {
    session.PrintJson(*answer);
  } else {
    session.out() << Printable(*job) << ' ' << StateName(answer->state()) << '\n';
  }
  return kOk;
}

int RunComplete(const SettleOptions& options, Session& session) {
  v1::CompleteJobRequest request;
  auto result = ReadPayload(options.result, session.in());
  if (!result.ok()) return session.Misuse(result.status());
  request.set_result(*std::move(result));
  return Settle(options.held, session, "complete", &request, [&](client::Client& client) {
    return client.CompleteJob(request, session.Calls());
  });
}

int RunFail(const SettleOptions& options, Session& session) {
  v1::FailJobRequest request;
  const absl::Status valid = CheckText("--error", options.error);
  if (!valid.ok()) return session.Misuse(valid);
  request.set_error(options.error);
  if (options.no_retry) request.set_no_retry(true);
  if (!options.retry_after.empty()) {
    const auto delay = ParseDuration(options.retry_after);
    if (!delay.ok()) return session.Misuse(delay.status());
    *request.mutable_retry_after() = client::ToProto(*delay);
  }
  return Settle(options.held, session, "fail", &request,
                [&](client::Client& client) { return client.FailJob(request, session.Calls()); });
}

int RunRelease(const SettleOptions& options, Session& session) {
  v1::ReleaseJobRequest request;
  if (!options.delay.empty()) {
    const auto delay = ParseDuration(options.delay);
    if (!delay.ok()) return session.Misuse(delay.status());
    *request.mutable_delay() = client::ToProto(*delay);
  }
  return Settle(options.held, session, "release", &request, [&](client::Client& client) {
    return client.ReleaseJob(request, session.Calls());
  });
}

struct HeartbeatOptions {
  Held held;
  std::string worker;
  std::string progress;
  CLI::Option* progress_option = nullptr;
};

int RunHeartbeat(const HeartbeatOptions& options, Session& session) {
  const Held& held = options.held;
  const auto job = ParseJobName(held.job);
  if (!job.ok()) return session.Misuse(job.status());
  const absl::Status valid = CheckText("--worker", options.worker);
  if (!valid.ok()) return session.Misuse(valid);
  v1::HeartbeatRequest request;
  request.set_worker(options.worker);
  request.add_leases()->set_job(*job);
  if (options.progress_option->count() > 0) {
    request.mutable_leases(0)->set_progress(options.progress);
  }
  request.mutable_leases(0)->set_token(held.token);
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  const auto answer = client->Heartbeat(request, session.Calls());
  if (!answer.ok()) return session.Fail("renew the lease on " + *job, answer.status());
  if (answer->results_size() != 1) {
    return session.Fail("renew the lease on " + *job,
                        absl::InternalError("the broker answered for another number of leases"));
  }
  const v1::HeartbeatResult& result = answer->results(0);
  if (session.json()) {
    session.PrintJson(*answer);
  } else {
    session.out() << absl::StripPrefix(v1::LeaseStatus_Name(result.status()), "LEASE_STATUS_")
                  << '\n';
  }
  const bool ours = result.status() == v1::LEASE_STATUS_RENEWED ||
                    result.status() == v1::LEASE_STATUS_CANCEL_REQUESTED;
  return ours ? kOk : kWrongState;
}

void AddHeld(CLI::App* command, Held* held) {
  command->add_option("job", held->job, "Job")->required();
  command->add_option("token", held->token, "Fencing token of the lease")
      ->required()
      // CLI11 takes the nearest number it can hold for one that is too large.
      ->check([](const std::string& text) {
        int64_t token = 0;
        return absl::SimpleAtoi(text, &token) && token > 0
                   ? std::string()
                   : absl::StrCat("'", text, "' is no token: a whole number, as the lease says");
      });
}

void AddLease(CLI::App& root, Session& session) {
  auto options = std::make_shared<LeaseOptions>();
  CLI::App* const command = root.add_subcommand("lease", "Take jobs, for a worker made by hand");
  command
      ->add_option("queues", options->queues, "Queues; the first with a ready job is served first")
      ->required();
  command->add_option("--max", options->max_jobs, "At most so many jobs")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_option("--lease", options->lease, "How long you hold it without a heartbeat")
      ->capture_default_str();
  command->add_option("--wait", options->wait, "How long to wait for a job")->capture_default_str();
  command->add_option("--worker", options->worker, "Who takes it; default: host, pid, random");
  command->add_option("--request-id", options->request_id,
                      "With --worker: a repeat gives the same jobs");
  command->footer(R"(
Prints job, token, attempt, kind and payload; exits with 4 when no job came. Example:
  stint lease email --lease 10m --json > job.json
  stint complete $(jq -r '.job, .token' job.json) --result done)");
  session.OnChosen(command, [options, &session] { return RunLease(*options, session); });
}

}  // namespace

void AddWorkerCommands(CLI::App& root, Session& session) {
  AddLease(root, session);

  auto complete = std::make_shared<SettleOptions>();
  CLI::App* const complete_command = root.add_subcommand("complete", "End a job you hold well");
  AddHeld(complete_command, &complete->held);
  complete_command->add_option("--result", complete->result,
                               "Kept with the job: TEXT, @FILE, or - for standard input");
  complete_command->footer(R"(
Job and token are those that stint lease printed. Example:
  stint complete email/order-17 1760000000000001 --result @report.json)");
  session.OnChosen(complete_command,
                   [complete, &session] { return RunComplete(*complete, session); });

  auto fail = std::make_shared<SettleOptions>();
  CLI::App* const fail_command = root.add_subcommand("fail", "Say that an attempt failed");
  AddHeld(fail_command, &fail->held);
  fail_command->add_option("--error", fail->error, "What went wrong, for people");
  auto* const after =
      fail_command->add_option("--retry-after", fail->retry_after, "Retry after this long");
  fail_command->add_flag("--no-retry", fail->no_retry, "Never retry: it becomes a dead letter")
      ->excludes(after);
  fail_command->footer(R"(
Without --retry-after or --no-retry the queue's retry policy decides. Example:
  stint fail email/order-17 1760000000000001 --error 'mail server said no' --retry-after 5m)");
  session.OnChosen(fail_command, [fail, &session] { return RunFail(*fail, session); });

  auto release = std::make_shared<SettleOptions>();
  CLI::App* const release_command =
      root.add_subcommand("release", "Give a job back unfinished, at no cost to it");
  AddHeld(release_command, &release->held);
  release_command->add_option("--delay", release->delay, "Not before this long");
  release_command->footer("\nExample: stint release email/order-17 1760000000000001 --delay 10s");
  session.OnChosen(release_command, [release, &session] { return RunRelease(*release, session); });

  auto renew = std::make_shared<HeartbeatOptions>();
  CLI::App* const heartbeat = root.add_subcommand("heartbeat", "Renew a lease");
  AddHeld(heartbeat, &renew->held);
  heartbeat->add_option("--worker", renew->worker, "Who holds it");
  renew->progress_option = heartbeat->add_option(
      "--progress", renew->progress, "How far the work is; shown by `jobs get` while it is leased");
  heartbeat->footer(R"(
Prints RENEWED, CANCEL_REQUESTED (renewed, but somebody wants the job cancelled), LOST or
RUN_LIMIT; the last two exit with 5: stop working. Example:
  stint heartbeat email/order-17 1760000000000001)");
  session.OnChosen(heartbeat, [renew, &session] { return RunHeartbeat(*renew, session); });
}

}  // namespace stint::cli
