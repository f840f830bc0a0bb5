// The part of one priority's ready order that is in memory: everything from its start up to
// some place, so that a grant costs the same however long the queue is and however many
// entries were taken before. The rest stays in the store and is scanned in when needed.
#ifndef STINT_SERVER_ENGINE_READY_WINDOW_H_
#define STINT_SERVER_ENGINE_READY_WINDOW_H_

#include <compare>
#include <cstdint>

#include "absl/container/btree_map.h"

namespace stint::engine {

class ReadyWindow {
 public:
  // A place in the order: ready time, then sequence.
  struct Place {
    int64_t ready_ms = 0;
    uint64_t sequence = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  // Place -> whether the job has a state row (false: as enqueued).
  using Entries = absl::btree_map<Place, bool>;

  // A new queue has nothing in the store: the window covers all of it.
  static ReadyWindow Empty() { return ReadyWindow(true); }
  // A queue that was in the store: nothing is covered yet.
  static ReadyWindow Unread() { return ReadyWindow(false); }
  ReadyWindow() = default;

  // A row was added to, or removed from, the index.
  void Insert(Place place, bool has_state);
  void Erase(Place place) { entries_.erase(place); }

  // Everything in the store is covered.
  bool at_tail() const { return at_tail_; }
  const Entries& entries() const { return entries_; }

  // Where to scan on from. After a scan: Insert its rows as Covered, then CoveredTo or
  // CoveredAll.
  Place covered_to() const { return covered_to_; }
  void Covered(Place place, bool has_state) { entries_.insert_or_assign(place, has_state); }
  void CoveredTo(Place place) { covered_to_ = place; }
  void CoveredAll() { at_tail_ = true; }

 private:
  explicit ReadyWindow(bool at_tail) : at_tail_(at_tail) {}

  Entries entries_;
  // Entries before this place are all in `entries_`; unused at the tail.
  Place covered_to_;
  bool at_tail_ = true;
};

}  // namespace stint::engine

#endif  // STINT_SERVER_ENGINE_READY_WINDOW_H_
