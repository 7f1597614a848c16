// Copies a graph node by node into a builder, for rewrites that put something else in the place of some
// nodes.
//
//   GraphCopier copier(graph);                       // with its inputs
//   for each node that is no input:  copier.copy(id);  or  copier.stand_for(id, {what the rewrite made});
//   Graph result = copier.finish();                  // with outputs and mutations, verified
#pragma once
#include <vector>

#include "core/graph.h"

namespace tilefuse {

// An operator's result that nothing reads may be a second mention of another one.
bool is_mentioned_before(const std::vector<ValueId>& results, size_t i);

class GraphCopier {
 public:
  explicit GraphCopier(const Graph& graph);

  GraphBuilder& builder() { return builder_; }
  const Graph& copied() const { return builder_.graph(); }
  ValueId copy_of(ValueId value) const { return copy_of_[value]; }
  std::vector<ValueId> operands(NodeId node) const;  // the copies of its operands

  void set_source_of(NodeId node);  // nodes added from now on stand where it does
  void copy(NodeId node);
  // These are its results from now on, under its names and strides.
  void stand_for(NodeId node, const std::vector<ValueId>& results);
  Graph finish();

 private:
  void copy_inputs();

  const Graph& graph_;
  GraphBuilder builder_;
  IdMap<ValueId, ValueId> copy_of_;
};

}  // namespace tilefuse
