// A property that holds for whatever is read, and does not.
#pragma once
#include <stdexcept>
#include <string>

namespace tilefuse::fuzz {

struct Finding : std::logic_error {
  using std::logic_error::logic_error;
};

inline void require(bool holds, const std::string& what) {
  if (!holds) throw Finding(what);
}

}  // namespace tilefuse::fuzz
