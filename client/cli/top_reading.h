// What `stint top` shows: the figures of every queue and the workers at one moment, and rates from
// two of them.
// Thread rule: no state.
#ifndef STINT_CLIENT_CLI_TOP_READING_H_
#define STINT_CLIENT_CLI_TOP_READING_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "stint/v1/admin_service.pb.h"
#include "stint/v1/queue.pb.h"

namespace stint::cli {

struct QueueReading {
  v1::Queue queue;
  v1::QueueStats stats;
};

struct TopReading {
  v1::GetServerInfoResponse server;
  std::map<std::string, QueueReading> queues;  // by id
  v1::QueueStats totals;
  v1::ListWorkersResponse workers;  // one page, with a token when there are more
};

// Per second, by the broker's own clock. The broker keeps depths and no counters, so that a record
// which was removed (retention, delete, purge) counts against both.
struct Rates {
  double entered = 0;  // jobs that appeared
  double ended = 0;    // jobs that became completed, cancelled or dead
};

absl::StatusOr<TopReading> TakeTopReading(client::Client& client, const client::CallOptions& calls,
                                          const std::string& prefix);

// Of the queue `id`, or of all with an empty one. Nothing without a reading before it, or when no
// time has passed.
std::optional<Rates> RatesOf(const TopReading* before, const TopReading& now,
                             const std::string& id);

// Adds what is a number; the oldest age is the older one.
void AddTo(const v1::QueueStats& stats, v1::QueueStats* totals);

}  // namespace stint::cli

#endif  // STINT_CLIENT_CLI_TOP_READING_H_
