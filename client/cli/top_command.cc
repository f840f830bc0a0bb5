// stint top
#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/top_reading.h"
#include "client/cli/watch.h"
#include "client/cpp/proto_time.h"

namespace stint::cli {
namespace {

// Lines of the screen that are neither queues nor workers.
constexpr int kOtherLines = 8;
// Workers that have room on every screen.
constexpr int kWorkerLines = 8;

struct TopOptions {
  std::string prefix;
  std::string sort = "depth";
  int64_t limit = 0;  // 0: as many as fit
  bool once = false;
  WatchOptions watch;
};

std::string RateText(double rate) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", rate);
  return text;
}

std::vector<Cell> Row(const std::string& name, const Cell& status, const v1::QueueStats& stats,
                      const std::optional<Rates>& rates) {
  return {Printable(name),
          status,
          absl::StrCat(stats.ready()),
          absl::StrCat(stats.delayed()),
          absl::StrCat(stats.held()),
          {absl::StrCat(stats.leased()), stats.leased() > 0 ? Colour::kBlue : Colour::kNone},
          absl::StrCat(stats.completed()),
          absl::StrCat(stats.cancelled()),
          {absl::StrCat(stats.dead()), stats.dead() > 0 ? Colour::kRed : Colour::kNone},
          stats.has_oldest_ready_age() ? DurationText(stats.oldest_ready_age()) : "-",
          rates.has_value() ? RateText(rates->entered) : "-",
          rates.has_value() ? RateText(rates->ended) : "-"};
}

double SortKey(const std::string& sort, const v1::QueueStats& stats,
               const std::optional<Rates>& rates) {
  if (sort == "oldest") return absl::ToDoubleSeconds(client::ToAbsl(stats.oldest_ready_age()));
  if (sort == "dead") return static_cast<double>(stats.dead());
  if (sort == "rate") return rates.has_value() ? rates->ended : 0;
  return static_cast<double>(stats.ready() + stats.delayed() + stats.held() + stats.leased());
}

// Ids of the queues in the order they are shown: the largest first, equal ones by name.
std::vector<std::string> Ordered(const TopOptions& options, const TopReading* before,
                                 const TopReading& now) {
  std::vector<std::pair<double, std::string>> keyed;
  for (const auto& [id, queue] : now.queues) {
    const double key =
        options.sort == "name" ? 0 : SortKey(options.sort, queue.stats, RatesOf(before, now, id));
    keyed.emplace_back(-key, id);
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<std::string> ids;
  for (auto& [key, id] : keyed) ids.push_back(std::move(id));
  return ids;
}

void PrintHead(const TopReading& now, Session& session) {
  const v1::GetServerInfoResponse& server = now.server;
  std::ostream& out = session.out();
  out << "stintd " << Printable(server.version()) << " at " << Printable(session.address())
      << ", up "
      << ShortDuration(client::ToAbsl(server.current_time()) - client::ToAbsl(server.start_time()))
      << ", " << CountText(server.queues(), "queue") << ", " << CountText(server.leases(), "lease")
      << ", " << CountText(server.parked_calls(), "waiting call");
  if (server.draining()) out << ", " << Coloured("draining", Colour::kYellow, session.colour());
  if (server.low_space()) {
    out << ", " << Coloured("low space: new jobs are refused", Colour::kRed, session.colour());
  }
  out << "\n\n";
}

void PrintQueues(const TopOptions& options, const TopReading* before, const TopReading& now,
                 Session& session) {
  Table table({"QUEUE", "STATUS", "READY", "DELAYED", "HELD", "LEASED", "COMPLETED", "CANCELLED",
               "DEAD", "OLDEST", "IN/S", "ENDED/S"},
              session.align(), session.colour());
  const std::vector<std::string> ids = Ordered(options, before, now);
  const int other_lines = kOtherLines + std::min(kWorkerLines, now.workers.workers_size());
  const int rows = session.align() ? Screen::Rows() : 0;
  auto fitting = options.limit > 0    ? static_cast<size_t>(options.limit)
                 : rows > other_lines ? static_cast<size_t>(rows - other_lines)
                                      : ids.size();
  fitting = std::min(fitting, ids.size());
  for (size_t i = 0; i < fitting; ++i) {
    const QueueReading& queue = now.queues.at(ids[i]);
    table.AddRow(Row(ids[i],
                     queue.queue.paused()     ? Cell("paused", Colour::kYellow)
                     : queue.queue.draining() ? Cell("draining", Colour::kYellow)
                                              : Cell("open"),
                     queue.stats, RatesOf(before, now, ids[i])));
  }
  const std::string hidden =
      fitting < ids.size() ? absl::StrCat("total (", ids.size() - fitting, " not shown)") : "total";
  table.AddRow(Row(hidden, Cell(""), now.totals, RatesOf(before, now, "")));
  table.Print(session.out());
}

std::string RatesJson(const std::optional<Rates>& rates) {
  if (!rates.has_value()) return "";
  return absl::StrCat(",\"in_per_second\":", RateText(rates->entered),
                      ",\"ended_per_second\":", RateText(rates->ended));
}

void PrintReadingJson(const TopOptions& options, const TopReading* before, const TopReading& now,
                      Session& session) {
  std::ostream& out = session.out();
  out << "{\"server\":" << ToJson(now.server, /*with_zeros=*/true)
      << ",\"totals\":{\"stats\":" << ToJson(now.totals, /*with_zeros=*/true)
      << RatesJson(RatesOf(before, now, "")) << "},\"queues\":[";
  std::vector<std::string> ids = Ordered(options, before, now);
  if (options.limit > 0 && ids.size() > static_cast<size_t>(options.limit)) {
    ids.resize(static_cast<size_t>(options.limit));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const QueueReading& queue = now.queues.at(ids[i]);
    std::string json = ToJson(queue.queue);
    json.pop_back();
    out << (i == 0 ? "" : ",") << json << ",\"stats\":" << ToJson(queue.stats, /*with_zeros=*/true)
        << RatesJson(RatesOf(before, now, ids[i])) << "}";
  }
  out << "],\"workers\":[";
  for (int i = 0; i < now.workers.workers_size(); ++i) {
    out << (i == 0 ? "" : ",") << ToJson(now.workers.workers(i), /*with_zeros=*/true);
  }
  out << "]}\n";
}

void PrintWorkers(const TopReading& now, Session& session) {
  Table table({"WORKER", "VERSION", "LEASES", "STREAMS", "HEARD", "STATE"}, session.align(),
              session.colour());
  for (const v1::Worker& worker : now.workers.workers()) {
    table.AddRow(
        {Printable(absl::StripPrefix(worker.name(), "workers/")),
         Printable(worker.version()),
         {absl::StrCat(worker.leases()), worker.leases() > 0 ? Colour::kBlue : Colour::kNone},
         absl::StrCat(worker.streams()),
         absl::StrCat(DurationText(worker.silence()), " ago"),
         worker.draining() ? Cell("leaving", Colour::kYellow) : Cell("")});
  }
  session.out() << '\n';
  table.Print(session.out());
  if (!now.workers.next_page_token().empty()) {
    session.out() << "(there are more: stint workers list)\n";
  }
}

// One screen, a section after the other.
void PrintReading(const TopOptions& options, const TopReading* before, const TopReading& now,
                  Session& session) {
  if (session.json()) {
    PrintReadingJson(options, before, now, session);
    return;
  }
  PrintHead(now, session);
  PrintQueues(options, before, now, session);
  if (now.workers.workers_size() > 0) PrintWorkers(now, session);
}

int RunTop(const TopOptions& options, Session& session) {
  const absl::Status valid = CheckText("--prefix", options.prefix);
  if (!valid.ok()) return session.Misuse(valid);
  const auto interval = ParseInterval(options.watch.interval);
  if (!interval.ok()) return session.Misuse(interval.status());
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());

  TopReading before;
  WatchOptions watch = options.watch;
  watch.watch = !options.once;
  if (options.once) {
    auto first = TakeTopReading(*client, session.Calls(), options.prefix);
    if (!first.ok()) return session.Fail("read the queues", first.status());
    before = *std::move(first);
    WaitInterval(*interval);
  }
  bool has_before = options.once;
  return RunWatched(watch, session, /*json_list=*/"", [&] {
    auto now = TakeTopReading(*client, session.Calls(), options.prefix);
    if (!now.ok()) return session.Fail("read the queues", now.status());
    PrintReading(options, has_before ? &before : nullptr, *now, session);
    before = *std::move(now);
    has_before = true;
    return static_cast<int>(kOk);
  });
}

}  // namespace

void AddTopCommand(CLI::App& root, Session& session) {
  auto options = std::make_shared<TopOptions>();
  CLI::App* const command = root.add_subcommand("top", "Show queues and workers, live");
  command->add_option("--prefix", options->prefix, "Only queues that begin so");
  command->add_option("--sort", options->sort, "depth, oldest, dead, rate or name")
      ->capture_default_str()
      ->check(CLI::IsMember({"depth", "oldest", "dead", "rate", "name"}));
  command->add_option("--limit", options->limit, "At most so many queues; default: what fits")
      ->check(CLI::PositiveNumber);
  CLI::Option* const once = command->add_flag(
      "--once", options->once, "Print one table and end, after one interval (for the rates)");
  AddIntervalFlags(command, &options->watch, "1s");
  command->get_option("--count")->excludes(once);
  command->footer(R"(
IN/S and ENDED/S are jobs per second that appeared and that ended, from the difference of two
readings. The broker keeps depths and no counters: a record that was removed in between
(retention, delete, purge) counts against both, so that they can be too low, and below zero.
Below are the first 100 workers.
With --json each reading is one object; the first has no rates. Ctrl-C ends it. Examples:
  stint top
  stint top --once --prefix mail
  stint top --json --interval 10s --count 6)");
  session.OnChosen(command, [options, &session] { return RunTop(*options, session); });
}

}  // namespace stint::cli
