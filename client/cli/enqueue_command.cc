// stint enqueue
#include <algorithm>
#include <fstream>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/progress_bar.h"
#include "client/cpp/proto_time.h"
#include "client/cpp/random_id.h"

namespace stint::cli {
namespace {

constexpr int kMaxBatchJobs = 1000;
// Stays under the broker's limit of 3.5 MiB a call; one larger job goes alone.
constexpr size_t kMaxBatchBytes = 2 * 1024 * 1024;
// A longer line is refused instead of being gathered in memory.
constexpr size_t kMaxLineBytes = 64 * 1024 * 1024;

struct EnqueueOptions {
  std::string queue;
  std::string payload;
  std::string kind;
  std::string content_type;
  std::vector<std::string> labels;
  std::vector<std::string> headers;
  int priority = -1;
  std::string delay;
  std::string due;
  std::string expire_after;
  int max_attempts = 0;
  int max_losses = 0;
  std::string run_limit;
  std::string id;
  std::string id_prefix;
  std::string request_id;
  int64_t count = 1;
  std::string from_lines;
  bool quiet = false;
};

absl::Status SetDuration(const std::string& text, google::protobuf::Duration* field) {
  const auto duration = ParseDuration(text);
  if (!duration.ok()) return duration.status();
  *field = client::ToProto(*duration);
  return absl::OkStatus();
}

absl::Status MakeSpec(const EnqueueOptions& options, Session& session, v1::JobSpec* spec) {
  absl::Status status = CheckText("--kind", options.kind);
  if (status.ok()) status = CheckText("--content-type", options.content_type);
  if (status.ok()) status = ParsePairs(options.labels, spec->mutable_labels());
  if (status.ok()) status = ParsePairs(options.headers, spec->mutable_headers());
  if (status.ok() && !options.delay.empty()) {
    status = SetDuration(options.delay, spec->mutable_delay());
  }
  if (status.ok() && !options.expire_after.empty()) {
    status = SetDuration(options.expire_after, spec->mutable_expire_after());
  }
  if (status.ok() && !options.run_limit.empty()) {
    status = SetDuration(options.run_limit, spec->mutable_run_limit());
  }
  if (!status.ok()) return status;
  if (!options.due.empty()) {
    const auto due = ParseTime(options.due);
    if (!due.ok()) return due.status();
    *spec->mutable_due_time() = client::ToProto(*due);
  }
  spec->set_kind(options.kind);
  spec->set_content_type(options.content_type);
  if (options.priority >= 0) spec->set_priority(options.priority);
  if (options.max_attempts > 0) spec->set_max_attempts(options.max_attempts);
  if (options.max_losses > 0) spec->set_max_losses(options.max_losses);
  auto payload = ReadPayload(options.payload, session.in());
  if (!payload.ok()) return payload.status();
  spec->set_payload(*std::move(payload));
  return absl::OkStatus();
}

// Sends jobs in batches. Each batch has a request id of its own, made from one for the whole
// run, so that the same run with the same --request-id adds nothing twice.
class BatchSender {
 public:
  BatchSender(const EnqueueOptions& options, Session& session, client::Client client,
              int64_t expected)
      : options_(options),
        session_(session),
        client_(std::move(client)),
        // Names on the same terminal would be torn apart by it.
        bar_(session.err(), session.err_is_terminal() && (!session.align() || options.quiet),
             expected) {
    run_id_ = options.request_id.empty() ? client::RandomId() : options.request_id;
    request_.set_queue(options.queue);
  }

  // Adds a job; the number is its place in the run, from 1.
  absl::Status Add(const v1::JobSpec& spec) {
    const size_t size = spec.ByteSizeLong();
    if (request_.items_size() >= kMaxBatchJobs ||
        (request_.items_size() > 0 && bytes_ + size > kMaxBatchBytes)) {
      const absl::Status status = Send();
      if (!status.ok()) return status;
    }
    v1::BatchEnqueueItem* const item = request_.add_items();
    *item->mutable_job() = spec;
    ++added_;
    if (!options_.id_prefix.empty()) item->set_job_id(absl::StrCat(options_.id_prefix, added_));
    bytes_ += size;
    return absl::OkStatus();
  }

  absl::Status Send() {
    if (request_.items().empty()) return absl::OkStatus();
    request_.set_request_id(absl::StrCat(run_id_, ".", ++batches_));
    const auto answer = client_.BatchEnqueueJobs(request_, session_.Calls());
    if (!answer.ok()) return answer.status();
    for (const v1::EnqueueJobResponse& result : answer->results()) {
      if (session_.json()) {
        session_.PrintJson(result);
      } else if (!options_.quiet) {
        session_.out() << Printable(result.job()) << '\n';
      }
    }
    sent_ += answer->results_size();
    request_.clear_items();
    bytes_ = 0;
    bar_.Show(sent_);
    return absl::OkStatus();
  }

  int64_t sent() const { return sent_; }

 private:
  const EnqueueOptions& options_;
  Session& session_;
  client::Client client_;
  ProgressBar bar_;
  std::string run_id_;
  v1::BatchEnqueueJobsRequest request_;
  size_t bytes_ = 0;
  int64_t added_ = 0;
  int64_t batches_ = 0;
  int64_t sent_ = 0;
};

int Finish(const EnqueueOptions& options, Session& session, const BatchSender& sender,
           const absl::Status& status) {
  if (!status.ok()) {
    if (sender.sent() > 0) {
      session.err() << "stint: " << CountText(sender.sent(), "job")
                    << " enqueued before the failure\n";
    }
    return session.Fail("enqueue to " + options.queue, status);
  }
  if (options.quiet && !session.json()) {
    session.err() << "enqueued " << CountText(sender.sent(), "job") << " to "
                  << Printable(options.queue) << '\n';
  }
  return kOk;
}

// The next line without its end. False at the end of `in`; an error for a line over the limit.
absl::StatusOr<bool> ReadLine(std::istream& in, std::string* line) {
  line->clear();
  std::streambuf* const buffer = in.rdbuf();
  constexpr int kEnd = std::char_traits<char>::eof();
  int next = buffer->sbumpc();
  if (next == kEnd) return false;
  for (; next != kEnd && next != '\n'; next = buffer->sbumpc()) {
    if (line->size() == kMaxLineBytes) {
      return absl::InvalidArgumentError("a line is larger than 64 MiB");
    }
    line->push_back(static_cast<char>(next));
  }
  return true;
}

int EnqueueLines(const EnqueueOptions& options, Session& session, client::Client client,
                 v1::JobSpec spec) {
  std::ifstream file;
  if (options.from_lines != "-") {
    file.open(options.from_lines, std::ios::binary);
    if (!file) {
      return session.Misuse(
          absl::InvalidArgumentError(absl::StrCat("cannot open ", options.from_lines)));
    }
  }
  std::istream& in = options.from_lines == "-" ? session.in() : file;
  int64_t expected = 0;
  if (options.from_lines != "-" && session.err_is_terminal()) {
    expected =
        std::count(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>(), '\n');
    in.clear();
    in.seekg(0);
  }
  BatchSender sender(options, session, std::move(client), expected);
  std::string line;
  absl::Status status;
  while (status.ok()) {
    const absl::StatusOr<bool> more = ReadLine(in, &line);
    if (!more.ok()) status = more.status();
    if (!more.ok() || !*more) break;
    if (line.empty()) continue;
    spec.set_payload(line);
    status = sender.Add(spec);
  }
  if (status.ok()) status = sender.Send();
  return Finish(options, session, sender, status);
}

int EnqueueCopies(const EnqueueOptions& options, Session& session, client::Client client,
                  const v1::JobSpec& spec) {
  BatchSender sender(options, session, std::move(client), options.count);
  absl::Status status;
  for (int64_t i = 0; i < options.count && status.ok(); ++i) status = sender.Add(spec);
  if (status.ok()) status = sender.Send();
  return Finish(options, session, sender, status);
}

int EnqueueOne(const EnqueueOptions& options, Session& session, client::Client client,
               const v1::JobSpec& spec) {
  v1::EnqueueJobRequest request;
  request.set_queue(options.queue);
  *request.mutable_job() = spec;
  request.set_job_id(options.id);
  request.set_request_id(options.request_id);
  const auto answer = client.EnqueueJob(std::move(request), session.Calls());
  if (!answer.ok()) return session.Fail("enqueue to " + options.queue, answer.status());
  if (session.json()) {
    session.PrintJson(*answer);
  } else if (!options.quiet) {
    session.out() << Printable(answer->job()) << '\n';
  }
  return kOk;
}

// A payload that is on its way here must not be dropped in silence, and nothing may wait for a
// standard input that never ends unless it was asked to read it.
absl::Status CheckPayloadGiven(const EnqueueOptions& options, bool payload_given,
                               Session& session) {
  if (payload_given || !options.from_lines.empty() || !session.in_is_redirected()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "there is no --payload, and standard input is a pipe or a file: --payload - takes the "
      "payload from there, --payload '' makes a job without one");
}

int RunEnqueue(const EnqueueOptions& options, bool payload_given, Session& session) {
  v1::JobSpec spec;
  absl::Status valid = CheckPayloadGiven(options, payload_given, session);
  if (valid.ok()) valid = CheckText("the queue", options.queue);
  if (valid.ok()) valid = CheckText("--id", options.id);
  if (valid.ok()) valid = CheckText("--id-prefix", options.id_prefix);
  if (valid.ok()) valid = CheckText("--request-id", options.request_id);
  if (valid.ok()) valid = MakeSpec(options, session, &spec);
  if (valid.ok() && !options.id.empty() && (options.count > 1 || !options.from_lines.empty())) {
    valid = absl::InvalidArgumentError("--id names one job; use --id-prefix for several");
  }
  if (!valid.ok()) return session.Misuse(valid);
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  if (!options.from_lines.empty()) {
    return EnqueueLines(options, session, *std::move(client), std::move(spec));
  }
  if (options.count > 1 || !options.id_prefix.empty()) {
    return EnqueueCopies(options, session, *std::move(client), spec);
  }
  return EnqueueOne(options, session, *std::move(client), spec);
}

}  // namespace

void AddEnqueueCommand(CLI::App& root, Session& session) {
  auto options = std::make_shared<EnqueueOptions>();
  CLI::App* const command = root.add_subcommand("enqueue", "Put jobs into a queue");
  command->add_option("queue", options->queue, "Queue; it appears if it does not exist")
      ->required();
  auto* const payload = command->add_option(
      "--payload", options->payload, "The work: TEXT, @FILE, or - for standard input (@@ is an @)");
  command->add_option("--kind", options->kind, "What handler the job is for");
  command->add_option("--content-type", options->content_type, "Such as application/json");
  command->add_option("--label", options->labels, "KEY=VALUE, to filter by; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--header", options->headers, "KEY=VALUE, for the handler; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--priority", options->priority, "0 to 9, higher first; default 5")
      ->check(CLI::Range(0, 9));
  auto* const delay = command->add_option("--delay", options->delay, "Start after this long: 10s");
  command->add_option("--due", options->due, "Start at this time, RFC 3339")->excludes(delay);
  command->add_option("--expire-after", options->expire_after,
                      "End it if it has not started by then");
  command->add_option("--max-attempts", options->max_attempts, "Failures that end it as dead")
      ->check(CLI::Range(1, 10'000));
  command->add_option("--max-losses", options->max_losses, "Losses in a row that end it as dead")
      ->check(CLI::Range(1, 10'000));
  command->add_option("--run-limit", options->run_limit, "Longest time for one attempt");
  command->add_option("--id", options->id, "Your own id for the job; refused if it is taken");
  command->add_option("--id-prefix", options->id_prefix,
                      "Ids PREFIX1, PREFIX2, … for --from-lines (the line's number without empty "
                      "ones) and --count");
  command->add_option("--request-id", options->request_id,
                      "Makes it safe to repeat this command; default: a random one");
  auto* const count = command->add_option("--count", options->count, "Enqueue it so many times");
  count->check(CLI::Range(int64_t{1}, int64_t{1'000'000'000}));
  command
      ->add_option("--from-lines", options->from_lines,
                   "One job for each line of FILE (- for standard input); the line is the "
                   "payload")
      ->excludes(payload)
      ->excludes(count);
  command->add_flag("-q,--quiet", options->quiet, "Do not print the names of the jobs");
  command->footer(R"(
Prints the name of each job. Without --payload the job has none; if standard input is a pipe or
a file then, say --payload - to take it or --payload '' not to. Examples:
  stint enqueue email --kind welcome --payload '{"to":"ann"}' --label tenant=acme
  stint enqueue reports --payload @report.json --due 2026-05-01T06:00:00Z
  find . -type f | stint enqueue files --from-lines - --quiet
  stint enqueue email --id order-17 --payload hi      (a second time: refused, JOB_EXISTS))");
  session.OnChosen(command, [options, payload, &session] {
    return RunEnqueue(*options, payload->count() > 0, session);
  });
}

}  // namespace stint::cli
