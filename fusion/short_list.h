// What to time besides the solver's choice. The cost model is wrong about some decisions more often than
// about others; so behind the choice come schedules that decide one of those otherwise, and behind them the
// best that decide anything else otherwise.
//
//   short_list(candidates, 8)  ->  the choice, lanes half as wide, more rows, one row at a time, ...
#pragma once
#include <map>
#include <vector>

#include "fusion/schedule.h"
#include "fusion/schedule_preferences.h"

namespace tilefuse {

// By what the cost model says; where it says the same, the smaller code first: times its share.
double code_share(const Schedule& schedule);
bool is_cheaper(const Schedule& a, const Schedule& b);

// What there is to choose from, each in order of cost.
struct Candidates {
  std::vector<Schedule> ranked;                        // the choice, and what the search found beside it
  std::map<Concern, std::vector<Schedule>> otherwise;  // one decision of the choice is another
  std::vector<Schedule> two_otherwise;
};

// At most `count`, the choice in front. None twice.
std::vector<Schedule> short_list(const Candidates& candidates, size_t count);

}  // namespace tilefuse
