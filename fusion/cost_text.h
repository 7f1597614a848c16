// A cost and its terms in the text form of schedules: "41.2 us = compute 39 + cache 12.4 - overlap 11.8".
#pragma once
#include <string>
#include <vector>

#include "fusion/schedule.h"

namespace tilefuse {

std::string cost_text(double cost_us, const std::vector<CostTerm>& terms);

}  // namespace tilefuse
