// Small interned expressions over the values of a tile graph: what derived reductions are written in.
//
//   Formulas f(graph);
//   f.map(MapFn::Exp, {f.add(f.of(x), f.anchor(0, {row}))})        exp(%x + a0)
//
// Equal expressions have one id; states and anchors of several passes share ids where number and domain
// agree. Arithmetic is meant in the widest float type at hand; conditions are bool.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "fusion/tile_graph.h"

namespace tilefuse {

using FormulaId = Id<struct FormulaTag>;

enum class FormulaOp : uint8_t {
  Value,      // of the tile graph, number `number`
  Constant,   // a float
  Map,        // fn of args
  Indicator,  // 1 where args[0] holds, else 0
  State,      // carried state number `number`
  Anchor,     // anchor number `number`
  Factor,     // by which its move scales what stands under it: exp(new - old), or new / old of a scale
  Delta,      // new - old
};

struct Formula {
  FormulaOp op = FormulaOp::Constant;
  MapFn fn = MapFn::Copy;
  double constant = 0;
  uint32_t number = 0;
  std::vector<FormulaId> args;
  std::vector<AxisId> axes;          // domain, sorted
  std::optional<TileValueId> value;  // of the tile graph that is equal to it, if there is one
};

class Formulas {
 public:
  explicit Formulas(const TileGraph& graph);

  // Float arithmetic, comparisons of floats and logic are looked through, all other operators stay whole.
  FormulaId of(TileValueId value) const { return of_value_[value.index]; }
  FormulaId constant(double value);
  FormulaId map(MapFn fn, std::vector<FormulaId> args);
  FormulaId indicator(FormulaId condition);
  FormulaId state(size_t number, const std::vector<AxisId>& axes);
  FormulaId anchor(size_t number, const std::vector<AxisId>& axes);
  FormulaId factor(size_t number, const std::vector<AxisId>& axes);
  FormulaId delta(size_t number, const std::vector<AxisId>& axes);
  FormulaId add(FormulaId a, FormulaId b);  // without + 0
  FormulaId mul(FormulaId a, FormulaId b);  // without * 1, * 0
  FormulaId sub(FormulaId a, FormulaId b) { return map(MapFn::Sub, {a, b}); }
  FormulaId whole_power(FormulaId base, int power);  // 1, base, or base^power

  const Formula& operator[](FormulaId id) const { return table_[id.index]; }
  bool is_map(FormulaId id, MapFn fn) const;
  bool is_constant(FormulaId id, double value) const;
  std::string to_text(const TileGraph& graph, FormulaId id) const;

 private:
  using Key = std::tuple<FormulaOp, MapFn, uint64_t, uint32_t, std::vector<FormulaId>, std::vector<AxisId>>;
  FormulaId intern(Formula formula);
  FormulaId import(const TileGraph& graph, TileValueId id);

  std::vector<Formula> table_;
  std::map<Key, FormulaId> ids_;
  std::vector<FormulaId> of_value_;
};

}  // namespace tilefuse
