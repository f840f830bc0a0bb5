// stint health
#include "client/cli/commands.h"

namespace stint::cli {
namespace {

int RunHealth(Session& session) {
  auto client = session.MakeClient();
  if (!client.ok()) return session.Misuse(client.status());
  client::CallOptions once = session.Calls();
  once.total = absl::ZeroDuration();  // a health check is asked again by whoever runs it
  const auto health = client->CheckHealth(once);
  if (!health.ok()) return session.Fail("check the broker's health", health.status());
  const bool serving = *health == client::HealthStatus::kServing;
  const char* const name = serving ? "SERVING" : "NOT_SERVING";
  if (session.json()) {
    session.out() << "{\"status\":\"" << name << "\"}\n";
  } else {
    session.out() << name << '\n';
  }
  return serving ? kOk : kRefused;
}

}  // namespace

void AddHealthCommand(CLI::App& root, Session& session) {
  CLI::App* const command = root.add_subcommand("health", "Ask whether the broker is ready");
  command->footer(R"(
One try, no credential needed; for scripts and container health checks. Example:
  stint health --timeout 2s     prints SERVING and exits 0, or 1 (not ready) or 3 (no answer))");
  session.OnChosen(command, [&session] { return RunHealth(session); });
}

}  // namespace stint::cli
