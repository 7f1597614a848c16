// The variables of a schedule and their domains, before any rule: everything a user may pin.
#pragma once
#include "fusion/schedule_system.h"

namespace tilefuse {

// Values that a pin asks for and that the default domain of a tile or a split lacks are added to it.
ScheduleSystem make_decision_variables(const TileGraph& graph, const Target& target, const RegionFacts& facts,
                                       const Pins& pins);

// Appends one rule per pin. UserError: an unknown name or value, with the nearest known one.
void add_pins(const Pins& pins, ConstraintSystem& system);

// Text of a pin that is a number a domain lacks joins it.
void add_pinned_number(const std::string& text, std::vector<DecisionValue>& domain);

}  // namespace tilefuse
