// Whether a list has an item: std::ranges::contains, which comes with C++23.
#pragma once
#include <algorithm>
#include <ranges>

namespace tilefuse {

template <std::ranges::input_range Items, class Item>
bool contains(const Items& items, const Item& item) {
  return std::ranges::find(items, item) != std::ranges::end(items);
}

}  // namespace tilefuse
