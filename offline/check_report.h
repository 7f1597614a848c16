// A report that somebody else wrote, as a fused file holds one: what is printed of it or drawn from it is
// there, has its type, and points at what there is (configs/explain.schema.json).
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tilefuse {

// UserError with `place` and the field that is not as it should be.
nlohmann::json parse_report(std::string_view text, const std::string& place);

}  // namespace tilefuse
