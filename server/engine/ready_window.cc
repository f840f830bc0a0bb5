#include "server/engine/ready_window.h"

#include <iterator>

#include "server/engine/limits.h"

namespace stint::engine {

void ReadyWindow::Insert(Place place, bool has_state) {
  if (!at_tail_ && place >= covered_to_) return;
  entries_.insert_or_assign(place, has_state);
  if (entries_.size() <= kWindowMax) return;
  const auto last = std::prev(entries_.end());
  covered_to_ = last->first;
  at_tail_ = false;
  entries_.erase(last);
}

}  // namespace stint::engine
