// stint queues get|create|update|delete|pause|resume|purge
#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"
#include "client/cli/queue_file.h"
#include "client/cli/queue_settings.h"
#include "client/cpp/status.h"

namespace stint::cli {
namespace {

constexpr absl::string_view kDeleteQueue = "delete queue";

struct QueueOptions {
  std::string queue;
  std::string request_id;
  std::string etag;
  std::vector<std::string> reset;
  bool draining = false;
  bool force = false;
  QueueSettingsFlags settings;
};

void PrintQueue(const v1::Queue& queue, Session& session) {
  if (session.json()) {
    session.PrintJson(queue);
    return;
  }
  Table table({"", ""}, session.align(), session.colour(), /*header=*/false);
  const auto add = [&table](const std::string& name, const std::string& value) {
    table.AddRow({Cell(name, Colour::kGrey), Printable(value)});
  };
  add("queue", queue.name());
  add("paused", queue.paused() ? "yes: nothing is dispatched" : "no");
  add("draining", queue.draining() ? "yes: new jobs are refused" : "no");
  add("created", TimeText(queue.create_time()));
  add("etag", queue.etag());
  for (const SettingText& setting : DescribeSettings(queue.settings())) {
    std::vector<Cell> row = {Cell(setting.name, Colour::kGrey), Cell(setting.value)};
    if (setting.is_default) row.emplace_back("default", Colour::kGrey);
    table.AddRow(std::move(row));
  }
  table.Print(session.out());
}

// Checks what every command here has, makes the client, and reports a failure.
template <typename Run>
int WithClient(const QueueOptions& options, Session& session, absl::string_view doing, Run run) {
  absl::Status valid = CheckText("the queue", options.queue);
  if (valid.ok()) valid = CheckText("--request-id", options.request_id);
  if (valid.ok()) valid = CheckText("--etag", options.etag);
  if (!valid.ok()) return session.Misuse(valid);
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  const absl::Status status = run(*client);
  if (status.ok()) return kOk;
  const std::string what = absl::StrCat(doing, " ", options.queue);
  if (client::ErrorReason(status) == "WRONG_STATE" && doing == kDeleteQueue) {
    return session.Fail(what, status, kWrongState,
                        absl::StrCat("delete it with all its jobs: stint queues delete ",
                                     options.queue, " --force"));
  }
  return session.Fail(what, status);
}

int RunGet(const QueueOptions& options, Session& session) {
  return WithClient(options, session, "get queue", [&](client::Client& client) {
    v1::GetQueueRequest request;
    request.set_queue(options.queue);
    const auto answer = client.GetQueue(request, session.Calls());
    if (answer.ok()) PrintQueue(answer->queue(), session);
    return answer.status();
  });
}

int RunCreate(const QueueOptions& options, Session& session) {
  v1::CreateQueueRequest request;
  request.set_queue(options.queue);
  request.set_request_id(options.request_id);
  const absl::Status settings = options.settings.Apply(request.mutable_settings());
  if (!settings.ok()) return session.Misuse(settings);
  return WithClient(options, session, "create queue", [&](client::Client& client) {
    const auto answer = client.CreateQueue(std::move(request), session.Calls());
    if (answer.ok()) PrintQueue(answer->queue(), session);
    return answer.status();
  });
}

// A part of `retry` or `retention` replaces the whole field, so the rest of it is read first;
// the etag refuses the change if somebody else was faster.
absl::Status MakeUpdate(const QueueOptions& options, bool draining_given, client::Client& client,
                        const client::CallOptions& calls, v1::UpdateQueueRequest* request) {
  request->set_queue(options.queue);
  request->set_request_id(options.request_id);
  request->set_etag(options.etag);
  bool read_first = false;
  for (const std::string& field : options.settings.GivenFields()) {
    request->mutable_update_mask()->add_paths("settings." + field);
    read_first = read_first || field == "retry" || field == "retention";
  }
  for (const std::string& field : options.reset) {
    request->mutable_update_mask()->add_paths("settings." + field);
  }
  if (draining_given) {
    request->set_draining(options.draining);
    request->mutable_update_mask()->add_paths("draining");
  }
  if (read_first) {
    v1::GetQueueRequest get;
    get.set_queue(options.queue);
    const auto current = client.GetQueue(get, calls);
    if (!current.ok()) return current.status();
    *request->mutable_settings()->mutable_retry() = current->queue().settings().retry();
    *request->mutable_settings()->mutable_retention() = current->queue().settings().retention();
    if (options.etag.empty()) request->set_etag(current->queue().etag());
  }
  return options.settings.Apply(request->mutable_settings());
}

int RunUpdate(const QueueOptions& options, bool draining_given, Session& session) {
  v1::QueueSettings parsed;
  absl::Status valid = options.settings.Apply(&parsed);
  if (valid.ok() && options.settings.GivenFields().empty() && options.reset.empty() &&
      !draining_given) {
    valid = absl::InvalidArgumentError("nothing to change; see stint queues update --help");
  }
  for (const std::string& field : options.reset) {
    const bool known = parsed.GetDescriptor()->FindFieldByName(field) != nullptr;
    if (valid.ok() && !known) {
      valid = absl::InvalidArgumentError(absl::StrCat("there is no setting '", field, "'"));
    }
  }
  if (!valid.ok()) return session.Misuse(valid);
  return WithClient(options, session, "update queue", [&](client::Client& client) {
    v1::UpdateQueueRequest request;
    const absl::Status made =
        MakeUpdate(options, draining_given, client, session.Calls(), &request);
    if (!made.ok()) return made;
    const auto answer = client.UpdateQueue(std::move(request), session.Calls());
    if (answer.ok()) PrintQueue(answer->queue(), session);
    return answer.status();
  });
}

int RunDelete(const QueueOptions& options, Session& session) {
  return WithClient(options, session, kDeleteQueue, [&](client::Client& client) {
    v1::DeleteQueueRequest request;
    request.set_queue(options.queue);
    request.set_request_id(options.request_id);
    request.set_force(options.force);
    const auto answer = client.DeleteQueue(std::move(request), session.Calls());
    if (answer.ok()) {
      session.out() << (session.json() ? "{}" : Printable(options.queue) + " deleted") << '\n';
    }
    return answer.status();
  });
}

int RunPause(const QueueOptions& options, Session& session) {
  return WithClient(options, session, "pause queue", [&](client::Client& client) {
    v1::PauseQueueRequest request;
    request.set_queue(options.queue);
    request.set_request_id(options.request_id);
    const auto answer = client.PauseQueue(std::move(request), session.Calls());
    if (answer.ok()) PrintQueue(answer->queue(), session);
    return answer.status();
  });
}

int RunResume(const QueueOptions& options, Session& session) {
  return WithClient(options, session, "resume queue", [&](client::Client& client) {
    v1::ResumeQueueRequest request;
    request.set_queue(options.queue);
    request.set_request_id(options.request_id);
    const auto answer = client.ResumeQueue(std::move(request), session.Calls());
    if (answer.ok()) PrintQueue(answer->queue(), session);
    return answer.status();
  });
}

int RunPurge(const QueueOptions& options, Session& session) {
  return WithClient(options, session, "purge queue", [&](client::Client& client) {
    v1::PurgeQueueRequest request;
    request.set_queue(options.queue);
    request.set_request_id(options.request_id);
    request.set_force(options.force);
    const auto answer = client.PurgeQueue(std::move(request), session.Calls());
    if (!answer.ok()) return answer.status();
    if (session.json()) {
      session.out() << ToJson(*answer, /*with_zeros=*/true) << '\n';
    } else {
      session.out() << CountText(answer->purged(), "job") << " removed\n";
    }
    return absl::OkStatus();
  });
}

using Run = int (*)(const QueueOptions&, Session&);

std::pair<CLI::App*, std::shared_ptr<QueueOptions>> Add(CLI::App* queues, Session& session,
                                                        const char* name, const char* help, Run run,
                                                        bool changes = true) {
  auto options = std::make_shared<QueueOptions>();
  CLI::App* const command = queues->add_subcommand(name, help);
  command->add_option("queue", options->queue, "Queue")->required();
  if (changes) {
    command->add_option("--request-id", options->request_id, "Makes it safe to repeat");
  }
  session.OnChosen(command, [options, run, &session] { return run(*options, session); });
  return {command, options};
}

void AddUpdate(CLI::App* queues, Session& session) {
  auto options = std::make_shared<QueueOptions>();
  CLI::App* const command =
      queues->add_subcommand("update", "Change a queue's settings; what is not given stays");
  command->add_option("queue", options->queue, "Queue")->required();
  auto* const draining =
      command->add_option("--draining", options->draining,
                          "true: refuse new jobs, serve what is there; false: take jobs");
  command
      ->add_option("--reset", options->reset,
                   "Setting to put back to its default, by its name in the API, such as "
                   "max_jobs or retry; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--etag", options->etag, "Only if the queue's etag is still this");
  command->add_option("--request-id", options->request_id, "Makes it safe to repeat");
  options->settings.AddTo(command);
  command->footer(R"(
Examples:
  stint queues update email --max-attempts 5 --retry-initial 10s --retry-max 1h
  stint queues update email --draining true
  stint queues update email --reset max_jobs)");
  const auto run = [options, draining, &session] {
    return RunUpdate(*options, draining->count() > 0, session);
  };
  AddFileFlags(command, session, run, UpdateQueuesFromFile);
}

}  // namespace

void AddQueueChangeCommands(CLI::App* queues, Session& session) {
  const auto [get, get_options] =
      Add(queues, session, "get", "Show a queue and the settings in force", RunGet,
          /*changes=*/false);
  get->footer(R"(
Settings that nobody gave are marked `default`; --json shows only those that were given. Example:
  stint queues get email)");
  const auto [create, create_options] =
      Add(queues, session, "create", "Create a queue with settings of its own", RunCreate);
  create_options->settings.AddTo(create);
  AddFileFlags(
      create, session,
      [options = create_options, &session] { return RunCreate(*options, session); },
      CreateQueuesFromFile);
  create->footer(R"(
Queues also appear on first use, with default settings. Example, at most once, never retried:
  stint queues create payments --max-attempts 1 --max-losses 1)");
  AddUpdate(queues, session);
  const auto [remove, remove_options] =
      Add(queues, session, "delete", "Remove a queue with all its jobs", RunDelete);
  remove->add_flag("--force", remove_options->force, "Also if it holds jobs, ended ones included");
  remove->footer(R"(
Examples, the second with all jobs in it:
  stint queues delete email
  stint queues delete email --force)");
  const auto [pause, pause_options] =
      Add(queues, session, "pause", "Stop dispatch; everything else goes on", RunPause);
  pause->footer("\nExample: stint queues pause email");
  const auto [resume, resume_options] =
      Add(queues, session, "resume", "Start dispatch again", RunResume);
  resume->footer("\nExample: stint queues resume email");
  const auto [purge, purge_options] =
      Add(queues, session, "purge", "Remove all jobs that wait now", RunPurge);
  purge->add_flag("--force", purge_options->force, "Also take jobs away from workers");
  purge->footer(R"(
Ended jobs stay until their retention is over; jobs under way stay without --force. Example:
  stint queues purge email)");
}

}  // namespace stint::cli
