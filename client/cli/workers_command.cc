// stint workers list|drain
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"

namespace stint::cli {
namespace {

struct ListOptions {
  std::string prefix;
};

struct DrainOptions {
  std::string worker;
  std::string version;
};

int RunList(const ListOptions& options, Session& session) {
  const absl::Status valid = CheckText("--prefix", options.prefix);
  if (!valid.ok()) return session.Misuse(valid);
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  v1::ListWorkersRequest request;
  request.set_prefix(options.prefix);
  Table table({"WORKER", "VERSION", "QUEUES", "LEASES", "STREAMS", "HEARD", "STATE"},
              session.align(), session.colour());
  while (true) {
    const auto page = client->ListWorkers(request, session.Calls());
    if (!page.ok()) return session.Fail("list the workers", page.status());
    for (const v1::Worker& worker : page->workers()) {
      if (session.json()) {
        session.PrintJson(worker);
        continue;
      }
      table.AddRow({Printable(absl::StripPrefix(worker.name(), "workers/")),
                    Printable(worker.version()), Printable(absl::StrJoin(worker.queues(), ",")),
                    absl::StrCat(worker.leases()), absl::StrCat(worker.streams()),
                    absl::StrCat(DurationText(worker.silence()), " ago"),
                    worker.draining() ? Cell("leaving", Colour::kYellow) : Cell("")});
    }
    if (page->next_page_token().empty()) break;
    request.set_page_token(page->next_page_token());
  }
  if (!session.json()) table.Print(session.out());
  return kOk;
}

int RunDrain(const DrainOptions& options, Session& session) {
  absl::Status valid = CheckText("the worker", options.worker);
  if (valid.ok()) valid = CheckText("--version", options.version);
  if (!valid.ok()) return session.Misuse(valid);
  if (options.worker.empty() == options.version.empty()) {
    return session.Misuse(absl::InvalidArgumentError(
        "say which workers: one by its id, or all of a release with --version"));
  }
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  v1::DrainWorkerRequest request;
  if (options.worker.empty()) {
    request.set_version(options.version);
  } else {
    request.set_worker(options.worker);
  }
  const auto answer = client->DrainWorker(request, session.Calls());
  if (!answer.ok()) return session.Fail("drain the worker", answer.status());
  if (session.json()) {
    session.PrintJson(*answer);
  } else {
    session.out() << CountText(answer->workers(), "worker") << " asked to leave\n";
  }
  return kOk;
}

}  // namespace

void AddWorkersCommands(CLI::App& root, Session& session) {
  CLI::App* const workers = root.add_subcommand("workers", "Look at workers and ask them to leave");
  workers->require_subcommand(1);

  auto list_options = std::make_shared<ListOptions>();
  CLI::App* const list = workers->add_subcommand("list", "Workers that are there");
  list->add_option("--prefix", list_options->prefix, "Only those whose id begins with this");
  list->footer(R"(
HEARD is when the worker last said anything. Examples:
  stint workers list
  stint workers list --json)");
  session.OnChosen(list, [list_options, &session] { return RunList(*list_options, session); });

  auto drain_options = std::make_shared<DrainOptions>();
  CLI::App* const drain =
      workers->add_subcommand("drain", "Ask workers to finish what they hold and end");
  drain->add_option("worker", drain_options->worker, "Id of one worker");
  drain->add_option("--version", drain_options->version, "All workers that run this release");
  drain->footer(R"(
They get no more jobs, settle what they hold, and end. Workers that come later are not touched.
Examples:
  stint workers drain host-7:2113:5f0c9a11
  stint workers drain --version 1.4.2)");
  session.OnChosen(drain, [drain_options, &session] { return RunDrain(*drain_options, session); });
}

}  // namespace stint::cli
