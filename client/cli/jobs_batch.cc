#include "client/cli/jobs_batch.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cli/output.h"
#include "client/cli/progress_bar.h"

namespace stint::cli {
namespace {

// Makes steps until the run has come to its end, or one fails; sums up in `total`.
absl::Status RunSteps(client::Client& client, v1::BatchCancelJobsRequest request,
                      const BatchStep& step, ProgressBar* bar, v1::BatchResult* total) {
  do {
    const auto result = step(client, request);
    if (!result.ok()) return result.status();
    total->set_matched(total->matched() + result->matched());
    total->set_changed(total->changed() + result->changed());
    total->set_skipped_moved(total->skipped_moved() + result->skipped_moved());
    total->set_skipped_cancelling(total->skipped_cancelling() + result->skipped_cancelling());
    request.set_page_token(result->next_page_token());
    if (bar != nullptr) bar->Show(total->changed());
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

void PrintTotal(const v1::BatchResult& total, Session& session, const std::string& done) {
  if (session.json()) {
    session.PrintJson(total);
    return;
  }
  session.out() << done << ' ' << CountText(total.changed(), "job") << '\n';
  if (total.skipped_moved() > 0) {
    session.out() << "passed over " << CountText(total.skipped_moved(), "job")
                  << " that changed state after this command began\n";
  }
  if (total.skipped_cancelling() > 0) {
    session.out() << "passed over " << CountText(total.skipped_cancelling(), "job")
                  << " that are being cancelled already\n";
  }
}

bool Agreed(Session& session, const std::string& question) {
  session.err() << question << " [y/N] ";
  session.err().flush();
  std::string answer;
  std::getline(session.in(), answer);
  absl::AsciiStrToLower(&answer);
  return answer == "y" || answer == "yes";
}

}  // namespace

void AddBatchFlags(CLI::App* command, BatchOptions* options) {
  const std::string group = "Instead of jobs by name";
  command->add_option("--queue", options->queue, "Every job of this queue that matches")
      ->group(group);
  AddFilterFlags(command, &options->filter);
  for (const char* const flag :
       {"--state", "--kind", "--label", "--created-after", "--created-before"}) {
    command->get_option(flag)->group(group);
  }
  command->add_flag("--dry-run", options->dry_run, "Change nothing, only count")->group(group);
  command->add_flag("--yes", options->yes, "Do not ask")->group(group);
}

int ChangeMatching(const BatchOptions& options, Session& session, const std::string& verb,
                   const std::string& done, const BatchStep& step) {
  v1::BatchCancelJobsRequest request;
  absl::Status valid = CheckText("--queue", options.queue);
  if (valid.ok()) valid = ParseFilter(options.filter, request.mutable_filter());
  if (valid.ok() && !options.dry_run && !options.yes && !session.may_ask()) {
    valid = absl::InvalidArgumentError(
        absl::StrCat("nobody can be asked here whether to ", verb,
                     " every job that matches: give --yes, or --dry-run to count them"));
  }
  if (!valid.ok()) return session.Misuse(valid);
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  request.set_queue(options.queue);
  const std::string doing = absl::StrCat(verb, " jobs of ", options.queue);

  // People are told how many before anything happens.
  v1::BatchResult counted;
  if (options.dry_run || session.err_is_terminal()) {
    request.set_dry_run(true);
    const absl::Status status = RunSteps(*client, request, step, nullptr, &counted);
    if (!status.ok()) return session.Fail("count the " + doing, status);
    request.set_dry_run(false);
  }
  if (options.dry_run) {
    PrintTotal(counted, session, "would have " + done);
    return kOk;
  }
  if (!options.yes && counted.changed() > 0 &&
      !Agreed(session, absl::StrCat("stint: ", verb, " ", CountText(counted.changed(), "job"),
                                    " of queue ", Printable(options.queue), "?"))) {
    session.err() << "stint: nothing was changed\n";
    return kRefused;
  }
  v1::BatchResult total;
  ProgressBar bar(session.err(), session.err_is_terminal() && counted.changed() > 0,
                  counted.changed());
  const absl::Status status = RunSteps(*client, std::move(request), step, &bar, &total);
  bar.Finish();
  if (status.ok() || total.changed() > 0) PrintTotal(total, session, done);
  return status.ok() ? kOk : session.Fail(doing, status);
}

}  // namespace stint::cli
