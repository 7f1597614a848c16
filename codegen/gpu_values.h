// Values of a GPU kernel under construction, whatever its threads do: maps, loads, addresses, what is
// computed in which block, and under which name. lower_to_gpu_kernel and lower_to_gpu_product derive from it.
//
// A value is computed when it is first asked for, in the outermost open block that knows the axes it varies
// along: the block of the current element where it varies along the inner axis, the block of an outer axis
// that a loop of the kernel walks, else the function's.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/kernel_ir.h"
#include "codegen/scope_stack.h"
#include "core/expr_terms.h"
#include "fusion/gpu_access.h"
#include "fusion/wanted_accuracy.h"

namespace tilefuse {

// Of threads, blocks and coordinates by literal numbers; folded where there is nothing to compute.
Code divided(Code a, int64_t by);
Code rest_of(Code a, int64_t by);
Code times(Code a, int64_t by);

// The elements that a thread takes at once.
struct GpuLanes {
  AxisId inner;    // whose coordinate changes from element to element of a thread
  int vector = 1;  // neighbours at a time, along the axis of the accesses
};

class GpuValues {
 public:
  GpuValues(const GpuValues&) = delete;
  GpuValues& operator=(const GpuValues&) = delete;

 protected:
  GpuValues(const TileGraph& graph, const GpuAccesses& accesses, GpuLanes lanes, bool fits_int, int threads);
  virtual ~GpuValues() = default;

  // What a kernel has of a value without computing it, and what it does with one that was computed.
  virtual std::optional<Computed> held(TileValueId) { return std::nullopt; }
  virtual void hold(TileValueId, Computed&) {}
  virtual Computed load(TileValueId id, const TileLoad& load);

  void declare_arguments();
  Computed value(TileValueId id);
  Computed splat(TileValueId id, const Computed& scalar);
  Code index_code(const Expr& e);
  Code condition(const std::vector<Expr>& guards);
  std::vector<Expr> open_guards(const std::vector<Expr>& guard) const;  // those that may be negative
  Code column();
  void emit_store(const TileStore& store);
  void emit_store(const TileStore& store, Computed stored);
  Code pointer_at(BufferId buffer, const Expr& offset);
  void in_condition(const std::vector<Code>& conditions, const std::function<void()>& body);

  int depth_of(const std::vector<AxisId>& axes) const;
  std::string name_of(TileValueId id) const;
  CodeType type_of(TileValueId id, bool is_vector) const;
  Code let(const std::string& name, CodeType type, Code value) {
    return scopes_.let(let_depth_, name, type, std::move(value));
  }

  const TileGraph& graph_;
  const GpuAccesses* accesses_;
  GpuLanes lanes_;  // a kernel of several parts may set both anew
  Kernel kernel_;
  ScopeStack scopes_;
  CodeType index_type_;
  std::vector<Expr> extents_;
  std::vector<std::string> symbols_;
  std::map<std::string, Code> sizes_;   // by symbol
  std::vector<Code> pointers_;          // by BufferId
  std::map<AxisId, Code> coordinates_;  // of the axes other than the inner one
  std::map<AxisId, int> depths_;        // of those that a loop of the kernel walks: of the block inside
  int let_depth_ = 0;                   // of what `let` names
  Code column_;                         // of the current element; it has a name once it is asked for
  int column_depth_ = 0;

 private:
  Computed compute(TileValueId id);
  Computed compute_map(TileValueId id, MapFn fn);
  Computed compute_where(TileValueId id);
  Computed predicate(const TilePredicate& predicate);
  Code checked_index(const IndexTerm& term);
  Code atom_code(const Expr::Atom& atom);

  std::vector<WantedAccuracy> wanted_;  // by TileValueId
};

}  // namespace tilefuse
