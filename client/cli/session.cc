#include "client/cli/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/arguments.h"
#include "client/cli/output.h"
#include "client/cpp/status.h"
#include "client/cpp/text.h"
#include "google/protobuf/struct.pb.h"

namespace stint::cli {
namespace {

// The first repeat comes almost at once (client/cpp/backoff.h) and mends a broken connection.
constexpr int kSilentRepeats = 1;

std::string Quoted(absl::string_view text) {
  google::protobuf::Value value;
  value.set_string_value(client::ToValidUtf8(text));
  return ToJson(value);
}

// One JSON object with all there is to know about a failure, its fields always in one order.
void PrintFailure(const std::string& what, const absl::Status& status, std::ostream& err) {
  err << "{\"error\":" << Quoted(what)
      << ",\"code\":" << Quoted(absl::StatusCodeToString(status.code()))
      << ",\"reason\":" << Quoted(client::ErrorReason(status))
      << ",\"message\":" << Quoted(status.message()) << ",\"field_violations\":[";
  const char* comma = "";
  for (const auto& violation : client::FieldViolations(status)) {
    err << comma << "{\"field\":" << Quoted(violation.field)
        << ",\"description\":" << Quoted(violation.description) << '}';
    comma = ",";
  }
  err << "]}\n";
}

}  // namespace

void Session::AddFlags(CLI::App& app) {
  const std::string group = "Flags of every command";
  app.add_option("--address", options_.address, "Broker, HOST:PORT (STINT_ADDRESS)")
      ->capture_default_str()
      ->group(group);
  app.add_option("--token-file", options_.token_file,
                 "File with the secret of a credential (STINT_TOKEN_FILE)")
      ->group(group);
  app.add_option("--tls-ca", options_.tls_ca_file,
                 "PEM file of the authorities that vouch for the broker (STINT_TLS_CA)")
      ->group(group);
  app.add_option("--tls-cert", options_.tls_cert_file,
                 "PEM file, client certificate (STINT_TLS_CERT)")
      ->group(group);
  app.add_option("--tls-key", options_.tls_key_file, "PEM file, its key (STINT_TLS_KEY)")
      ->group(group);
  app.add_option("--timeout", timeout_, "How long to try before giving up")
      ->capture_default_str()
      ->group(group);
  app.add_flag("--json", json_, "Print JSON, one object a line")->group(group);
}

void Session::OnChosen(CLI::App* command, std::function<int()> run) {
  command->callback([this, run = std::move(run)] { action_ = run; });
}

int Session::RunChosen() {
  const absl::StatusOr<absl::Duration> timeout = ParseDuration(timeout_);
  if (!timeout.ok()) return Misuse(timeout.status());
  timeout_limit_ = *timeout;
  return action_ ? action_() : kUsage;
}

absl::StatusOr<std::shared_ptr<client::Connection>> Session::Connect() {
  if (connection_ == nullptr) {
    auto opened = client::Connection::Open(options_);
    if (!opened.ok()) return opened.status();
    connection_ = *std::move(opened);
  }
  return connection_;
}

absl::StatusOr<client::Client> Session::MakeClient() {
  auto connection = Connect();
  if (!connection.ok()) return connection.status();
  return client::Client(*std::move(connection));
}

client::CallOptions Session::Calls() {
  client::CallOptions options;
  options.total = timeout_limit_;
  options.deadline = std::clamp(timeout_limit_, absl::Milliseconds(1), options.deadline);
  options.on_repeat = [this](const absl::Status& why) { SayTrying(why); };
  return options;
}

void Session::SayTrying(const absl::Status& why) {
  // A program that reads JSON expects one object there.
  if (json_ || ++repeats_ != kSilentRepeats + 1) return;
  err() << "stint: no answer yet from the broker at " << options_.address << " ("
        << Printable(why.message()) << "); still trying\n";
  err().flush();
}

void Session::PrintJson(const google::protobuf::Message& message) {
  out() << ToJson(message) << '\n';
}

int Session::Fail(absl::string_view doing, const absl::Status& status) {
  return Fail(doing, status, ExitCodeFor(status), AdviceFor(status, options_.address));
}

int Session::Fail(absl::string_view doing, const absl::Status& status, ExitCode code,
                  const std::string& advice) {
  if (json_) {
    PrintFailure(absl::StrCat("cannot ", doing), status, err());
    return code;
  }
  const std::string reason = client::ErrorReason(status);
  const auto violations = client::FieldViolations(status);
  err() << "stint: cannot " << Printable(doing);
  // The broker's message spells the same fields out.
  if (violations.empty() || !absl::StrContains(status.message(), violations[0].description)) {
    err() << ": " << Printable(status.message());
  }
  err() << " (" << (reason.empty() ? absl::StatusCodeToString(status.code()) : reason) << ")\n";
  for (const auto& violation : violations) {
    err() << "  " << Printable(violation.field) << ": " << Printable(violation.description) << '\n';
  }
  if (!advice.empty()) err() << "  What to do: " << advice << '\n';
  return code;
}

int Session::Misuse(const absl::Status& status) {
  if (json_) {
    PrintFailure("cannot run this command line", status, err());
  } else {
    err() << "stint: " << Printable(status.message()) << '\n';
  }
  return kUsage;
}

}  // namespace stint::cli
