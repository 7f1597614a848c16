// The operator of one node of a graph's text, from its attributes: the inner half of parse_graph.
//
//   reduce.max(%x) {dims = [1]}        name "reduce.max", the cursor stands before the brace
#pragma once
#include <string>
#include <vector>

#include "core/expr_reader.h"
#include "core/graph.h"

namespace tilefuse {

void check_operator_name(const std::string& name);  // UserError that names the nearest
// `operand_names` are those between the parentheses, without %, which call arguments refer to. Literals are
// not yet in the alternative of their dtype: that stands further right.
Op parse_op(ExprReader& exprs, const std::string& name, const std::vector<std::string>& operand_names);

}  // namespace tilefuse
