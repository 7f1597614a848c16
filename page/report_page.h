// A report of explain as one HTML file that needs nothing else: the graph as a picture, laid out by dagre and
// drawn with D3, and beside it what the report says of the region, edge or node that is clicked.
//
//   std::string html = report_page(report_json, "model.pt2");
//
// The report is data in the page: no name or source line in it can become markup or code. The page asks the
// network for nothing, and its own policy forbids it to.
#pragma once
#include <string>
#include <string_view>

namespace tilefuse {

// `report_json`: configs/explain.schema.json. UserError where TileFuse was built without the libraries.
std::string report_page(std::string_view report_json, std::string_view title);

}  // namespace tilefuse
