// The rewrites of single nodes that canonicalize() applies until none fires. Each is exact, signed zeros and
// NaNs included.
#pragma once
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "core/graph.h"

namespace tilefuse {

// The node that takes the place of another: its result keeps name, type and strides.
struct Replacement {
  Op op;
  std::vector<ValueId> operands;
};
using Rewrite = std::variant<ValueId, Replacement>;  // a value that is there already, or another node

// The node to be rewritten: its operands are values of `graph`, itself it is not in there.
struct Candidate {
  const Graph& graph;
  const Op& op;
  const std::vector<ValueId>& operands;
  const TensorType& type;  // of its only result
};

struct CanonicalRule {
  std::string_view name;
  std::optional<Rewrite> (*apply)(const Candidate& node);
};

std::span<const CanonicalRule> canonical_rules();

// Scalars as bits: 0.0 is not -0.0, and a NaN equals itself.
bool is_same_scalar(const Scalar& a, const Scalar& b);

}  // namespace tilefuse
