// stint server info|drain
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/output.h"

namespace stint::cli {
namespace {

int RunInfo(Session& session) {
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  const auto info = client->GetServerInfo(session.Calls());
  if (!info.ok()) return session.Fail("get the broker's information", info.status());
  if (session.json()) {
    session.out() << ToJson(*info, /*with_zeros=*/true) << '\n';
    return kOk;
  }
  Table table({"", ""}, session.align(), session.colour(), /*header=*/false);
  const auto add = [&table](const char* name, const std::string& value,
                            Colour colour = Colour::kNone) {
    table.AddRow({Cell(name, Colour::kGrey), Cell(Printable(value), colour)});
  };
  add("version", info->version());
  add("store", absl::StrCat(info->store(), ", format ", info->format()));
  add("started", TimeText(info->start_time()));
  add("time", TimeText(info->current_time()));
  add("draining", info->draining() ? "yes" : "no",
      info->draining() ? Colour::kYellow : Colour::kNone);
  add("low space", info->low_space() ? "yes: new jobs are refused" : "no",
      info->low_space() ? Colour::kRed : Colour::kNone);
  add("queues", absl::StrCat(info->queues()));
  add("leases", absl::StrCat(info->leases()));
  add("parked calls", absl::StrCat(info->parked_calls()));
  add("max payload", absl::StrCat(info->max_payload_bytes(), " bytes"));
  add("max call", absl::StrCat(info->max_call_bytes(), " bytes"));
  add("request window", DurationText(info->request_window()));
  add("synced group", absl::StrCat(info->synced_group()));
  table.Print(session.out());
  return kOk;
}

int RunDrain(Session& session) {
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  const auto answer = client->DrainServer(session.Calls());
  if (!answer.ok()) return session.Fail("drain the broker", answer.status());
  session.out() << (session.json() ? "{}" : "the broker is stopping") << '\n';
  return kOk;
}

}  // namespace

void AddServerCommands(CLI::App& root, Session& session) {
  CLI::App* const server = root.add_subcommand("server", "Look at the broker and stop it");
  server->require_subcommand(1);
  CLI::App* const info = server->add_subcommand("info", "Version, limits, state");
  info->footer("\nExample: stint server info --json");
  session.OnChosen(info, [&session] { return RunInfo(session); });
  CLI::App* const drain = server->add_subcommand("drain", "Stop the broker in an orderly way");
  drain->footer(R"(
As SIGTERM does: no new grants, settles and heartbeats are served until the last group is
written; the process exits within 10 s. Example:
  stint server drain)");
  session.OnChosen(drain, [&session] { return RunDrain(session); });
}

}  // namespace stint::cli
