// A bug in a kernel that its test has to find: a piece of text in the place of the right one.
#pragma once
#include <ostream>

namespace tilefuse {

struct Planted {
  const char* name;
  const char* right;
  const char* wrong;
  const char* report;  // of the fault; empty: there is none, and something else tells it
};
inline void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

}  // namespace tilefuse
