#include "client/cli/queue_file.h"

#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/output.h"

namespace stint::cli {
namespace {

// The parser goes one call deeper for each part of a dotted key, so this bounds the stack as well.
constexpr size_t kMaxFileBytes = 64 * 1024;

int LineOf(const toml::node& node) { return static_cast<int>(node.source().begin.line); }

absl::Status Wrong(const std::string& path, int line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ", line ", line, ": ", what));
}

std::optional<std::string> ValueOf(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return absl::StrCat(number->get());
  if (const auto* number = node.as_floating_point()) return absl::StrCat(number->get());
  return std::nullopt;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (!in && !in.eof())) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot read ", path, "; name a TOML file with queues: stint help queues"));
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is larger than 64 KiB; give the queues in several files"));
  }
  return text;
}

absl::StatusOr<QueueFileEntry> ReadQueue(const std::string& path, const std::string& name,
                                         const toml::node& node) {
  QueueFileEntry entry;
  entry.queue = name;
  entry.line = LineOf(node);
  const toml::table* const settings = node.as_table();
  if (settings == nullptr) {
    return Wrong(path, entry.line, absl::StrCat("write a queue as a table: [queues.", name, "]"));
  }
  for (const auto& [key, value] : *settings) {
    const std::string setting(key.str());
    const std::optional<std::string> text = ValueOf(value);
    if (!text.has_value()) {
      return Wrong(path, LineOf(value),
                   absl::StrCat(setting, " is neither a number nor a text in quotes"));
    }
    const absl::Status given = entry.settings.Give(setting, *text);
    if (!given.ok()) return Wrong(path, LineOf(value), given.message());
  }
  return entry;
}

absl::StatusOr<client::Client> ClientFor(const std::string& path, Session& session,
                                         std::vector<QueueFileEntry>* entries) {
  auto read = ReadQueueFile(path);
  if (!read.ok()) return read.status();
  *entries = *std::move(read);
  return session.MakeClient();
}

void Say(Session& session, const v1::Queue& queue, const std::string& id, absl::string_view what) {
  if (session.json()) {
    session.PrintJson(queue);
  } else {
    session.out() << Printable(id) << ' ' << what << '\n';
  }
}

// OK with no queue: there is none of that name.
absl::StatusOr<std::optional<v1::Queue>> Find(client::Client& client, const std::string& id,
                                              const client::CallOptions& calls) {
  v1::GetQueueRequest request;
  request.set_queue(id);
  auto answer = client.GetQueue(request, calls);
  if (absl::IsNotFound(answer.status())) return std::optional<v1::Queue>();
  if (!answer.ok()) return answer.status();
  return std::optional<v1::Queue>(std::move(*answer->mutable_queue()));
}

// What the file would make of the queue as it is.
absl::StatusOr<v1::UpdateQueueRequest> MakeChange(const QueueFileEntry& entry,
                                                  const v1::Queue& current) {
  v1::UpdateQueueRequest request;
  request.set_queue(entry.queue);
  request.set_etag(current.etag());
  *request.mutable_settings() = current.settings();
  const absl::Status applied = entry.settings.Apply(request.mutable_settings());
  if (!applied.ok()) return applied;
  for (const std::string& field : entry.settings.GivenFields()) {
    request.mutable_update_mask()->add_paths("settings." + field);
  }
  return request;
}

}  // namespace

absl::StatusOr<std::vector<QueueFileEntry>> ReadQueueFile(const std::string& path) {
  const auto text = ReadText(path);
  if (!text.ok()) return text.status();
  toml::table file;
  try {
    file = toml::parse(*text);
  } catch (const toml::parse_error& error) {
    return Wrong(path, static_cast<int>(error.source().begin.line),
                 std::string(error.description()));
  }
  std::vector<QueueFileEntry> entries;
  for (const auto& [key, node] : file) {
    const toml::table* const queues = node.as_table();
    if (key.str() != "queues" || queues == nullptr) {
      return Wrong(path, LineOf(node),
                   absl::StrCat("'", std::string(key.str()),
                                "' is not known; write each queue as [queues.NAME]"));
    }
    for (const auto& [name, settings] : *queues) {
      auto entry = ReadQueue(path, std::string(name.str()), settings);
      if (!entry.ok()) return entry.status();
      entries.push_back(*std::move(entry));
    }
  }
  if (entries.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " names no queue; write each as [queues.NAME]"));
  }
  std::sort(entries.begin(), entries.end(),
            [](const QueueFileEntry& a, const QueueFileEntry& b) { return a.line < b.line; });
  return entries;
}

int CreateQueuesFromFile(const QueueFileOptions& options, Session& session) {
  std::vector<QueueFileEntry> entries;
  auto client = ClientFor(options.path, session, &entries);
  if (!client.ok()) return session.Misuse(client.status());
  for (const QueueFileEntry& entry : entries) {
    v1::CreateQueueRequest request;
    request.set_queue(entry.queue);
    const absl::Status applied = entry.settings.Apply(request.mutable_settings());
    if (!applied.ok()) return session.Misuse(Wrong(options.path, entry.line, applied.message()));
    const std::string doing =
        absl::StrCat("create queue ", entry.queue, " (", options.path, ", line ", entry.line, ")");
    if (options.dry_run) {
      const auto current = Find(*client, entry.queue, session.Calls());
      if (!current.ok()) return session.Fail(doing, current.status());
      v1::Queue wanted;
      wanted.set_name("queues/" + entry.queue);
      *wanted.mutable_settings() = request.settings();
      Say(session, wanted, entry.queue,
          current->has_value() ? "is there: it would be taken over if it only appeared by use, "
                                 "else refused"
                               : "would be created");
      continue;
    }
    const auto created = client->CreateQueue(std::move(request), session.Calls());
    if (!created.ok()) return session.Fail(doing, created.status());
    Say(session, created->queue(), entry.queue, "created");
  }
  return kOk;
}

int UpdateQueuesFromFile(const QueueFileOptions& options, Session& session) {
  std::vector<QueueFileEntry> entries;
  auto client = ClientFor(options.path, session, &entries);
  if (!client.ok()) return session.Misuse(client.status());
  for (const QueueFileEntry& entry : entries) {
    const std::string doing =
        absl::StrCat("update queue ", entry.queue, " (", options.path, ", line ", entry.line, ")");
    v1::GetQueueRequest get;
    get.set_queue(entry.queue);
    const auto current = client->GetQueue(get, session.Calls());
    if (!current.ok()) return session.Fail(doing, current.status());
    auto change = MakeChange(entry, current->queue());
    if (!change.ok()) {
      return session.Misuse(Wrong(options.path, entry.line, change.status().message()));
    }
    v1::Queue wanted = current->queue();
    *wanted.mutable_settings() = change->settings();
    if (ToJson(wanted) == ToJson(current->queue())) {
      Say(session, wanted, entry.queue, "is so already");
    } else if (options.dry_run) {
      Say(session, wanted, entry.queue, "would be changed");
    } else {
      const auto updated = client->UpdateQueue(*std::move(change), session.Calls());
      if (!updated.ok()) return session.Fail(doing, updated.status());
      Say(session, updated->queue(), entry.queue, "changed");
    }
  }
  return kOk;
}

void AddFileFlags(CLI::App* command, Session& session, std::function<int()> one,
                  int (*all)(const QueueFileOptions&, Session&)) {
  auto options = std::make_shared<QueueFileOptions>();
  CLI::Option* const queue = command->get_option("queue")->required(false);
  CLI::Option* const file = command->add_option(
      "-f,--file", options->path, "TOML file with several queues instead: stint help queues");
  CLI::Option* const dry_run = command->add_flag(
      "--dry-run", options->dry_run, "With a file: change nothing, say what would be done");
  dry_run->needs(file);
  session.OnChosen(command, [=, &session, one = std::move(one)] {
    if (file->count() == 0) {
      return queue->count() > 0 ? one()
                                : session.Misuse(absl::InvalidArgumentError(
                                      "say which queue, or give a file with -f"));
    }
    for (const CLI::Option* const other : command->get_options()) {
      if (other->count() > 0 && other != file && other != dry_run) {
        return session.Misuse(absl::InvalidArgumentError(absl::StrCat(
            other->get_name(), " goes with one queue; with -f the file says everything")));
      }
    }
    return all(*options, session);
  });
}

}  // namespace stint::cli
