// stint queues list|stats
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/watch.h"

namespace stint::cli {
namespace {

struct ListOptions {
  std::string prefix;
  bool no_stats = false;
  WatchOptions watch;
};

struct StatsOptions {
  std::string queue;
  WatchOptions watch;
};

std::vector<Cell> StatsCells(const v1::QueueStats& stats) {
  return {absl::StrCat(stats.ready()),
          absl::StrCat(stats.delayed()),
          absl::StrCat(stats.held()),
          absl::StrCat(stats.leased()),
          absl::StrCat(stats.completed()),
          absl::StrCat(stats.cancelled()),
          {absl::StrCat(stats.dead()), stats.dead() > 0 ? Colour::kRed : Colour::kNone},
          stats.has_oldest_ready_age() ? DurationText(stats.oldest_ready_age()) : "-"};
}

// The queue's own JSON with its figures as one more field, `stats`.
void PrintWithStats(const v1::Queue& queue, const v1::QueueStats* stats, Session& session) {
  if (stats == nullptr) {
    session.PrintJson(queue);
    return;
  }
  std::string json = ToJson(queue);
  json.pop_back();
  session.out() << json << ",\"stats\":" << ToJson(*stats, /*with_zeros=*/true) << "}\n";
}

int RunList(const ListOptions& options, Session& session) {
  const absl::Status valid = CheckText("--prefix", options.prefix);
  if (!valid.ok()) return session.Misuse(valid);
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  std::vector<std::string> titles = {"QUEUE", "STATUS"};
  if (!options.no_stats) {
    titles.insert(titles.end(), {"READY", "DELAYED", "HELD", "LEASED", "COMPLETED", "CANCELLED",
                                 "DEAD", "OLDEST"});
  }
  v1::ListQueuesRequest request;
  request.set_prefix(options.prefix);
  request.set_page_size(1000);
  request.set_with_stats(!options.no_stats);
  Table table(titles, session.align(), session.colour());
  do {
    const auto page = client->ListQueues(request, session.Calls());
    if (!page.ok()) return session.Fail("list queues", page.status());
    for (int i = 0; i < page->queues_size(); ++i) {
      const v1::Queue& queue = page->queues(i);
      if (session.json()) {
        PrintWithStats(queue, i < page->stats_size() ? &page->stats(i) : nullptr, session);
        continue;
      }
      std::vector<Cell> row = {Printable(absl::StripPrefix(queue.name(), "queues/")),
                               queue.paused()     ? Cell("paused", Colour::kYellow)
                               : queue.draining() ? Cell("draining", Colour::kYellow)
                                                  : Cell("open")};
      if (i < page->stats_size()) {
        for (Cell& cell : StatsCells(page->stats(i))) row.push_back(std::move(cell));
      }
      table.AddRow(std::move(row));
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  if (!session.json()) table.Print(session.out());
  return kOk;
}

int RunStats(const std::string& queue, Session& session) {
  const absl::Status valid = CheckText("the queue", queue);
  if (!valid.ok()) return session.Misuse(valid);
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  v1::GetQueueStatsRequest request;
  request.set_queue(queue);
  const auto answer = client->GetQueueStats(request, session.Calls());
  if (!answer.ok()) return session.Fail("get the figures of " + queue, answer.status());
  const v1::QueueStats& stats = answer->stats();
  if (session.json()) {
    session.out() << ToJson(stats, /*with_zeros=*/true) << '\n';
    return kOk;
  }
  Table table({"", ""}, session.align(), session.colour(), /*header=*/false);
  const std::pair<const char*, int64_t> figures[] = {{"ready", stats.ready()},
                                                     {"delayed", stats.delayed()},
                                                     {"held", stats.held()},
                                                     {"leased", stats.leased()},
                                                     {"completed", stats.completed()},
                                                     {"cancelled", stats.cancelled()},
                                                     {"dead", stats.dead()},
                                                     {"live bytes", stats.live_bytes()},
                                                     {"ended bytes", stats.ended_bytes()}};
  for (const auto& [name, value] : figures) {
    table.AddRow({Cell(name, Colour::kGrey), absl::StrCat(value)});
  }
  table.AddRow({Cell("oldest ready", Colour::kGrey),
                stats.has_oldest_ready_age() ? DurationText(stats.oldest_ready_age()) : "-"});
  table.Print(session.out());
  return kOk;
}

}  // namespace

void AddQueuesCommands(CLI::App& root, Session& session) {
  CLI::App* const queues = root.add_subcommand("queues", "Look at queues and change them");
  queues->require_subcommand(1);

  auto list = std::make_shared<ListOptions>();
  CLI::App* const list_command = queues->add_subcommand("list", "List queues and their figures");
  list_command->add_option("--prefix", list->prefix, "Only queues that begin so");
  list_command->add_flag("--no-stats", list->no_stats, "Without figures");
  list_command->footer(R"(
Examples:
  stint queues list --prefix mail
  stint queues list --json | jq -r 'select(.stats.dead != "0") | .name')");
  AddWatchFlags(list_command, &list->watch);
  session.OnChosen(list_command, [list, &session] {
    return RunWatched(list->watch, session, "queues", [&] { return RunList(*list, session); });
  });

  auto stats = std::make_shared<StatsOptions>();
  CLI::App* const stats_command = queues->add_subcommand("stats", "How many jobs a queue holds");
  stats_command->add_option("queue", stats->queue, "Queue")->required();
  stats_command->footer(R"(
Exact, and as cheap for ten million jobs as for none. Examples:
  stint queues stats email
  stint queues stats email --json | jq -r .ready)");
  AddWatchFlags(stats_command, &stats->watch);
  session.OnChosen(stats_command, [stats, &session] {
    return RunWatched(stats->watch, session, "", [&] { return RunStats(stats->queue, session); });
  });

  AddQueueChangeCommands(queues, session);
}

}  // namespace stint::cli
