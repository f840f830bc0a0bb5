// Texts of `stint help TOPIC`: what does not belong to one command. A line that begins with two
// blanks and has `stint` in it is an example; tests execute every one of them, those of a topic in
// their order, against an empty broker.
// Thread rule: no state.
#ifndef STINT_CLIENT_CLI_HELP_TOPICS_H_
#define STINT_CLIENT_CLI_HELP_TOPICS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stint::cli {

struct HelpTopic {
  const char* name;
  const char* summary;
  const char* text;
};

const std::vector<HelpTopic>& HelpTopics();

// Null: there is none of that name.
const HelpTopic* FindHelpTopic(absl::string_view name);

// A line for each, name and summary.
std::string DescribeHelpTopics();

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_HELP_TOPICS_H_
