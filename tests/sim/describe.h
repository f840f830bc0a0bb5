// Calls and answers as lines of a trace, and whether two answers are the same, as a caller
// would compare them: an answer that is repeated leaves out payload and headers.
#ifndef STINT_TESTS_SIM_DESCRIBE_H_
#define STINT_TESTS_SIM_DESCRIBE_H_

#include <string>

#include "server/engine/command.h"
#include "server/engine/outcome.h"

namespace stint::sim {

bool SameAnswer(const engine::Outcome& a, const engine::Outcome& b);
std::string DescribeCommand(const engine::Command& command);
// One line that says all of an answer that callers can see.
std::string DescribeAnswer(const engine::Outcome& outcome);

}  // namespace stint::sim

#endif  // STINT_TESTS_SIM_DESCRIBE_H_
