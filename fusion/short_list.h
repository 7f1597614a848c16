// What to time besides the solver's choice: what costs little more than it and differs from all that is timed
// already. The cost model is wrong about some decisions more than about others; two schedules that differ in
// nothing that it is wrong about need not both be timed.
//
//   short_list(candidates, 8)  ->  the choice, fewer rows, lanes half as wide, along another axis, ...
#pragma once
#include <vector>

#include "fusion/schedule.h"

namespace tilefuse {

// By what the cost model says; where it says the same, the smaller code first: times its share.
double code_share(const Schedule& schedule);
bool is_cheaper(const Schedule& a, const Schedule& b);

// How far the quotient of what two schedules take may be from that of what they cost: the standard deviation
// of its logarithm. 0 for the same decisions.
double price_doubt(const Schedule& a, const Schedule& b);

// At most `count` of the candidates, the first of them, which is the choice, in front. None twice, and none
// of more lanes than a register of f32 holds, or than the choice has: they are vectors side by side by
// another name.
std::vector<Schedule> short_list(const std::vector<Schedule>& candidates, int register_lanes, size_t count);

}  // namespace tilefuse
