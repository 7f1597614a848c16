// Cascades of reductions over one axis, in the notation of formula_cases.h: those that one pass computes, and
// those of which one reduction has to wait for the next pass, with the reason.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "fusion/online_reductions.h"

namespace tilefuse {

struct DerivedCase {
  std::string name, text;
};
const std::vector<DerivedCase>& derived_cases();

struct RefusedCase {
  std::string name, text;
  std::map<std::string, OnlineRefusalReason> reasons;  // by reduction
};
const std::vector<RefusedCase>& refused_cases();

}  // namespace tilefuse
