#include "core/import/operator_table.h"

#include <algorithm>
#include <vector>

namespace tilefuse::aten {

std::span<const OperatorFamily> operator_families() {
  static const std::vector<OperatorFamily> families = {
      activation_operators(),
      activation_backward_operators(),
      comparison_operators(),
      creation_operators(),
      fake_quantisation_operators(),
      indexing_operators(),
      joining_operators(),
      loss_operators(),
      movement_backward_operators(),
      normalisation_operators(),
      normalisation_backward_operators(),
      pointwise_operators(),
      pool_operators(),
      rearrangement_operators(),
      reduction_operators(),
      scattering_operators(),
      softmax_operators(),
      special_function_operators(),
      statistics_operators(),
      view_operators(),
  };
  return families;
}

const OperatorRow* find_operator(std::string_view overload) {
  for (const OperatorFamily& family : operator_families()) {
    const auto row = std::lower_bound(
        family.begin(), family.end(), overload,
        [](const OperatorRow& candidate, std::string_view wanted) { return candidate.overload < wanted; });
    if (row != family.end() && row->overload == overload) return &*row;
  }
  return nullptr;
}

}  // namespace tilefuse::aten
