#include "server/broker.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/api/edge.h"
#include "server/api/grpc_server.h"
#include "server/api/page_token.h"
#include "server/api/sha256.h"
#include "server/guarded_store.h"
#include "server/open_store.h"
#include "server/ops/health.h"
#include "server/ops/http_endpoint.h"
#include "server/ops/log.h"
#include "server/ops/metrics.h"
#include "server/runtime/broker_loop.h"
#include "server/runtime/clock.h"
#include "server/runtime/sessions.h"
#include "server/version.h"
#include "storage/format.h"
#include "storage/reader.h"

namespace stint {
namespace {

// After the store has failed every call is answered at once; this is for the answers' way.
constexpr int64_t kFailureGraceMs = 1000;

absl::StatusOr<std::string> ReadFile(absl::string_view setting, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in || !text) {
    return absl::InvalidArgumentError(absl::StrCat(setting, ": ", path, " cannot be read"));
  }
  return text.str();
}

absl::StatusOr<api::TlsOptions> LoadTls(const Config& config) {
  api::TlsOptions tls;
  const std::pair<const std::string*, std::string*> files[] = {
      {&config.server_cert, &tls.certificate},
      {&config.server_key, &tls.key},
      {&config.client_ca, &tls.client_ca}};
  const char* const names[] = {"server_cert", "server_key", "client_ca"};
  for (size_t i = 0; i < std::size(files); ++i) {
    if (files[i].first->empty()) continue;
    auto text = ReadFile(names[i], *files[i].first);
    if (!text.ok()) return text.status();
    *files[i].second = *std::move(text);
  }
  return tls;
}

absl::StatusOr<api::Authenticator> LoadCredentials(const Config& config) {
  if (!config.has_credentials()) return api::Authenticator();
  std::optional<api::TokensFile> tokens;
  if (!config.tokens_file.empty()) {
    auto file = api::TokensFile::Load(config.tokens_file);
    if (!file.ok()) return file.status();
    tokens = *std::move(file);
  }
  return api::Authenticator(std::move(tokens), !config.client_ca.empty());
}

// Who may read /metrics: everybody, or those who bring the secret in the file.
absl::StatusOr<std::function<bool(absl::string_view)>> LoadMetricsRule(const Config& config) {
  if (config.metrics_token_file.empty()) return [](absl::string_view) { return true; };
  auto text = ReadFile("metrics_token_file", config.metrics_token_file);
  if (!text.ok()) return text.status();
  const std::string secret(absl::StripAsciiWhitespace(*text));
  if (secret.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics_token_file: ", config.metrics_token_file, " holds no secret"));
  }
  return [secret](absl::string_view authorization) {
    constexpr absl::string_view kScheme = "bearer ";
    if (!absl::StartsWithIgnoreCase(authorization, kScheme)) return false;
    return api::EqualInConstantTime(
        secret, absl::StripAsciiWhitespace(authorization.substr(kScheme.size())));
  };
}

absl::StatusOr<std::unique_ptr<ops::HttpEndpoint>> StartHttp(
    const Config& config, std::function<bool(absl::string_view)> may_read_metrics,
    const ops::Health* health, ops::Metrics* metrics) {
  if (config.http_listen.empty()) return nullptr;
  ops::HttpHooks hooks;
  hooks.health = health;
  hooks.gather_metrics = [metrics](std::function<void()> ready) {
    return metrics->Gather(std::move(ready));
  };
  hooks.may_read_metrics = std::move(may_read_metrics);
  hooks.version = kVersion;
  auto endpoint = ops::HttpEndpoint::Start(config.http_listen, std::move(hooks));
  if (endpoint.ok()) ops::LogInfo("listening for HTTP", {{"address", (*endpoint)->address()}});
  return endpoint;
}

ops::LoopSource SourceOf(runtime::BrokerLoop* loop, const runtime::Sessions* sessions,
                         runtime::Workers* workers) {
  return {loop,
          [loop] { return loop->metrics().Copy(); },
          [loop] { return loop->inbox_fill(); },
          [loop] { return loop->store_figures(); },
          [sessions] { return sessions->size(); },
          [workers, sessions] { return workers->Count(*sessions); }};
}

api::EdgeOptions ToEdgeOptions(const Config& config, int64_t start_wall_ms,
                               std::function<void()> begin_drain) {
  api::EdgeOptions options;
  options.limits = {static_cast<size_t>(config.max_payload), static_cast<size_t>(config.max_call)};
  options.read_threads = static_cast<size_t>(config.read_threads);
  options.facts = {kVersion, storage::kFormat, config.memory ? "memory" : "rocksdb", start_wall_ms};
  options.begin_drain = std::move(begin_drain);
  return options;
}

runtime::LoopOptions ToLoopOptions(const Config& config) {
  runtime::LoopOptions options;
  options.engine.request_window_ms = config.request_window_ms;
  options.engine.restart_grace_ms = config.restart_grace_ms;
  options.inbox.lane_operations = static_cast<size_t>(config.lane_operations);
  options.inbox.lane_bytes = static_cast<size_t>(config.lane_bytes);
  options.max_parked_calls = static_cast<size_t>(config.max_parked_calls);
  options.labelled_queues = static_cast<size_t>(config.metrics_queues);
  return options;
}

ExitCode Refuse(ExitCode code, absl::string_view what, const absl::Status& why) {
  ops::LogError(what, {{"why", why.message()}});
  return code;
}

}  // namespace

void Broker::RequestDrain() {
  {
    const MutexLock lock(mutex_);
    stop_.drain = true;
  }
  changed_.NotifyAll();
}

Broker::Stop Broker::WaitForStop() {
  const MutexLock lock(mutex_);
  while (!stop_.drain && !stop_.failure.has_value()) changed_.Wait(mutex_);
  return stop_;
}

ExitCode Broker::Run() {
  auto tls = LoadTls(config_);
  if (!tls.ok()) return Refuse(ExitCode::kUsage, "bad setting", tls.status());
  auto authenticator = LoadCredentials(config_);
  if (!authenticator.ok()) return Refuse(ExitCode::kUsage, "bad setting", authenticator.status());
  auto may_read_metrics = LoadMetricsRule(config_);
  if (!may_read_metrics.ok()) {
    return Refuse(ExitCode::kUsage, "bad setting", may_read_metrics.status());
  }
  if (!config_.tokens_file.empty() && tls->certificate.empty()) {
    ops::LogWarning("tokens are accepted over plaintext connections; require_tls forbids it");
  }
  const int64_t start_wall_ms = runtime::SystemClock().WallMs();
  api::GrpcServerOptions server_options;
  server_options.listen = config_.listen;
  server_options.tls = *std::move(tls);
  server_options.authenticator = *std::move(authenticator);
  server_options.memory_bytes = static_cast<size_t>(config_.grpc_memory);

  // Destroyed from the last to the first: the server before the loop that answers its calls,
  // the loop before the edge its answers pass through, and HTTP after the loop that it watches.
  ops::Health health;
  std::unique_ptr<storage::Store> store;
  std::optional<storage::Reader> reader;
  api::Edge edge(ToEdgeOptions(config_, start_wall_ms, [this] { RequestDrain(); }));
  ops::Metrics metrics({kVersion, edge.facts().store}, &edge.counts());
  std::unique_ptr<ops::HttpEndpoint> http;
  std::unique_ptr<runtime::BrokerLoop> loop;

  // Listening first: whoever calls while the store opens is told STARTING.
  auto server = api::GrpcServer::Start(std::move(server_options), &edge);
  if (!server.ok()) return Refuse(ExitCode::kCannotListen, "cannot listen", server.status());
  ops::LogInfo("listening", {{"address", (*server)->address()}});
  auto endpoint = StartHttp(config_, *std::move(may_read_metrics), &health, &metrics);
  if (!endpoint.ok()) {
    return Refuse(ExitCode::kCannotListen, "cannot listen for HTTP", endpoint.status());
  }
  http = *std::move(endpoint);

  auto opened = OpenStore(config_, start_wall_ms);
  if (!opened.ok()) {
    return Refuse(ExitCode::kStoreRefused, "the store cannot be opened", opened.status());
  }
  store = std::make_unique<GuardedStore>(*std::move(opened));
  reader.emplace(store.get());
  auto page_key = config_.memory ? absl::StatusOr<std::string>(api::RandomPageKey())
                                 : api::LoadPageKey(config_.data_dir);
  if (!page_key.ok()) {
    return Refuse(ExitCode::kStoreRefused, "the store cannot be opened", page_key.status());
  }
  auto started = StartLoop(store.get(), edge.sessions());
  if (!started.ok()) {
    return Refuse(ExitCode::kStoreRefused, "the store cannot be read", started.status());
  }
  loop = *std::move(started);
  edge.sessions()->Start();
  edge.Open(loop.get(), &*reader, *std::move(page_key));
  metrics.Open(SourceOf(loop.get(), edge.sessions(), edge.workers()));
  health.Watch([watched = loop.get()] { return watched->stuck_ms(); });
  health.Enter(ops::Health::Phase::kServing);
  (*server)->SetServing(true);
  ops::LogInfo("ready", {{"address", (*server)->address()},
                         {"version", kVersion},
                         {"store", store->kind()},
                         {"data_dir", config_.memory ? "" : config_.data_dir}});
  const ExitCode code = ServeUntilStopped(server->get(), loop.get(), &health);
  health.Watch(nullptr);
  metrics.Close();
  return code;
}

absl::StatusOr<std::unique_ptr<runtime::BrokerLoop>> Broker::StartLoop(
    storage::Store* store, runtime::Sessions* sessions) {
  runtime::LoopHooks hooks;
  hooks.on_verdict = [sessions](const engine::SessionVerdict& verdict) { sessions->Tell(verdict); };
  hooks.on_notice = [](const std::string& line) { ops::LogWarning(line); };
  hooks.on_fatal = [this](const absl::Status& why) {
    {
      const MutexLock lock(mutex_);
      stop_.failure = why;
    }
    changed_.NotifyAll();
  };
  return runtime::BrokerLoop::Start(store, ToLoopOptions(config_), std::move(hooks));
}

ExitCode Broker::ServeUntilStopped(api::GrpcServer* server, runtime::BrokerLoop* loop,
                                   ops::Health* health) {
  const Stop stop = WaitForStop();
  health->Enter(stop.failure.has_value() ? ops::Health::Phase::kFailed
                                         : ops::Health::Phase::kDraining);
  server->SetServing(false);
  if (stop.failure.has_value()) {
    ops::LogError("the store failed; the broker stops", {{"why", stop.failure->message()}});
    server->Shutdown(kFailureGraceMs);
    // What is left would only try to write again.
    std::_Exit(static_cast<int>(ExitCode::kStoreFailed));
  }
  ops::LogInfo("draining");
  loop->BeginDrain();
  server->Shutdown(config_.drain_timeout_ms);
  ops::LogInfo("drained");
  return ExitCode::kDrained;
}

}  // namespace stint
