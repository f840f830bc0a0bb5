// Runs command lines of `stint` in the test's process against a whole broker.
#ifndef STINT_TESTS_UNIT_CLI_LIVE_FIXTURE_H_
#define STINT_TESTS_UNIT_CLI_LIVE_FIXTURE_H_

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/cli.h"
#include "client/cli/exit_code.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"
#include "tests/support/threaded_broker.h"

namespace stint::testing {

struct Ran {
  int code = 0;
  std::string out;
  std::string err;
};

class LiveCliTest : public ::testing::Test {
 protected:
  // From any thread.
  Ran Run(std::vector<std::string> arguments, const std::string& input = "",
          bool terminal = false) const {
    arguments.insert(arguments.end(), {"--address", broker_.address(), "--timeout", "10s"});
    std::istringstream in(input);
    std::ostringstream out;
    std::ostringstream err;
    Ran ran;
    ran.code = cli::Run(arguments, cli::Streams{in, out, err, terminal, terminal, false});
    ran.out = out.str();
    ran.err = err.str();
    return ran;
  }

  std::string WriteFile(const std::string& name, const std::string& content) const {
    test::WriteFile(folder_.File(name), content);
    return folder_.File(name);
  }

  ThreadedBroker broker_;
  test::TempFolder folder_;
};

}  // namespace stint::testing

#endif  // STINT_TESTS_UNIT_CLI_LIVE_FIXTURE_H_
