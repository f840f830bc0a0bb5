// stint jobs tail
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/job_filter.h"
#include "client/cli/job_follower.h"
#include "client/cli/jobs_display.h"
#include "client/cli/watch.h"
#include "client/cpp/proto_time.h"

namespace stint::cli {
namespace {

struct TailOptions {
  std::string queue;
  FilterOptions filter;
  std::string since = "0s";
  std::string interval = "1s";
  int64_t limit = 0;  // 0: for ever
  std::string columns = "updated,job,state,attempt,kind,labels,error";
};

// What the command line says, made into what the loop needs.
struct TailPlan {
  v1::ListJobsRequest request;
  v1::JobFilter filter;
  std::vector<std::string> columns;
  absl::Duration since;
  absl::Duration interval;
};

absl::StatusOr<TailPlan> MakePlan(const TailOptions& options) {
  TailPlan plan;
  absl::Status status = CheckText("the queue", options.queue);
  if (status.ok()) status = ParseFilter(options.filter, &plan.filter);
  if (!status.ok()) return status;
  // A job is followed through all its states; which are shown is decided here.
  plan.request.set_queue(options.queue);
  *plan.request.mutable_labels() = plan.filter.labels();
  if (plan.filter.has_kind()) plan.request.set_kind(plan.filter.kind());
  auto columns = ParseJobColumns(options.columns);
  if (!columns.ok()) return columns.status();
  plan.columns = *std::move(columns);
  const auto since = ParseDuration(options.since);
  if (!since.ok()) return since.status();
  plan.since = *since;
  const auto interval = ParseInterval(options.interval);
  if (!interval.ok()) return interval.status();
  plan.interval = *interval;
  plan.request.set_view(NeedsFullView(plan.columns) ? v1::JOB_VIEW_FULL : v1::JOB_VIEW_BASIC);
  return plan;
}

// Prints what one poll found, at most `left` jobs; returns how many.
int64_t PrintPoll(const std::vector<v1::Job>& jobs, const TailPlan& plan, int64_t left,
                  Session& session) {
  int64_t shown = 0;
  Table table(plan.columns, session.align(), session.colour(), /*header=*/false);
  for (const v1::Job& job : jobs) {
    if (shown == left) break;
    ++shown;
    if (session.json()) {
      session.PrintJson(job);
    } else {
      table.AddRow(JobRow(job, plan.columns));
    }
  }
  table.Print(session.out());
  session.out().flush();
  return shown;
}

int RunTail(const TailOptions& options, Session& session) {
  auto plan = MakePlan(options);
  if (!plan.ok()) return session.Misuse(plan.status());
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  const std::string doing = absl::StrCat("follow the jobs of ", options.queue);
  // The broker's clock decides what is new, not this machine's.
  const auto server = client->GetServerInfo(session.Calls());
  if (!server.ok()) return session.Fail(doing, server.status());
  *plan->request.mutable_created_after() =
      client::ToProto(client::ToAbsl(server->current_time()) - plan->since);

  JobFollower follower(plan->request);
  int64_t shown = 0;
  int64_t told_unfollowed = 0;
  while (true) {
    std::vector<v1::Job> changed;
    const absl::Status status =
        follower.Poll(*client, session.Calls(), [&plan, &changed](const v1::Job& job) {
          const auto& states = plan->filter.states();
          if (states.empty() ||
              std::find(states.begin(), states.end(), job.state()) != states.end()) {
            changed.push_back(job);
          }
        });
    if (!status.ok()) return session.Fail(doing, status);
    shown += PrintPoll(changed, *plan, options.limit == 0 ? -1 : options.limit - shown, session);
    if (shown == options.limit && options.limit > 0) return kOk;
    if (!session.out()) return kOk;
    if (told_unfollowed == 0 && follower.unfollowed() > 0) {
      told_unfollowed = follower.unfollowed();
      session.err() << "stint: over " << JobFollower::kPageSize * JobFollower::kMaxPages
                    << " jobs are open; the end of the oldest is not shown. Narrow it with "
                       "--kind or --label\n";
      session.err().flush();
    }
    WaitInterval(plan->interval);
  }
}

}  // namespace

void AddJobsTailCommand(CLI::App* jobs, Session& session) {
  auto options = std::make_shared<TailOptions>();
  CLI::App* const command =
      jobs->add_subcommand("tail", "Follow the jobs of a queue as they come, change and end");
  command->add_option("queue", options->queue, "Queue")->required();
  AddMatchFlags(command, &options->filter);
  command->add_option("--since", options->since, "Also jobs enqueued so long before now")
      ->capture_default_str();
  command->add_option("--interval", options->interval, "From one poll to the next")
      ->capture_default_str();
  command->add_option("--limit", options->limit, "End after so many lines")
      ->check(CLI::PositiveNumber);
  command->add_option("--columns", options->columns, "Of: " + JobColumnNames())
      ->capture_default_str();
  command->footer(R"(
One line for each job that is new or whose state has changed since the poll before, in the order
in which they were enqueued; with --json the job itself, as jobs list prints it.

It polls: it lists the jobs from the oldest that has not ended on, and remembers that place. So
it does not see a state that came and went between two polls, a job that was removed before a
poll (retention of 0, delete, purge), and jobs enqueued before it began, except with --since. It
follows the newest 10,000 jobs from the oldest open one on, and says when that is not enough. The
first poll looks once at every job that the queue keeps. Ctrl-C ends it. Examples:
  stint jobs tail email
  stint jobs tail email --state dead --state cancelled --since 1h
  stint jobs tail email --label campaign=may --json)");
  session.OnChosen(command, [options, &session] { return RunTail(*options, session); });
}

}  // namespace stint::cli
