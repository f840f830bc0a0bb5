// Runs command lines of `stint` in the test's process against a fake broker.
#ifndef STINT_TESTS_UNIT_CLI_FIXTURE_H_
#define STINT_TESTS_UNIT_CLI_FIXTURE_H_

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/cli.h"
#include "client/cli/exit_code.h"
#include "gtest/gtest.h"
#include "tests/support/fake_broker.h"

namespace stint::testing {

class CliTest : public ::testing::Test {
 protected:
  // Returns the exit code; what was printed is in `out_` and `err_`.
  int Run(std::vector<std::string> arguments, const std::string& input = "",
          bool terminal = false) {
    arguments.insert(arguments.end(), {"--address", broker_.address(), "--timeout", "10s"});
    return RunPlain(arguments, input, terminal);
  }

  int RunPlain(const std::vector<std::string>& arguments, const std::string& input = "",
               bool terminal = false) {
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    const int code =
        cli::Run(arguments, cli::Streams{in, out, err, terminal, terminal, false, terminal});
    out_ = out.str();
    err_ = err.str();
    return code;
  }

  std::string WriteFile(const std::string& name, const std::string& content) {
    const std::string path = ::testing::TempDir() + name;
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  FakeBroker broker_;
  std::string out_;
  std::string err_;
};

}  // namespace stint::testing

#endif  // STINT_TESTS_UNIT_CLI_FIXTURE_H_
