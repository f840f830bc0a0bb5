#include "client/cli/session.h"

#include <algorithm>
#include <utility>

#include "client/cli/arguments.h"
#include "client/cli/output.h"
#include "client/cpp/status.h"
#include "client/cpp/text.h"
#include "google/protobuf/struct.pb.h"

namespace stint::cli {

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

client::CallOptions Session::Calls() const {
  client::CallOptions options;
  options.total = timeout_limit_;
  options.deadline = std::clamp(timeout_limit_, absl::Milliseconds(1), options.deadline);
  return options;
}

void Session::PrintJson(const google::protobuf::Message& message) {
  out() << ToJson(message) << '\n';
}

int Session::Fail(absl::string_view doing, const absl::Status& status) {
  const int code = ExitCodeFor(status);
  const std::string reason = client::ErrorReason(status);
  const std::string advice = AdviceFor(status, options_.address);
  const auto violations = client::FieldViolations(status);
  if (json_) {
    google::protobuf::Struct error;
    auto& fields = *error.mutable_fields();
    fields["error"].set_string_value("cannot " + std::string(doing));
    fields["code"].set_string_value(absl::StatusCodeToString(status.code()));
    fields["reason"].set_string_value(reason);
    fields["message"].set_string_value(client::ToValidUtf8(status.message()));
    for (const auto& violation : violations) {
      auto& entry = *fields["field_violations"].mutable_list_value()->add_values();
      auto& parts = *entry.mutable_struct_value()->mutable_fields();
      parts["field"].set_string_value(violation.field);
      parts["description"].set_string_value(violation.description);
    }
    err() << ToJson(error) << '\n';
    return code;
  }
  err() << "stint: cannot " << Printable(doing) << ": " << Printable(status.message());
  err() << " (" << (reason.empty() ? absl::StatusCodeToString(status.code()) : reason) << ")\n";
  for (const auto& violation : violations) {
    err() << "  " << Printable(violation.field) << ": " << Printable(violation.description) << '\n';
  }
  if (!advice.empty()) err() << "  What to do: " << advice << '\n';
  return code;
}

int Session::Misuse(const absl::Status& status) {
  err() << "stint: " << Printable(status.message()) << '\n';
  return kUsage;
}

}  // namespace stint::cli
