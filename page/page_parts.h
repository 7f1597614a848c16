// What the page of explain is made of, as texts: the files of this folder and two libraries, dagre (layout)
// and D3 (drawing), that the build found installed.
#pragma once
#include <string_view>

namespace tilefuse {

struct PageParts {
  std::string_view skeleton;  // page.html: {{name}} where a part goes
  std::string_view style;
  std::string_view dagre, layout;  // one script, which a worker runs
  std::string_view d3, script;
  std::string_view licences;  // of the libraries
  std::string_view missing;   // what the build did not find; empty: nothing
};

const PageParts& page_parts();

}  // namespace tilefuse
