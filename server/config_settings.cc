#include "server/config_settings.h"

#include "server/engine/limits.h"

namespace stint {
namespace {

constexpr int64_t kKiB = 1024;
constexpr int64_t kMiB = 1024 * kKiB;
constexpr int64_t kGiB = 1024 * kMiB;
constexpr int64_t kTiB = 1024 * kGiB;
constexpr int64_t kSecond = engine::kSecondMs;
constexpr int64_t kMinute = engine::kMinuteMs;
constexpr int64_t kLargestPayload = int64_t{engine::kLargestMaxPayloadBytes} - kMiB;
constexpr int64_t kLargestCall = int64_t{engine::kLargestMaxCallBytes};

using TextMember = std::string Config::*;
using SwitchMember = bool Config::*;
using NumberMember = int64_t Config::*;

constexpr Setting Text(absl::string_view name, TextMember member, absl::string_view standard,
                       absl::string_view help) {
  return {name, Form::kText, member, standard, 0, 0, help, ""};
}
constexpr Setting Choice(absl::string_view name, TextMember member, absl::string_view standard,
                         absl::string_view choices, absl::string_view help) {
  return {name, Form::kChoice, member, standard, 0, 0, help, choices};
}
constexpr Setting Switch(absl::string_view name, SwitchMember member, absl::string_view help) {
  return {name, Form::kSwitch, member, "false", 0, 0, help, ""};
}
constexpr Setting Number(absl::string_view name, NumberMember member, absl::string_view standard,
                         int64_t min, int64_t max, absl::string_view help) {
  return {name, Form::kNumber, member, standard, min, max, help, ""};
}
constexpr Setting Bytes(absl::string_view name, NumberMember member, absl::string_view standard,
                        int64_t min, int64_t max, absl::string_view help) {
  return {name, Form::kBytes, member, standard, min, max, help, ""};
}
constexpr Setting Duration(absl::string_view name, NumberMember member, absl::string_view standard,
                           int64_t min, int64_t max, absl::string_view help) {
  return {name, Form::kDuration, member, standard, min, max, help, ""};
}

constexpr Setting kSettings[] = {
    // Where it listens, and where it keeps what.
    Text("listen", &Config::listen, "127.0.0.1:7150",
         "Address of the gRPC listener, host:port; port 0 takes any"),
    Text("http_listen", &Config::http_listen, "127.0.0.1:7151",
         "Address of the HTTP listener for metrics and health, host:port; port 0 takes any; "
         "none: no HTTP"),
    Text("data_dir", &Config::data_dir, "stint-data",
         "Folder of the store, made if missing (its parent is not)"),
    Switch("memory", &Config::memory, "Keep everything in memory: nothing survives the process"),

    // Who may call.
    Switch("insecure", &Config::insecure, "Ask nobody for credentials, also beyond loopback"),
    Text("tokens_file", &Config::tokens_file, "", "Credentials, one a line: NAME ROLE sha256:HEX"),
    Text("server_cert", &Config::server_cert, "",
         "PEM file with the server's certificate chain: turns TLS on"),
    Text("server_key", &Config::server_key, "", "PEM file with the key of server_cert"),
    Text("client_ca", &Config::client_ca, "",
         "PEM file with authorities of client certificates, which are credentials then"),
    Switch("require_tls", &Config::require_tls, "Refuse to start without TLS"),

    // Calls.
    Bytes("max_payload", &Config::max_payload, "1MiB", kKiB, kLargestPayload,
          "Largest payload or result of a job"),
    Bytes("max_call", &Config::max_call, "3584KiB", 130 * kKiB, kLargestCall,
          "Largest call or answer; at least 2 * max_payload + 128KiB"),
    Bytes("grpc_memory", &Config::grpc_memory, "512MiB", 64 * kMiB, kTiB,
          "What gRPC may hold for calls, about"),
    Number("read_threads", &Config::read_threads, "2", 1, 64,
           "Threads for reads past the engine (GetJob, ListJobs, GetQueue, ListQueues)"),

    // Engine and loop.
    Duration("request_window", &Config::request_window_ms, "1h", kMinute,
             engine::kMaxRequestWindowMs, "How long a request_id is remembered"),
    Duration("restart_grace", &Config::restart_grace_ms, "30s", 0, engine::kMaxRestartGraceMs,
             "Least time each lease has after a restart to be renewed"),
    Number("max_parked_calls", &Config::max_parked_calls, "50000", 1, 1'000'000,
           "Most calls that wait for a job or for a job's end"),
    Number("lane_operations", &Config::lane_operations, "20000", 1024, 1'000'000,
           "Most operations waiting in each of the three lanes"),
    Bytes("lane_bytes", &Config::lane_bytes, "64MiB", 4 * kMiB, 16 * kGiB,
          "Most bytes waiting in each of the three lanes"),

    // Store.
    Bytes("block_cache", &Config::block_cache, "64MiB", kMiB, kTiB,
          "Memory for blocks of the store that were read"),
    Bytes("disk_floor", &Config::disk_floor, "0", 0, kTiB,
          "Free space under which new jobs are refused; 0: as much as the reserve"),
    Bytes("reserve", &Config::reserve, "64MiB", kMiB, 16 * kGiB,
          "Space kept back for settling jobs on a full disk"),

    // Operation.
    Text("metrics_token_file", &Config::metrics_token_file, "",
         "File with the secret that /metrics asks for as bearer token; empty: it is open"),
    Number("metrics_queues", &Config::metrics_queues, "64", 1, 1000,
           "Queues with series of their own in the metrics; the others are summed"),
    Choice("log_level", &Config::log_level, "info", "debug, info, warning, error",
           "Least serious line logged"),
    Choice("log_format", &Config::log_format, "text", "text, json", "Form of log lines"),
    Duration("drain_timeout", &Config::drain_timeout_ms, "5s", kSecond, 10 * kMinute,
             "How long calls under way may take after SIGTERM"),
};

}  // namespace

absl::Span<const Setting> Settings() { return kSettings; }

}  // namespace stint
