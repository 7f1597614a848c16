// What to time besides the solver's choice. The cost model is wrong about some decisions more often than
// about others; so behind the choice come schedules that decide one of those otherwise, and behind them the
// best that decide anything else otherwise.
//
//   short_list(ranked, others, 8)  ->  the choice, one row at a time, lanes half as wide, online, ...
#pragma once
#include <map>
#include <vector>

#include "fusion/schedule.h"
#include "fusion/schedule_preferences.h"

namespace tilefuse {

// By what the cost model says; where it says the same, the smaller code first: times its share.
double code_share(const Schedule& schedule);
bool is_cheaper(const Schedule& a, const Schedule& b);

// Of the schedules that decide something otherwise, by concern, each in order of cost: at most `count`, the
// first of `ranked` in front. None twice.
std::vector<Schedule> short_list(const std::vector<Schedule>& ranked,
                                 const std::map<Concern, std::vector<Schedule>>& others, size_t count);

}  // namespace tilefuse
