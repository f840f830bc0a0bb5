// stint jobs list|get
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/jobs_display.h"
#include "client/cpp/proto_time.h"

namespace stint::cli {
namespace {

constexpr int kMaxPage = 1000;

struct ListOptions {
  std::string queue;
  std::vector<std::string> states;
  std::string kind;
  std::vector<std::string> labels;
  std::string created_after;
  std::string created_before;
  int64_t limit = 100;
  std::string columns;
  bool no_header = false;
  bool all = false;
  std::string view = "basic";
};

absl::Status MakeListRequest(const ListOptions& options, bool kind_given,
                             v1::ListJobsRequest* request) {
  absl::Status status = CheckText("the queue", options.queue);
  if (status.ok()) status = CheckText("--kind", options.kind);
  if (status.ok()) status = ParsePairs(options.labels, request->mutable_labels());
  if (!status.ok()) return status;
  request->set_queue(options.queue);
  if (kind_given) request->set_kind(options.kind);
  for (const std::string& text : options.states) {
    const auto state = ParseState(text);
    if (!state.ok()) return state.status();
    request->add_states(*state);
  }
  const std::pair<const std::string*, google::protobuf::Timestamp*> bounds[] = {
      {&options.created_after,
       options.created_after.empty() ? nullptr : request->mutable_created_after()},
      {&options.created_before,
       options.created_before.empty() ? nullptr : request->mutable_created_before()}};
  for (const auto& [text, field] : bounds) {
    if (field == nullptr) continue;
    const auto time = ParseTime(*text);
    if (!time.ok()) return time.status();
    *field = client::ToProto(*time);
  }
  return absl::OkStatus();
}

int RunList(const ListOptions& options, bool kind_given, Session& session) {
  v1::ListJobsRequest request;
  const absl::Status valid = MakeListRequest(options, kind_given, &request);
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
  list_command
      ->add_option("--state", list->states,
                   "delayed, held, ready, leased, completed, cancelled or dead; may be "
                   "repeated")
      ->allow_extra_args(false);
  auto* const kind = list_command->add_option("--kind", list->kind, "Only this kind");
  list_command->add_option("--label", list->labels, "KEY=VALUE; may be repeated: all must match")
      ->allow_extra_args(false);
  list_command->add_option("--created-after", list->created_after, "RFC 3339, inclusive");
  list_command->add_option("--created-before", list->created_before, "RFC 3339, exclusive");
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
  session.OnChosen(list_command,
                   [list, kind, &session] { return RunList(*list, kind->count() > 0, session); });

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

  AddJobChangeCommands(jobs, session);
}

}  // namespace stint::cli
