// JSON that somebody else wrote, as a document: text that is none, or that nests deeper than any graph does,
// is a UserError and not a stack that overflows.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tilefuse {

// `what` starts the message: "captured graph", "model.pt2: entry models/model.json".
nlohmann::json parse_document(std::string_view text, const std::string& what);

}  // namespace tilefuse
