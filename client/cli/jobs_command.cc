// stint jobs list|get
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/job_filter.h"
#include "client/cli/jobs_display.h"
#include "client/cli/watch.h"

namespace stint::cli {
namespace {

constexpr int kMaxPage = 1000;

struct ListOptions {
  std::string queue;
  FilterOptions filter;
  int64_t limit = 100;
  std::string columns;
  bool no_header = false;
  bool all = false;
  std::string view = "basic";
  WatchOptions watch;
};

int RunList(const ListOptions& options, Session& session) {
  v1::ListJobsRequest request;
  request.set_queue(options.queue);
  absl::Status valid = CheckText("the queue", options.queue);
  if (valid.ok()) valid = ParseFilter(options.filter, &request);
  if (!valid.ok()) return session.Misuse(valid);
  auto columns = ParseJobColumns(
      options.columns.empty() ? "job,state,attempt,priority,kind,created,labels" : options.columns);
  if (!columns.ok()) return session.Misuse(columns.status());
  if (options.view == "full" && !session.json()) {
    return session.Misuse(absl::InvalidArgumentError(
        "--view full is for --json; a table shows --columns payload,result"));
  }
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  request.set_view(options.view == "full" || NeedsFullView(*columns) ? v1::JOB_VIEW_FULL
                                                                     : v1::JOB_VIEW_BASIC);
  std::vector<std::string> titles = *columns;
  for (std::string& title : titles) absl::AsciiStrToUpper(&title);
  int64_t shown = 0;
  bool first = true;
  do {
    const int64_t rest = options.all ? kMaxPage : options.limit - shown;
    request.set_page_size(static_cast<int>(std::min<int64_t>(rest, kMaxPage)));
    const auto page = client->ListJobs(request, session.Calls());
    if (!page.ok()) return session.Fail("list the jobs of " + options.queue, page.status());
    Table table(titles, session.align(), session.colour(), first && !options.no_header);
    for (const v1::Job& job : page->jobs()) {
      if (session.json()) {
        session.PrintJson(job);
      } else {
        table.AddRow(JobRow(job, *columns));
      }
    }
    if (!session.json()) table.Print(session.out());
    first = false;
    shown += page->jobs_size();
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty() && (options.all || shown < options.limit));
  if (!request.page_token().empty() && session.align()) {
    session.err() << "(there may be more: --all shows them)\n";
  }
  return kOk;
}

struct GetOptions {
  std::string job;
  bool payload = false;
  bool result = false;
};

int RunGet(const GetOptions& options, Session& session) {
  const auto name = ParseJobName(options.job);
  if (!name.ok()) return session.Misuse(name.status());
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  v1::GetJobRequest request;
  request.set_job(*name);
  const auto answer = client->GetJob(request, session.Calls());
  if (!answer.ok()) return session.Fail("get " + *name, answer.status());
  const v1::Job& job = answer->job();
  if (options.payload) {
    session.out() << job.spec().payload();
  } else if (options.result) {
    session.out() << job.result();
  } else if (session.json()) {
    session.PrintJson(job);
  } else {
    PrintJob(job, session);
  }
  return kOk;
}

}  // namespace

void AddJobsCommands(CLI::App& root, Session& session) {
  CLI::App* const jobs = root.add_subcommand("jobs", "Look at jobs and change them");
  jobs->require_subcommand(1);
  jobs->footer("\nA job is written queues/QUEUE/jobs/ID or, shorter, QUEUE/ID.");

  auto list = std::make_shared<ListOptions>();
  CLI::App* const list_command = jobs->add_subcommand("list", "List jobs of a queue");
  list_command->add_option("queue", list->queue, "Queue")->required();
  AddFilterFlags(list_command, &list->filter);
  auto* const limit = list_command->add_option("--limit", list->limit, "At most so many");
  limit->capture_default_str()->check(CLI::PositiveNumber);
  list_command->add_flag("--all", list->all, "However many there are")->excludes(limit);
  list_command->add_option("--columns", list->columns, "Of: " + JobColumnNames());
  list_command->add_flag("--no-header", list->no_header, "Rows only");
  list_command
      ->add_option("--view", list->view,
                   "With --json: full shows payload, headers and result as well")
      ->capture_default_str()
      ->check(CLI::IsMember({"basic", "full"}));
  list_command->footer(R"(
In the order they were enqueued. Off a terminal columns are separated by one tab. Examples:
  stint jobs list email --state dead
  stint jobs list files --state completed --all --columns payload,result --no-header)");
  AddWatchFlags(list_command, &list->watch);
  session.OnChosen(list_command, [list, &session] {
    return RunWatched(list->watch, session, "jobs", [&] { return RunList(*list, session); });
  });

  auto get = std::make_shared<GetOptions>();
  CLI::App* const get_command = jobs->add_subcommand("get", "Show one job");
  get_command->add_option("job", get->job, "Job")->required();
  auto* const payload = get_command->add_flag("--payload", get->payload,
                                              "Print the payload's bytes and nothing else");
  get_command->add_flag("--result", get->result, "Print the result's bytes and nothing else")
      ->excludes(payload);
  get_command->footer(R"(
Examples:
  stint jobs get email/order-17
  stint jobs get email/order-17 --result > result.json)");
  session.OnChosen(get_command, [get, &session] { return RunGet(*get, session); });

  AddJobsTailCommand(jobs, session);
  AddJobChangeCommands(jobs, session);
}

}  // namespace stint::cli
