#include "fusion/wanted_accuracy.h"

#include <algorithm>
#include <cmath>

namespace tilefuse {
namespace {

constexpr double kLikeOne = 0.5;  // beside which errors of 2^-24 are those of rounding

bool is_16_bit_float(DType dtype) { return is_narrow_float(dtype) && size_in_bytes(dtype) == 2; }

// A result has about the relative error of the operand.
bool keeps_relative_error(MapFn fn) {
  switch (fn) {
    case MapFn::Copy:
    case MapFn::Mul:
    case MapFn::Div:
    case MapFn::Max:
    case MapFn::Min:
    case MapFn::Neg:
    case MapFn::Abs:
    case MapFn::Reciprocal:
    case MapFn::Sqrt:
    case MapFn::Rsqrt:
    case MapFn::Where:
      return true;
    default:
      return false;
  }
}

// A small change of the operand is a small one of the result. Of 16-bit values, whose roundings change them
// more.
bool is_continuous(MapFn fn) {
  switch (fn) {
    case MapFn::Add:
    case MapFn::Sub:
    case MapFn::Fma:
    case MapFn::Square:
    case MapFn::Exp:
    case MapFn::ExpNonpositive:
    case MapFn::Exp2:
    case MapFn::Log:
    case MapFn::Tanh:
    case MapFn::Erf:
    case MapFn::Sigmoid:
      return true;
    default:
      return keeps_relative_error(fn);
  }
}

class Accuracies {
 public:
  explicit Accuracies(const TileGraph& graph)
      : graph_(graph),
        narrow_(graph.values.size(), true),
        absolute_(graph.values.size(), true),
        is_nonnegative_(graph.values.size(), false) {}

  std::vector<WantedAccuracy> run() {
    for (size_t v = 0; v < graph_.values.size(); ++v) is_nonnegative_[v] = is_nonnegative(graph_.values[v]);
    for (const TileStore& store : graph_.stores) {
      narrow_[store.value.index] = narrow_[store.value.index] && is_16_bit_float(graph_[store.buffer].dtype);
      absolute_[store.value.index] = false;
    }
    for (size_t v = graph_.values.size(); v-- > 0;) look_at_operands(graph_.values[v], narrow_[v]);
    std::vector<WantedAccuracy> wanted;
    wanted.reserve(graph_.values.size());
    for (size_t v = 0; v < graph_.values.size(); ++v) {
      wanted.push_back(narrow_[v]     ? WantedAccuracy::Narrow
                       : absolute_[v] ? WantedAccuracy::Absolute
                                      : WantedAccuracy::Full);
    }
    return wanted;
  }

 private:
  bool is_nonnegative(const TileValue& v) const {
    const auto* map = std::get_if<TileMap>(&v.op);
    if (map == nullptr) return false;
    switch (map->fn) {
      case MapFn::Exp:
      case MapFn::ExpNonpositive:
      case MapFn::Exp2:
      case MapFn::Sigmoid:
      case MapFn::Abs:
      case MapFn::Square:
      case MapFn::Sqrt:
        return true;
      case MapFn::Copy:
      case MapFn::Cast:
        return is_nonnegative_[v.operands[0].index];
      case MapFn::Mul:
        return is_nonnegative_[v.operands[0].index] && is_nonnegative_[v.operands[1].index];
      default:
        return false;
    }
  }

  bool is_number_like_one(TileValueId id) const {
    const auto* constant = std::get_if<TileConstant>(&graph_[id].op);
    return constant != nullptr && std::abs(to_double(constant->value)) >= kLikeOne;
  }

  // Of operand `i` of a value of which `is_narrow` tells whether it may be short of bits.
  bool may_be_narrow(const TileValue& v, size_t i, bool is_narrow) const {
    const TileValueId id = v.operands[i];
    const bool is_coarse = is_16_bit_float(graph_[id].dtype);
    if (const auto* reduce = std::get_if<TileReduce>(&v.op)) {
      const bool keeps = reduce->kind == ReduceKind::Max || reduce->kind == ReduceKind::Min ||
                         (reduce->kind == ReduceKind::Sum && (is_coarse || is_nonnegative_[id.index]));
      return is_narrow && keeps;
    }
    const auto* map = std::get_if<TileMap>(&v.op);
    if (map == nullptr) return false;
    if (map->fn == MapFn::Cast && is_16_bit_float(v.dtype)) return true;  // where it is rounded
    if (map->fn == MapFn::Cast) return is_narrow && v.dtype == DType::F32;
    if (map->fn == MapFn::Where && i == 0) return false;
    return is_narrow && (keeps_relative_error(map->fn) || (is_coarse && is_continuous(map->fn)));
  }

  void look_at_operands(const TileValue& v, bool is_narrow) {
    const auto* map = std::get_if<TileMap>(&v.op);
    const bool is_sum =
        map != nullptr && (map->fn == MapFn::Add || map->fn == MapFn::Sub) && v.dtype == DType::F32;
    for (size_t i = 0; i < v.operands.size(); ++i) {
      const uint32_t operand = v.operands[i].index;
      narrow_[operand] = narrow_[operand] && may_be_narrow(v, i, is_narrow);
      absolute_[operand] = absolute_[operand] && is_sum && is_number_like_one(v.operands[1 - i]);
    }
  }

  const TileGraph& graph_;
  std::vector<bool> narrow_, absolute_, is_nonnegative_;
};

}  // namespace

std::vector<WantedAccuracy> wanted_accuracies(const TileGraph& graph) { return Accuracies(graph).run(); }

}  // namespace tilefuse
