// stint bench
#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/bench_load.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/stop_signals.h"
#include "client/cpp/clock.h"
#include "client/cpp/random_id.h"

namespace stint::cli {
namespace {

constexpr absl::Duration kProgressEvery = absl::Milliseconds(250);
constexpr size_t kQueueSuffix = 8;
// Leaves room for what is around the payloads under the broker's 3.5 MiB a call.
constexpr int64_t kMaxBatchBytes = 3 * 1024 * 1024;

struct BenchOptions {
  BenchPlan plan;
  std::string duration = "10s";
};

std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string MillisText(absl::Duration latency) {
  return Fixed(absl::ToDoubleMilliseconds(latency), 2);
}

struct NamedFigures {
  const char* name;
  const CallFigures& figures;
};

void PrintFiguresJson(double seconds, int64_t lifecycles, const NamedFigures (&calls)[3],
                      Session& session) {
  std::ostream& out = session.out();
  out << "{\"seconds\":" << Fixed(seconds, 3) << ",\"lifecycles\":\"" << lifecycles
      << "\",\"lifecycles_per_second\":" << Fixed(static_cast<double>(lifecycles) / seconds, 1)
      << ",\"calls\":{";
  bool first = true;
  for (const auto& [name, figures] : calls) {
    out << (first ? "" : ",") << '"' << name << "\":{\"count\":\"" << figures.latencies.count()
        << "\",\"errors\":\"" << figures.errors
        << "\",\"p50_ms\":" << MillisText(figures.latencies.Quantile(0.5))
        << ",\"p99_ms\":" << MillisText(figures.latencies.Quantile(0.99))
        << ",\"max_ms\":" << MillisText(figures.latencies.max()) << '}';
    first = false;
  }
  out << "}}\n";
}

// Prints what came of it; returns the exit code.
int Report(double seconds, int64_t lifecycles, const BenchFigures& figures, Session& session) {
  const NamedFigures calls[] = {
      {"enqueue", figures.enqueue}, {"lease", figures.lease}, {"complete", figures.complete}};
  int64_t errors = 0;
  for (const NamedFigures& call : calls) errors += call.figures.errors;
  if (session.json()) {
    PrintFiguresJson(seconds, lifecycles, calls, session);
  } else {
    session.out() << Fixed(static_cast<double>(lifecycles) / seconds, 1) << " lifecycles/s ("
                  << lifecycles << " in " << Fixed(seconds, 1) << " s)\n\n";
    Table table({"CALL", "COUNT", "ERRORS", "P50 MS", "P99 MS", "MAX MS"}, session.align(),
                session.colour());
    for (const auto& [name, call] : calls) {
      table.AddRow({Cell(name),
                    absl::StrCat(call.latencies.count()),
                    {absl::StrCat(call.errors), call.errors > 0 ? Colour::kRed : Colour::kNone},
                    MillisText(call.latencies.Quantile(0.5)),
                    MillisText(call.latencies.Quantile(0.99)),
                    MillisText(call.latencies.max())});
    }
    table.Print(session.out());
  }
  for (const auto& [name, call] : calls) {
    if (call.errors == 0) continue;
    session.err() << "stint: " << name << ": " << CountText(call.errors, "call")
                  << " failed, the first with: " << Printable(call.first_error.message()) << '\n';
  }
  return errors == 0 ? kOk : kRefused;
}

// Runs the load for `duration` or until a signal. Returns how long it ran.
absl::Duration RunLoad(BenchLoad* load, absl::Duration duration, const StopSignals& signals,
                       Session& session) {
  client::Clock* const clock = client::Clock::System();
  const absl::Duration start = clock->Now();
  const absl::Duration end = start + duration;
  load->Start();
  while (clock->Now() < end) {
    if (signals.WaitFor(std::min(kProgressEvery, end - clock->Now()))) break;
    if (!session.err_is_terminal()) continue;
    session.err() << '\r' << Fixed(absl::ToDoubleSeconds(clock->Now() - start), 1) << " of "
                  << ShortDuration(duration) << ", " << load->lifecycles() << " lifecycles";
    session.err().flush();
  }
  const absl::Duration ran = clock->Now() - start;
  if (session.err_is_terminal()) session.err() << '\n';
  return ran;
}

// A queue that appeared by use could be created once more and would be taken over, so it is looked
// for first.
absl::Status MakeQueue(client::Client& client, const std::string& queue,
                       const client::CallOptions& calls) {
  v1::GetQueueRequest get;
  get.set_queue(queue);
  const auto found = client.GetQueue(get, calls);
  if (found.ok()) {
    return absl::AlreadyExistsError(
        "there is a queue of that name, and it would be deleted afterwards; name another with "
        "--queue, or none");
  }
  if (!absl::IsNotFound(found.status())) return found.status();
  v1::CreateQueueRequest create;
  create.set_queue(queue);
  return client.CreateQueue(std::move(create), calls).status();
}

int RunBench(const BenchOptions& options, Session& session) {
  const auto duration = ParseDuration(options.duration);
  if (!duration.ok()) return session.Misuse(duration.status());
  BenchPlan plan = options.plan;
  if (plan.queue.empty()) {
    plan.queue = absl::StrCat("bench-", client::RandomId().substr(0, kQueueSuffix));
  }
  absl::Status valid = CheckText("--queue", plan.queue);
  if (valid.ok() && *duration < absl::Milliseconds(100)) {
    valid = absl::InvalidArgumentError("--for is too short to measure; the shortest is 100ms");
  }
  if (valid.ok() && int64_t{plan.batch} * plan.payload_bytes > kMaxBatchBytes) {
    valid = absl::InvalidArgumentError(
        "--batch times --payload is over 3 MiB, which is more than one call may carry");
  }
  if (!valid.ok()) return session.Misuse(valid);

  const StopSignals signals;
  auto connection = session.Connect();
  if (!connection.ok()) return session.Misuse(connection.status());
  client::Client client(*connection);
  const absl::Status made = MakeQueue(client, plan.queue, session.Calls());
  if (!made.ok()) return session.Fail(absl::StrCat("make a queue of its own, ", plan.queue), made);
  session.err() << "stint: queue " << Printable(plan.queue) << ", " << plan.concurrency
                << " threads, batches of " << plan.batch << ", payloads of " << plan.payload_bytes
                << " bytes, " << (plan.unary ? "unary calls" : "streams") << '\n';

  int64_t lifecycles = 0;
  absl::Duration ran;
  BenchFigures figures;
  {
    BenchLoad load(*connection, plan);
    ran = RunLoad(&load, *duration, signals, session);
    lifecycles = load.lifecycles();
    load.Stop();
    figures = load.Result();
  }
  v1::DeleteQueueRequest remove;
  remove.set_queue(plan.queue);
  remove.set_force(true);
  const auto removed = client.DeleteQueue(std::move(remove), session.Calls());
  const int code = Report(absl::ToDoubleSeconds(ran), lifecycles, figures, session);
  if (!removed.ok()) {
    return session.Fail(absl::StrCat("delete the queue of the bench (stint queues delete ",
                                     plan.queue, " --force)"),
                        removed.status());
  }
  return code;
}

}  // namespace

void AddBenchCommand(CLI::App& root, Session& session) {
  auto options = std::make_shared<BenchOptions>();
  BenchPlan& plan = options->plan;
  CLI::App* const command =
      root.add_subcommand("bench", "Measure a running broker: enqueue, lease, complete");
  command->add_option("--for", options->duration, "How long")->capture_default_str();
  command->add_option("--payload", plan.payload_bytes, "Bytes of each payload")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024 * 1024));
  command->add_option("--batch", plan.batch, "Jobs of each call")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->add_option("-c,--concurrency", plan.concurrency, "How many threads, each with a session")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  command->add_flag("--unary", plan.unary, "Single calls for lease and complete, no streams");
  command->add_option("--queue", plan.queue,
                      "Queue to make and to delete afterwards; default: bench- and a random end");
  command->footer(R"(
Each thread enqueues a batch, leases up to a batch and completes it, over and over. The table
shows lifecycles (jobs enqueued, leased and completed) a second, and how long the calls took; a
lease's time contains the wait for a job. The queue must not exist; it is deleted with all its
jobs when the run ends or Ctrl-C ends it. The broker does real work meanwhile: every answer is
on its disk. Examples:
  stint bench
  stint bench --for 2s --payload 1000 --batch 10 -c 4
  stint bench --for 1s --unary --json)");
  session.OnChosen(command, [options, &session] { return RunBench(*options, session); });
}

}  // namespace stint::cli
