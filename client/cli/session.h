// One run of `stint`: its streams, the flags that every command has, and its connection.
//
// Commands register themselves with CLI11 and set `action` when they are chosen; cli.cc then
// runs it. Errors are printed here, in one way for all commands.
//
// Thread rule: one thread.
#ifndef STINT_CLIENT_CLI_SESSION_H_
#define STINT_CLIENT_CLI_SESSION_H_

#include <functional>
#include <istream>
#include <memory>
#include <ostream>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cli/exit_code.h"
#include "client/cpp/client.h"
#include "client/cpp/connection.h"
#include "google/protobuf/message.h"

namespace stint::cli {

struct Streams {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool no_color = false;          // the variable NO_COLOR is set
  bool in_is_terminal = false;    // somebody can answer a question
  bool in_is_redirected = false;  // from a pipe or a file, as `|` and `<` do
};

class Session {
 public:
  explicit Session(const Streams& streams) : streams_(streams) {}

  // Adds --address and the other flags of every command.
  void AddFlags(CLI::App& app);

  // `run` becomes the action when `command` is chosen.
  void OnChosen(CLI::App* command, std::function<int()> run);
  int RunChosen();

  std::istream& in() { return streams_.in; }
  std::ostream& out() { return capture_ != nullptr ? *capture_ : streams_.out; }
  std::ostream& err() { return streams_.err; }
  bool json() const { return json_; }
  bool align() const { return streams_.out_is_terminal; }
  bool colour() const { return streams_.out_is_terminal && !streams_.no_color; }
  bool may_colour() const { return !streams_.no_color; }
  bool err_is_terminal() const { return streams_.err_is_terminal; }
  // There is somebody who can answer a question.
  bool may_ask() const { return streams_.in_is_terminal && streams_.err_is_terminal; }
  bool in_is_redirected() const { return streams_.in_is_redirected; }
  const std::string& address() const { return options_.address; }

  // Until called with null, what would be printed goes to `capture` instead.
  void Capture(std::ostream* capture) { capture_ = capture; }

  // Opens the connection on first use.
  absl::StatusOr<std::shared_ptr<client::Connection>> Connect();
  absl::StatusOr<client::Client> MakeClient();
  // Deadlines after --timeout.
  client::CallOptions Calls();
  // For a command line that could not be read: whether it asks for JSON.
  void set_json(bool json) { json_ = json; }

  // Prints one message as a line of JSON.
  void PrintJson(const google::protobuf::Message& message);
  // Prints what failed, why, and what to do; returns the exit code. `doing` completes
  // "cannot …".
  int Fail(absl::string_view doing, const absl::Status& status);
  // The same with an exit code and advice of the command's own.
  int Fail(absl::string_view doing, const absl::Status& status, ExitCode code,
           const std::string& advice);
  // A mistake on the command line.
  int Misuse(const absl::Status& status);

 private:
  // Once, when a call has been tried in vain for a while: nobody should wait without a word.
  void SayTrying(const absl::Status& why);

  Streams streams_;
  client::ConnectionOptions options_ = client::ConnectionOptions::FromEnvironment();
  std::string timeout_ = "30s";
  absl::Duration timeout_limit_ = absl::Seconds(30);
  bool json_ = false;
  std::function<int()> action_;
  std::ostream* capture_ = nullptr;
  int repeats_ = 0;
  std::shared_ptr<client::Connection> connection_;
};

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_SESSION_H_
