// The ATen operators that have an expansion into core ops: one row per overload, one table per family.
//
// To add an operator: write its builder in the family's file, add a row to that file's table in alphabetical
// order, and add samples of it to tests/python/test_capture_import.py.
#pragma once
#include <span>
#include <string_view>

#include "core/import/captured_op.h"

namespace tilefuse::aten {

struct OperatorRow {
  std::string_view overload;  // "aten.add.Tensor"
  Outputs (*build)(CapturedOp& op);
};

using OperatorFamily = std::span<const OperatorRow>;

OperatorFamily activation_operators();
OperatorFamily activation_backward_operators();
OperatorFamily comparison_operators();
OperatorFamily creation_operators();
OperatorFamily fake_quantisation_operators();
OperatorFamily indexing_operators();
OperatorFamily joining_operators();
OperatorFamily loss_operators();
OperatorFamily movement_backward_operators();
OperatorFamily normalisation_operators();
OperatorFamily normalisation_backward_operators();
OperatorFamily pointwise_operators();
OperatorFamily pool_operators();
OperatorFamily rearrangement_operators();
OperatorFamily reduction_operators();
OperatorFamily scattering_operators();
OperatorFamily softmax_operators();
OperatorFamily special_function_operators();
OperatorFamily statistics_operators();
OperatorFamily view_operators();

// What decomposition.h knows; import leaves these as Calls.
OperatorFamily attention_operators();
OperatorFamily convolution_operators();
OperatorFamily product_operators();

std::span<const OperatorFamily> operator_families();
const OperatorRow* find_operator(std::string_view overload);  // null: the operator stays a Call

}  // namespace tilefuse::aten
