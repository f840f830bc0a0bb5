#include "client/cli/top_reading.h"

#include <utility>

#include "absl/strings/strip.h"
#include "client/cpp/proto_time.h"

namespace stint::cli {
namespace {

constexpr int kPageSize = 1000;
// More than a screen; stint workers list shows all.
constexpr int kMaxWorkers = 100;

int64_t Ended(const v1::QueueStats& stats) {
  return stats.completed() + stats.cancelled() + stats.dead();
}

int64_t All(const v1::QueueStats& stats) {
  return stats.ready() + stats.delayed() + stats.held() + stats.leased() + Ended(stats);
}

v1::QueueStats StatsOf(const TopReading& reading, const std::string& id) {
  if (id.empty()) return reading.totals;
  const auto found = reading.queues.find(id);
  return found == reading.queues.end() ? v1::QueueStats() : found->second.stats;
}

}  // namespace

absl::StatusOr<TopReading> TakeTopReading(client::Client& client, const client::CallOptions& calls,
                                          const std::string& prefix) {
  TopReading reading;
  auto server = client.GetServerInfo(calls);
  if (!server.ok()) return server.status();
  reading.server = *std::move(server);
  v1::ListQueuesRequest request;
  request.set_prefix(prefix);
  request.set_page_size(kPageSize);
  request.set_with_stats(true);
  do {
    const auto page = client.ListQueues(request, calls);
    if (!page.ok()) return page.status();
    for (int i = 0; i < page->queues_size() && i < page->stats_size(); ++i) {
      const std::string id(absl::StripPrefix(page->queues(i).name(), "queues/"));
      reading.queues[id] = {page->queues(i), page->stats(i)};
      AddTo(page->stats(i), &reading.totals);
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  v1::ListWorkersRequest ask_workers;
  ask_workers.set_page_size(kMaxWorkers);
  auto workers = client.ListWorkers(ask_workers, calls);
  if (!workers.ok()) return workers.status();
  reading.workers = *std::move(workers);
  return reading;
}

std::optional<Rates> RatesOf(const TopReading* before, const TopReading& now,
                             const std::string& id) {
  if (before == nullptr) return std::nullopt;
  const int64_t elapsed_ms = now.server.broker_time_ms() - before->server.broker_time_ms();
  if (elapsed_ms <= 0) return std::nullopt;
  const v1::QueueStats earlier = StatsOf(*before, id);
  const v1::QueueStats later = StatsOf(now, id);
  const double seconds = static_cast<double>(elapsed_ms) / 1000;
  return Rates{static_cast<double>(All(later) - All(earlier)) / seconds,
               static_cast<double>(Ended(later) - Ended(earlier)) / seconds};
}

void AddTo(const v1::QueueStats& stats, v1::QueueStats* totals) {
  totals->set_ready(totals->ready() + stats.ready());
  totals->set_delayed(totals->delayed() + stats.delayed());
  totals->set_held(totals->held() + stats.held());
  totals->set_leased(totals->leased() + stats.leased());
  totals->set_completed(totals->completed() + stats.completed());
  totals->set_cancelled(totals->cancelled() + stats.cancelled());
  totals->set_dead(totals->dead() + stats.dead());
  totals->set_live_bytes(totals->live_bytes() + stats.live_bytes());
  totals->set_ended_bytes(totals->ended_bytes() + stats.ended_bytes());
  if (stats.has_oldest_ready_age() &&
      (!totals->has_oldest_ready_age() ||
       client::ToAbsl(stats.oldest_ready_age()) > client::ToAbsl(totals->oldest_ready_age()))) {
    *totals->mutable_oldest_ready_age() = stats.oldest_ready_age();
  }
}

}  // namespace stint::cli
