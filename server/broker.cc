#include "server/broker.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/api/edge.h"
#include "server/api/grpc_server.h"
#include "server/api/page_token.h"
#include "server/guarded_store.h"
#include "server/open_store.h"
#include "server/ops/log.h"
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

runtime::LoopOptions ToLoopOptions(const Config& config) {
  runtime::LoopOptions options;
  options.engine.request_window_ms = config.request_window_ms;
  options.engine.restart_grace_ms = config.restart_grace_ms;
  options.inbox.lane_operations = static_cast<size_t>(config.lane_operations);
  options.inbox.lane_bytes = static_cast<size_t>(config.lane_bytes);
  options.max_parked_calls = static_cast<size_t>(config.max_parked_calls);
  return options;
}

ExitCode Refuse(ExitCode code, absl::string_view what, const absl::Status& why) {
  ops::LogError(what, {{"why", why.message()}});
  return code;
}

}  // namespace

void Broker::RequestDrain() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_.drain = true;
  }
  changed_.notify_all();
}

Broker::Stop Broker::WaitForStop() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return stop_.drain || stop_.failure.has_value(); });
  return stop_;
}

ExitCode Broker::Run() {
  auto tls = LoadTls(config_);
  if (!tls.ok()) return Refuse(ExitCode::kUsage, "bad setting", tls.status());
  auto authenticator = LoadCredentials(config_);
  if (!authenticator.ok()) return Refuse(ExitCode::kUsage, "bad setting", authenticator.status());
  if (!config_.tokens_file.empty() && tls->certificate.empty()) {
    ops::LogWarning("tokens are accepted over plaintext connections; require_tls forbids it");
  }
  const int64_t start_wall_ms = runtime::SystemClock().WallMs();
  api::EdgeOptions edge_options;
  edge_options.limits = {static_cast<size_t>(config_.max_payload),
                         static_cast<size_t>(config_.max_call)};
  edge_options.read_threads = static_cast<size_t>(config_.read_threads);
  edge_options.facts = {kVersion, storage::kFormat, config_.memory ? "memory" : "rocksdb",
                        start_wall_ms};
  edge_options.begin_drain = [this] { RequestDrain(); };
  api::GrpcServerOptions server_options;
  server_options.listen = config_.listen;
  server_options.tls = *std::move(tls);
  server_options.authenticator = *std::move(authenticator);
  server_options.memory_bytes = static_cast<size_t>(config_.grpc_memory);

  // Destroyed from the last to the first: the server before the loop that answers its calls,
  // the loop before the edge its answers pass through.
  std::unique_ptr<storage::Store> store;
  std::optional<storage::Reader> reader;
  api::Edge edge(std::move(edge_options));
  std::unique_ptr<runtime::BrokerLoop> loop;

  // Listening first: whoever calls while the store opens is told STARTING.
  auto server = api::GrpcServer::Start(std::move(server_options), &edge);
  if (!server.ok()) return Refuse(ExitCode::kCannotListen, "cannot listen", server.status());
  ops::LogInfo("listening", {{"address", (*server)->address()}});

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
  (*server)->SetServing(true);
  ops::LogInfo("ready", {{"address", (*server)->address()},
                         {"version", kVersion},
                         {"store", store->kind()},
                         {"data_dir", config_.memory ? "" : config_.data_dir}});
  return ServeUntilStopped(server->get(), loop.get());
}

absl::StatusOr<std::unique_ptr<runtime::BrokerLoop>> Broker::StartLoop(
    storage::Store* store, runtime::Sessions* sessions) {
  runtime::LoopHooks hooks;
  hooks.on_verdict = [sessions](const engine::SessionVerdict& verdict) { sessions->Tell(verdict); };
  hooks.on_notice = [](const std::string& line) { ops::LogWarning(line); };
  hooks.on_fatal = [this](const absl::Status& why) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stop_.failure = why;
    }
    changed_.notify_all();
  };
  return runtime::BrokerLoop::Start(store, ToLoopOptions(config_), std::move(hooks));
}

ExitCode Broker::ServeUntilStopped(api::GrpcServer* server, runtime::BrokerLoop* loop) {
  const Stop stop = WaitForStop();
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
