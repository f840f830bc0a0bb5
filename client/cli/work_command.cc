// stint work
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/exec_handler.h"
#include "client/cli/output.h"
#include "client/cli/stop_signals.h"
#include "client/cpp/random_id.h"
#include "client/cpp/status.h"
#include "client/cpp/text.h"
#include "google/protobuf/struct.pb.h"
#include "sync/mutex.h"

namespace stint::cli {
namespace {

constexpr size_t kDefaultMaxResultBytes = 1024 * 1024;
constexpr size_t kMostErrorShown = 300;

struct WorkOptions {
  std::vector<std::string> queues;
  std::string exec;
  int concurrency = 0;
  std::string lease = "15s";
  std::string worker;
  int64_t max_jobs = 0;
  bool exit_when_empty = false;
  bool unary = false;
  std::string version;
  std::string run_limit;
  std::string grace = "20s";
  std::string kill_grace = "5s";
  bool payload_as_argument = false;
  bool cancel_when_unconfirmed = false;
  bool verbose = false;
};

// Prints what a worker tells, from any thread.
class WorkLog {
 public:
  WorkLog(Session& session, bool every_job) : session_(session), every_job_(every_job) {}

  void Say(absl::string_view text) {
    const MutexLock lock(mutex_);
    session_.err() << "stint: " << text << '\n';
  }

  void Note(const client::WorkerEvent& event) {
    using Kind = client::WorkerEvent::Kind;
    const MutexLock lock(mutex_);
    switch (event.kind) {
      case Kind::kStarted:
        return;
      case Kind::kSettled:
        if (session_.json()) {
          PrintJson(event);
        } else if (every_job_) {
          PrintSettled(event);
        }
        return;
      case Kind::kLeaseLost:
        Line(event, "lease lost", event.status.ok() ? event.detail : Text(event.status));
        return;
      case Kind::kSettleRefused:
        Line(event, event.detail, Text(event.status));
        return;
      case Kind::kCancelling:
        Line(event, "ending the command", event.detail);
        return;
      case Kind::kUnconfirmed:
        Line(event, "lease not renewed for its whole duration", "working on");
        return;
      case Kind::kBrokerUnreachable:
        session_.err() << "stint: no broker answers at " << session_.address() << " ("
                       << Text(event.status) << "); trying on\n";
        return;
      case Kind::kBrokerBack:
        session_.err() << "stint: the broker at " << session_.address() << " is back\n";
        return;
    }
  }

 private:
  // The first two lines of an error: the cause, and what the command said first.
  static std::string Summary(const std::string& error) {
    const std::vector<absl::string_view> lines = absl::StrSplit(error, '\n', absl::SkipEmpty());
    std::string summary;
    for (size_t i = 0; i < lines.size() && i < 2; ++i) {
      absl::StrAppend(&summary, i == 0 ? "" : ": ", Printable(lines[i]));
    }
    return client::ShortenedText(summary, kMostErrorShown);
  }

  static std::string Text(const absl::Status& status) { return Printable(status.message()); }

  static const char* Outcome(client::Result::Kind kind) {
    switch (kind) {
      case client::Result::Kind::kComplete:
        return "completed";
      case client::Result::Kind::kFail:
        return "failed";
      case client::Result::Kind::kRelease:
        return "released";
    }
    return "settled";
  }

  void Line(const client::WorkerEvent& event, absl::string_view what, absl::string_view why) {
    session_.err() << "stint: " << Printable(event.lease->job()) << ": " << what << " (" << why
                   << ")\n";
  }

  void PrintSettled(const client::WorkerEvent& event) {
    Colour colour = Colour::kGreen;
    if (event.result == client::Result::Kind::kFail) colour = Colour::kRed;
    if (event.result == client::Result::Kind::kRelease) colour = Colour::kYellow;
    session_.err() << Coloured(Outcome(event.result), colour,
                               session_.err_is_terminal() && session_.may_colour())
                   << ' ' << Printable(event.lease->job()) << " attempt " << event.lease->attempt()
                   << ' ' << ShortDuration(event.run_time);
    if (event.result != client::Result::Kind::kComplete) {
      session_.err() << ", now " << StateName(event.state);
      if (!event.detail.empty()) session_.err() << ", " << event.detail;
      const std::string error = Summary(event.error);
      if (!error.empty()) session_.err() << ": " << error;
    }
    session_.err() << '\n';
  }

  void PrintJson(const client::WorkerEvent& event) {
    google::protobuf::Struct line;
    auto& fields = *line.mutable_fields();
    fields["job"].set_string_value(event.lease->job());
    fields["outcome"].set_string_value(Outcome(event.result));
    fields["state"].set_string_value(StateName(event.state));
    fields["attempt"].set_number_value(event.lease->attempt());
    fields["token"].set_string_value(absl::StrCat(event.lease->token()));
    fields["run_ms"].set_number_value(absl::ToDoubleMilliseconds(event.run_time));
    if (!event.error.empty()) fields["error"].set_string_value(event.error);
    session_.PrintJson(line);
    session_.out().flush();
  }

  Session& session_;
  const bool every_job_;
  Mutex mutex_;
};

absl::Status MakeOptions(const WorkOptions& given, client::WorkerOptions* worker,
                         ExecOptions* exec) {
  const auto lease = ParseDuration(given.lease);
  if (!lease.ok()) return lease.status();
  const auto kill_grace = ParseDuration(given.kill_grace);
  if (!kill_grace.ok()) return kill_grace.status();
  if (!given.run_limit.empty()) {
    const auto limit = ParseDuration(given.run_limit);
    if (!limit.ok()) return limit.status();
    exec->run_limit = *limit;
  }
  for (const std::string& queue : given.queues) {
    const absl::Status valid = CheckText("the queue", queue);
    if (!valid.ok()) return valid;
  }
  const absl::Status valid = CheckText("--worker", given.worker);
  if (!valid.ok()) return valid;
  worker->queues = given.queues;
  worker->concurrency = given.concurrency > 0
                            ? given.concurrency
                            : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  worker->lease_duration = *lease;
  worker->worker = given.worker.empty() ? client::RandomWorkerId() : given.worker;
  worker->max_jobs = given.max_jobs;
  worker->exit_when_empty = given.exit_when_empty;
  worker->stream = !given.unary;
  worker->version = given.version;
  worker->cancel_when_unconfirmed = given.cancel_when_unconfirmed;
  exec->kill_grace = *kill_grace;
  exec->payload_as_argument = given.payload_as_argument;
  exec->worker = worker->worker;
  return absl::OkStatus();
}

// The broker's limit for results, if it answers now; else the default one.
size_t AskMaxResultBytes(client::Client& client) {
  client::CallOptions once;
  once.deadline = absl::Seconds(2);
  once.total = absl::ZeroDuration();
  const auto info = client.GetServerInfo(once);
  if (!info.ok() || info->max_payload_bytes() <= 0) return kDefaultMaxResultBytes;
  return static_cast<size_t>(info->max_payload_bytes());
}

// Waits until the worker has ended, by itself or because of a signal: the first asks for an
// orderly stop, the second for one without grace.
client::StopReport ServeUntilEnd(client::Worker& worker, const StopSignals& signals,
                                 absl::Duration grace, WorkLog& log, absl::Status* ended) {
  const int done = eventfd(0, EFD_CLOEXEC);
  std::thread waiter([&worker, ended, done] {
    *ended = worker.Wait();
    eventfd_write(done, 1);
  });
  std::thread stopper;
  int taken = 0;
  while (true) {
    pollfd polled[2] = {{done, POLLIN, 0}, {signals.fd(), POLLIN, 0}};
    if (poll(polled, 2, -1) < 0) continue;
    if (polled[0].revents != 0) break;
    signals.Take();
    if (++taken == 1) {
      log.Say(absl::StrCat("stopping; jobs under way have ", ShortDuration(grace),
                           " (again: at once)"));
      stopper = std::thread([&worker, grace] { worker.Stop(grace); });
    } else {
      worker.Stop(absl::ZeroDuration());
    }
  }
  waiter.join();
  if (stopper.joinable()) stopper.join();
  close(done);
  return worker.Stop(grace);
}

int RunWork(const WorkOptions& given, Session& session) {
  const auto command = Command::Parse(given.exec);
  if (!command.ok()) return session.Misuse(command.status());
  const absl::Status known = command->CheckKnown();
  if (!known.ok()) return session.Misuse(known);
  const auto grace = ParseDuration(given.grace);
  if (!grace.ok()) return session.Misuse(grace.status());
  client::WorkerOptions options;
  ExecOptions exec;
  absl::Status valid = MakeOptions(given, &options, &exec);
  if (valid.ok()) valid = CheckCanRunChildren();
  if (!valid.ok()) return session.Misuse(valid);

  const StopSignals signals;
  std::signal(SIGPIPE, SIG_IGN);
  auto connection = session.Connect();
  if (!connection.ok()) return session.Misuse(connection.status());
  client::Client client(*connection);
  exec.max_result_bytes = AskMaxResultBytes(client);
  exec.address = session.address();
  WorkLog log(session, given.verbose || session.err_is_terminal());
  options.on_event = [&log](const client::WorkerEvent& event) { log.Note(event); };
  const ExecHandler handler(*command, exec);
  client::StopReport report;
  absl::Status ended;
  client::WorkerStats stats;
  {
    client::Worker worker(*connection, options,
                          [&handler](client::JobContext& job) { return handler.Handle(job); });
    const absl::Status started = worker.Start();
    if (!started.ok()) return session.Misuse(started);
    if (given.verbose || session.err_is_terminal()) {
      log.Say(absl::StrCat("working as ", options.worker, ", ", options.concurrency, " at a time"));
    }
    report = ServeUntilEnd(worker, signals, *grace, log, &ended);
    stats = worker.stats();
  }
  session.err() << "stint: " << stats.completed << " completed, " << stats.failed << " failed, "
                << stats.released << " handed back, " << stats.lost << " lost\n";
  if (!ended.ok()) return session.Fail("take jobs", ended);
  if (report.unsettled > 0) {
    session.err() << "stint: the broker did not answer for " << report.unsettled
                  << " jobs; they run again when their leases lapse, if it did not hear of them\n";
    return kUnreachable;
  }
  return stats.refused > 0 ? kRefused : kOk;
}

}  // namespace

void AddWorkCommand(CLI::App& root, Session& session) {
  auto options = std::make_shared<WorkOptions>();
  CLI::App* const command = root.add_subcommand("work", "Take jobs and run a command for each");
  command
      ->add_option("queues", options->queues, "Queues; the first with a ready job is served first")
      ->required();
  command->add_option("--exec", options->exec, "Command to run for each job")->required();
  command
      ->add_option("-c,--concurrency", options->concurrency,
                   "How many at a time; default: as many as processors")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--lease", options->lease,
                   "How long the broker waits for a sign of life before it gives a job to "
                   "somebody else; renewed every third")
      ->capture_default_str();
  command->add_option("--version", options->version,
                      "Release that `stint workers` shows for this process");
  command->add_option("--worker", options->worker,
                      "Id of this process; default: host, pid, random");
  command->add_option("--max-jobs", options->max_jobs, "End after so many")
      ->check(CLI::PositiveNumber);
  command->add_flag("--exit-when-empty", options->exit_when_empty,
                    "End when no job is ready and none is held here");
  command->add_option("--run-limit", options->run_limit,
                      "End a command that runs longer, and fail the attempt");
  command
      ->add_option("--grace", options->grace,
                   "After SIGTERM or Ctrl-C: how long jobs under way may take before they are "
                   "handed back")
      ->capture_default_str();
  command
      ->add_option("--kill-grace", options->kill_grace,
                   "From SIGTERM to SIGKILL for a command that has to end")
      ->capture_default_str();
  command->add_flag("--payload-arg", options->payload_as_argument,
                    "Give the payload as the last argument instead of on standard input");
  command->add_flag("--unary", options->unary,
                    "Use single calls instead of one stream; a killed worker is then noticed only "
                    "when its leases lapse");
  command->add_flag("--cancel-when-unconfirmed", options->cancel_when_unconfirmed,
                    "End commands whose lease could not be renewed for its whole duration");
  command->add_flag("-v,--verbose", options->verbose, "One line for each job, also off a terminal");
  command->footer(R"(
The payload comes on standard input, standard output becomes the result. Exit code 0 completes
the job, 100 fails it for good (dead letter), any other fails the attempt: the tail of standard
error is kept, and the queue's retry policy decides. The lease is renewed while the command
runs; if the job is cancelled or the lease is lost, the command's process group gets SIGTERM.
The command sees STINT_JOB, STINT_QUEUE, STINT_KIND, STINT_ATTEMPT, STINT_TOKEN, STINT_WORKER.

A plain command is started directly; one with shell characters by /bin/sh -c. Examples:
  stint work thumbnails --exec 'convert - -resize 200 png:-' -c 8
  stint work files --exec sha256sum --payload-arg --exit-when-empty
  stint work urgent normal --exec 'jq .user | ./send-mail' --lease 1m)");
  session.OnChosen(command, [options, &session] { return RunWork(*options, session); });
}

}  // namespace stint::cli
