#include "server/ops/rpc_counts.h"

#include <algorithm>

#include "sync/mutex.h"

namespace stint::ops {
namespace {

struct Names {
  Mutex mutex;
  std::vector<std::string> names ABSL_GUARDED_BY(mutex);
};

Names& TheNames() {
  static auto* const kNames = new Names();
  return *kNames;
}

}  // namespace

size_t RpcCounts::MethodNumber(absl::string_view name) {
  Names& known = TheNames();
  const MutexLock lock(known.mutex);
  const auto at = std::find(known.names.begin(), known.names.end(), name);
  const auto number = static_cast<size_t>(at - known.names.begin());
  if (at != known.names.end()) return number;
  if (number == kMaxMethods) return kMaxMethods - 1;
  known.names.emplace_back(name);
  return number;
}

void RpcCounts::CountCall(size_t method, const absl::Status& status, int64_t took_us) {
  Counts& counts = methods_[method];
  const auto code = static_cast<size_t>(status.code());
  counts.codes[std::min(code, kCodes - 1)].fetch_add(1, std::memory_order_relaxed);
  const runtime::Bounds bounds = runtime::kCallBoundsUs;
  took_us = std::max<int64_t>(took_us, 0);
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), took_us) - bounds.begin();
  counts.took[static_cast<size_t>(bucket)].fetch_add(1, std::memory_order_relaxed);
  counts.took_us.fetch_add(static_cast<uint64_t>(took_us), std::memory_order_relaxed);
  if (status.ok()) return;
  const engine::Reason reason = engine::ReasonOf(status);
  if (reason == engine::Reason::kNone) return;
  refusals_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
}

std::vector<RpcCounts::Method> RpcCounts::Methods() const {
  std::vector<Method> methods;
  Names& known = TheNames();
  const MutexLock lock(known.mutex);
  for (size_t number = 0; number < known.names.size(); ++number) {
    const Counts& counts = methods_[number];
    Method method;
    method.name = known.names[number];
    for (size_t i = 0; i < kCodes; ++i) {
      method.codes[i] = counts.codes[i].load(std::memory_order_relaxed);
    }
    for (size_t i = 0; i < counts.took.size(); ++i) {
      method.took_us.counts[i] = counts.took[i].load(std::memory_order_relaxed);
    }
    method.took_us.sum = static_cast<int64_t>(counts.took_us.load(std::memory_order_relaxed));
    methods.push_back(std::move(method));
  }
  return methods;
}

std::array<uint64_t, engine::kReasons> RpcCounts::Refusals() const {
  std::array<uint64_t, engine::kReasons> refusals = {};
  for (size_t i = 0; i < engine::kReasons; ++i) {
    refusals[i] = refusals_[i].load(std::memory_order_relaxed);
  }
  return refusals;
}

}  // namespace stint::ops
