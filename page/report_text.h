// A report of explain as text, for a terminal and for `print(report)`.
//
//   inference graph
//     region native_layer_norm_gelu
//       ops        aten.native_layer_norm.default, aten.gelu.default
//       predicted  0.9 us, 0.005 MB moved
//       schedule ...
//     1 edge not fused
//       OpaqueConsumer: cannot fuse: aten::sort runs with the framework
//         %x -> %y
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace tilefuse {

// `report`: configs/explain.schema.json.
std::string report_text(const nlohmann::json& report);
// The generated source of a region. UserError: there is none of that name.
std::string source_of(const nlohmann::json& report, const std::string& region);

}  // namespace tilefuse
