#include "server/engine/ready_window.h"

#include <gtest/gtest.h>

#include <vector>

#include "server/engine/limits.h"

namespace stint::engine {
namespace {

using Place = ReadyWindow::Place;

std::vector<Place> PlacesOf(const ReadyWindow& window) {
  std::vector<Place> places;
  for (const auto& [place, has_state] : window.entries()) places.push_back(place);
  return places;
}

TEST(ReadyWindowTest, ANewQueueIsCoveredAndKeepsItsOrder) {
  ReadyWindow window = ReadyWindow::Empty();
  EXPECT_TRUE(window.at_tail());
  window.Insert({20, 1}, false);
  window.Insert({10, 3}, true);
  window.Insert({10, 2}, false);
  EXPECT_EQ(PlacesOf(window), (std::vector<Place>{{10, 2}, {10, 3}, {20, 1}}));
  EXPECT_TRUE(window.entries().at({10, 3}));
  window.Erase({10, 2});
  EXPECT_EQ(PlacesOf(window), (std::vector<Place>{{10, 3}, {20, 1}}));
}

TEST(ReadyWindowTest, WhatIsBehindTheCoveredPartStaysInTheStore) {
  ReadyWindow window = ReadyWindow::Unread();
  EXPECT_FALSE(window.at_tail());
  window.Insert({5, 5}, false);  // the store has it, and nothing is read yet
  EXPECT_TRUE(window.entries().empty());
  window.Covered({10, 1}, false);
  window.Covered({20, 2}, false);
  window.CoveredTo({20, 3});
  window.Insert({15, 7}, true);  // before the cursor: it lowers what comes next
  window.Insert({20, 3}, true);
  window.Insert({30, 8}, true);
  EXPECT_EQ(PlacesOf(window), (std::vector<Place>{{10, 1}, {15, 7}, {20, 2}}));
  window.CoveredAll();
  window.Insert({30, 8}, true);
  EXPECT_EQ(window.entries().size(), 4u);
}

TEST(ReadyWindowTest, TheWindowIsBoundedAndNothingIsLostByIt) {
  ReadyWindow window = ReadyWindow::Empty();
  for (uint64_t i = 1; i <= 2 * kWindowMax; ++i) window.Insert({100, i}, false);
  EXPECT_EQ(window.entries().size(), kWindowMax);
  EXPECT_FALSE(window.at_tail());
  // Everything before the place it covers up to is in it, and nothing from there on.
  EXPECT_EQ(window.covered_to(), (Place{100, kWindowMax + 1}));
  EXPECT_EQ(window.entries().rbegin()->first, (Place{100, kWindowMax}));
  window.Insert({50, 9'999'999}, false);
  EXPECT_EQ(window.entries().size(), kWindowMax);
  EXPECT_EQ(window.covered_to(), (Place{100, kWindowMax}));
}

}  // namespace
}  // namespace stint::engine
