#include "client/cli/exit_code.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "client/cpp/status.h"

namespace stint::cli {

const char kExitCodesHelp[] =
    R"(Exit codes of stint:
  0  done
  1  the broker refused the call (the reason is printed), a worker met a refusal, or the output
     could not be written
  2  the command line is wrong, or a file it names cannot be read
  3  no broker answered within --timeout, or it is starting or stopping: try again
  4  there is no such job or queue; lease: no job came
  5  the lease is lost, or the state of the job or queue does not allow the call
  6  jobs wait: the job ended, but not as COMPLETED
  7  jobs wait: the job has not ended in the time given
)";

ExitCode ExitCodeFor(const absl::Status& status) {
  if (status.ok()) return kOk;
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return kNotFound;
    case absl::StatusCode::kFailedPrecondition:  // LEASE_LOST, WRONG_STATE, QUEUE_DRAINING
    case absl::StatusCode::kAborted:             // ETAG_MISMATCH
      return kWrongState;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kCancelled:  // the broker went away: what became of the call is open
      return kUnreachable;
    default:
      return kRefused;
  }
}

std::string AdviceFor(const absl::Status& status, const std::string& address) {
  static const std::map<std::string, std::string> kAdvice = {
      {"INVALID_REQUEST", "correct the fields above and try again"},
      {"REQUEST_ID_REUSED",
       "use another --request-id: this one belongs to a call with other "
       "content"},
      {"QUEUE_NOT_FOUND", "see what queues there are: stint queues list"},
      {"JOB_NOT_FOUND",
       "see the jobs of a queue: stint jobs list QUEUE; ended jobs are kept for "
       "a limited time"},
      {"JOB_EXISTS",
       "the job is there already; look at it with stint jobs get, or use another "
       "--id"},
      {"QUEUE_EXISTS", "change it instead: stint queues update QUEUE"},
      {"LEASE_LOST",
       "stop working on the job; somebody else has it or it has ended: "
       "stint jobs get JOB"},
      {"WRONG_STATE", "look at its state first: stint jobs get JOB, or stint queues get QUEUE"},
      {"QUEUE_DRAINING", "let it take jobs again: stint queues update QUEUE --draining=false"},
      {"OVERLOADED", "the broker has more work than it takes; try again later or more slowly"},
      {"QUEUE_FULL", "add workers, or raise the limit: stint queues update QUEUE --max-jobs N"},
      {"STORE_LOW_SPACE", "free disk space on the broker's volume; workers can go on meanwhile"},
      {"STARTING", "the broker is not ready yet; try again in a moment"},
      {"DRAINING", "the broker is stopping; try again when it is back"},
      {"STORE_FAILED",
       "the outcome is unknown; repeat with the same --request-id when the broker "
       "is back"},
      {"STORE_RECOVERING",
       "the outcome is unknown; repeat with the same --request-id in a "
       "moment"},
      {"UNAUTHENTICATED",
       "give a credential that this broker knows: --token-file FILE (or STINT_TOKEN_FILE), or "
       "--tls-cert and --tls-key"},
      {"FORBIDDEN", "use a credential that allows this call"},
      {"CORRUPT_RECORD", "the stored record is damaged; see the broker's log"},
      {"QUOTA", "delete queues that are not used: stint queues delete QUEUE"},
      {"ETAG_MISMATCH", "somebody else changed it; read it again and repeat the change"},
  };
  const std::string reason = client::ErrorReason(status);
  const auto found = kAdvice.find(reason);
  if (found != kAdvice.end()) return found->second;
  if (!reason.empty()) return std::string();
  if (ExitCodeFor(status) == kUnreachable) {
    return absl::StrCat("is a broker running at ", address,
                        "? Start stintd, or say where it is with --address or STINT_ADDRESS");
  }
  if (absl::IsUnimplemented(status)) {
    return absl::StrCat("is the program at ", address, " a Stint broker of this version?");
  }
  return std::string();
}

}  // namespace stint::cli
