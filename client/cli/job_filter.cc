#include "client/cli/job_filter.h"

namespace stint::cli {

void AddMatchFlags(CLI::App* command, FilterOptions* options) {
  command
      ->add_option("--state", options->states,
                   "delayed, held, ready, leased, completed, cancelled or dead; may be "
                   "repeated")
      ->allow_extra_args(false);
  options->kind_option = command->add_option("--kind", options->kind, "Only this kind");
  command->add_option("--label", options->labels, "KEY=VALUE; may be repeated: all must match")
      ->allow_extra_args(false);
}

void AddFilterFlags(CLI::App* command, FilterOptions* options) {
  AddMatchFlags(command, options);
  command->add_option("--created-after", options->created_after, "RFC 3339, inclusive");
  command->add_option("--created-before", options->created_before, "RFC 3339, exclusive");
}

}  // namespace stint::cli
