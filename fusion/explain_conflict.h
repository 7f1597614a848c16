// Why a constraint system has no solution: the smallest set of rules that clash, in one sentence.
//
//   no schedule of scan_0 on x86-zen4: %c is a scan along col, which cannot be the lane axis; pinned:
//   lane_axis = col
#pragma once
#include "fusion/constraints.h"

namespace tilefuse {

// Requires: the limits and pins of the system clash. Preferences are left out: they never explain anything.
std::string explain_conflict(const ConstraintSystem& system);

// The rules (positions in system.constraints) of a smallest clash; up to three rules it is the smallest there
// is, beyond that one that loses its clash when any of its rules is dropped.
std::vector<size_t> smallest_clash(const ConstraintSystem& system);

}  // namespace tilefuse
