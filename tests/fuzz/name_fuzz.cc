// Names of jobs: what is accepted is exactly what the broker itself would write.
#include "server/api/names.h"
#include "storage/job_id.h"
#include "tests/fuzz/fuzz_input.h"

using stint::test::Require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view name = stint::test::Input(data, size).Rest();
  if (const auto job = stint::api::ParseJobName(name)) {
    Require(stint::api::IsValidId(job->queue), "the queue of a job's name is an id");
    Require(stint::api::IsValidId(job->job_id), "the job of a job's name is an id");
    Require(stint::api::JobName(job->queue, job->job_id) == name, "a job has one name");
  }
  if (stint::api::IsValidId(name)) {
    const auto job = stint::api::ParseJobName(stint::api::JobName(name, name));
    Require(job && job->queue == name && job->job_id == name, "every id stands in a name");
  }
  if (const auto sequence = stint::storage::SequenceOfJobId(name)) {
    Require(stint::storage::MakeJobId(*sequence) == name, "a sequence has one id");
    Require(stint::api::IsValidId(name), "the broker's ids keep its rule");
  }
  return 0;
}
