// Counts of calls at the edge: how many of which method ended with which code, how long they
// took, and why calls were refused.
//
// How it is used: one object, shared by all services; the one place where calls end calls
// CountCall. A method is named once and is a number from then on. Thread-safe, without locks
// in CountCall.
#ifndef STINT_SERVER_OPS_RPC_COUNTS_H_
#define STINT_SERVER_OPS_RPC_COUNTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/engine/error.h"
#include "server/runtime/histogram.h"

namespace stint::ops {

class RpcCounts {
 public:
  static constexpr size_t kCodes = 17;  // of gRPC, OK included

  // The number of a method such as "EnqueueJob", the same for every object of this class.
  // Takes a lock: ask once. At most kMaxMethods; what comes later shares the last number.
  static size_t MethodNumber(absl::string_view name);

  // A call has ended with `status`, after `took_us` microseconds.
  void CountCall(size_t method, const absl::Status& status, int64_t took_us);

  struct Method {
    std::string name;
    std::array<uint64_t, kCodes> codes = {};
    runtime::Histogram took_us{runtime::kCallBoundsUs};
  };
  // Of methods that were called.
  std::vector<Method> Methods() const;
  // Calls refused with a reason of ours, by engine::Reason.
  std::array<uint64_t, engine::kReasons> Refusals() const;

 private:
  static constexpr size_t kMaxMethods = 64;
  using Count = std::atomic<uint64_t>;
  struct Counts {
    std::array<Count, kCodes> codes = {};
    std::array<Count, runtime::Histogram::kMaxBounds + 1> took = {};
    Count took_us = 0;
  };
  std::array<Counts, kMaxMethods> methods_;
  std::array<Count, engine::kReasons> refusals_ = {};
};

}  // namespace stint::ops

#endif  // STINT_SERVER_OPS_RPC_COUNTS_H_
