#include "client/cli/help_topics.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "client/cli/exit_code.h"

namespace stint::cli {
namespace {

constexpr char kQuickstart[] = R"(From nothing to a job that ran, in three steps.

1. Start a broker. This one keeps everything in memory and forgets it at its end:
     stintd --memory

2. Put a job into a queue. The queue appears by itself:
  stint enqueue hello --payload world --id first

3. Work on it. The payload comes on standard input, standard output becomes the result:
  stint work hello --exec 'tr a-z A-Z' --exit-when-empty
  stint jobs get hello/first --result

Many at once, one job a line, and a look at what is there:
  seq 100 | stint enqueue hello --from-lines - --quiet
  stint queues list
  stint work hello --exec cat --concurrency 4 --max-jobs 100
  stint queues stats hello
)";

constexpr char kQueues[] =
    R"(A queue is a named line of jobs. It appears with its first job and has the default settings
until somebody gives it others. The commands one by one: stint queues --help.

Make one with settings of its own, look at them, change one, put it back to its default:
  stint queues create email --max-attempts 5 --retry-initial 10s --retry-max 1h
  stint queues get email
  stint queues update email --max-jobs 100000
  stint queues update email --reset max_jobs

Several at once from a TOML file. Settings have the names of the flags of stint queues create:
     [queues.email]
     max-attempts = 5
     retry-initial = "10s"

     [queues."reports.daily"]
     run-limit = "30m"
     dead-age = "30d"
  stint queues update -f email.toml --dry-run
  stint queues update -f email.toml

Stop dispatch while the handlers are being mended, and go on:
  stint queues pause email
  stint queues resume email

Let it run empty without taking new jobs, then remove it:
  stint queues update email --draining true
  stint queues delete email --force
)";

constexpr char kWorkers[] =
    R"(A worker takes jobs under a lease and keeps the lease alive by heartbeats. When they stop, the
broker gives the job to somebody else; a process that died is noticed in about 5 s.

stint work is a worker that runs a command for each job. Exit code 0 completes the job, 100
makes it a dead letter, any other fails the attempt:
  stint enqueue resize --payload picture
  stint work resize --exec 'wc -c' --concurrency 2 --exit-when-empty

A worker can be made by hand, call by call. lease prints job, token, attempt, kind and payload;
the token proves to every later call that the job is still ours:
  stint enqueue manual --payload one --id one
  stint lease manual --worker me --lease 10m
  stint jobs get manual/one

In a script:
     read -r job token rest < <(stint lease manual --lease 10m)
     stint heartbeat "$job" "$token"
     stint complete "$job" "$token" --result done

A token that is no longer good exits with 5: stop working on the job.

Who is there, and what they hold; stint workers drain asks one, or all of a release, to leave:
  stint workers list

Stopping: SIGTERM or Ctrl-C. Jobs under way have --grace to end; what is left is handed back at
no cost to its attempts.
)";

constexpr char kRetries[] =
    R"(A job has two budgets. Failures (the worker said that it failed) count against max-attempts, 20
unless set; losses (the worker was lost) in a row against max-losses, 3 unless set. When one is
spent the job becomes a dead letter.

After the n-th failure a job waits retry-initial x retry-multiplier^(n-1), at most retry-max,
give or take retry-jitter. For a queue:
  stint queues create email --retry-initial 5s --retry-multiplier 3 --retry-max 1h
Never twice, whatever happens:
  stint queues create payments --max-attempts 1 --max-losses 1

For one job:
  stint enqueue email --payload hi --max-attempts 2 --id hi
  stint jobs update email/hi --max-attempts 5

See what is waiting for a retry, and why the last attempt failed:
  stint jobs list email --state delayed --columns job,attempt,failures,due,error
)";

constexpr char kDeadLetters[] =
    R"(A job that cannot end well becomes DEAD: it stays in its queue with its payload, its last error
and its newest attempts, 14 days unless dead-age says otherwise.

How one comes about, here by a worker that rejects the job with exit code 100:
  stint enqueue email --payload oops --id oops
  stint work email --exec 'echo no such address >&2; exit 100' --exit-when-empty

Look at dead letters, and at one of them:
  stint jobs list email --state dead --columns job,end_reason,ended,error
  stint jobs get email/oops

When the cause is mended, revive it with fresh budgets; the attempt number goes on counting:
  stint jobs redrive email/oops
Or all of a queue at once; --dry-run only counts:
  stint jobs redrive --queue email --dry-run

Be told of new ones as they come:
     stint jobs tail email --state dead
)";

constexpr char kJson[] =
    R"(With --json a command prints one JSON object a line, for jq and for programs.

It is protobuf's own form with the field names of the .proto files: 64-bit numbers are strings,
bytes are base64, durations are like "15s", times are RFC 3339, and fields that are not set are
left out. Figures (queues stats, top) are always all there.

  stint enqueue email --payload hi --label campaign=may --json
  stint jobs list email --json
  stint queues list --json
  stint top --once --interval 100ms --json
  stint jobs list email --watch --interval 1s --count 2 --json

With --watch each reading is one line: {"queues":[...]} or {"jobs":[...]}.

A failure is one JSON object on standard error, with error, code, reason, message and
field_violations. Decide by the exit code (stint help exit-codes), then by reason, never by the
message: its words may change.
)";

constexpr char kLabels[] =
    R"(Labels are up to 8 KEY=VALUE pairs of a job, for people to find it by. Handlers that need more give
headers instead, which are not filtered by.

  stint enqueue email --payload hi --label campaign=may --label tenant=acme
  stint jobs list email --label campaign=may
  stint jobs list email --label campaign=may --label tenant=acme --state ready

With several, all must match. They work wherever jobs are listed or changed by a filter: jobs list,
jobs tail, and jobs cancel, redrive and delete with --queue:
  stint jobs cancel --queue email --label campaign=may --dry-run
)";

constexpr char kEnvironment[] =
    R"(Variables that stint and every client of Stint read. A flag of the same meaning wins.

  STINT_ADDRESS     broker, HOST:PORT; else 127.0.0.1:7150       --address
  STINT_TOKEN_FILE  file with the secret of a credential         --token-file
  STINT_TLS_CA      PEM file, authorities that vouch for it      --tls-ca
  STINT_TLS_CERT    PEM file, client certificate                 --tls-cert
  STINT_TLS_KEY     PEM file, its key                            --tls-key
  NO_COLOR          no colours, also on a terminal

Any of the three TLS variables turns TLS on. A token file is read again when it has changed.

  stint health
  stint server info

stint work gives the command of each job: STINT_JOB, STINT_QUEUE, STINT_KIND, STINT_ATTEMPT,
STINT_TOKEN (the fencing token), STINT_WORKER and STINT_ADDRESS, so that it can call stint itself.
)";

}  // namespace

const std::vector<HelpTopic>& HelpTopics() {
  static const std::vector<HelpTopic> kTopics = {
      {"quickstart", "a broker, a job, a worker", kQuickstart},
      {"queues", "settings, files of settings, pause, drain", kQueues},
      {"workers", "stint work, and a worker by hand", kWorkers},
      {"retries", "budgets and back-off", kRetries},
      {"dead-letters", "find them, revive them", kDeadLetters},
      {"labels", "find jobs by them", kLabels},
      {"json", "output for programs", kJson},
      {"environment", "variables that are read", kEnvironment},
      {"exit-codes", "what a script decides by", kExitCodesHelp},
  };
  return kTopics;
}

const HelpTopic* FindHelpTopic(absl::string_view name) {
  const auto& topics = HelpTopics();
  const auto found = std::find_if(topics.begin(), topics.end(),
                                  [name](const HelpTopic& topic) { return topic.name == name; });
  return found == topics.end() ? nullptr : &*found;
}

std::string DescribeHelpTopics() {
  std::string text;
  for (const HelpTopic& topic : HelpTopics()) {
    absl::StrAppendFormat(&text, "  %-14s%s\n", topic.name, topic.summary);
  }
  return text;
}

}  // namespace stint::cli
