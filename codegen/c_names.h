// Distinct identifiers of C for names that may hold anything.
//
//   CNames names;
//   names.add("layer.weight")   "layer_weight"
//   names.add("layer_weight")   "layer_weight_1"
#pragma once
#include <set>
#include <string>

namespace tilefuse {

// Letters, digits and underscores as they are, anything else as an underscore; never empty, never begins with
// a digit.
std::string c_identifier(const std::string& name);
std::string upper_case(std::string name);

class CNames {
 public:
  std::string add(const std::string& wanted);

 private:
  std::set<std::string> taken_;
};

}  // namespace tilefuse
