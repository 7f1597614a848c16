#include <algorithm>
#include <map>
#include <set>

#include "core/match.h"
#include "core/result.h"
#include "fusion/tile_graph_text.h"

namespace tilefuse {
namespace {

class Verifier {
 public:
  explicit Verifier(const TileGraph& graph) : graph_(graph) {}

  bool run() {
    check_tables();
    for (uint32_t i = 0; i < graph_.values.size(); ++i) {
      value_ = TileValueId{i};
      check_value(graph_.values[i]);
    }
    value_.reset();
    for (size_t i = 0; i < graph_.stores.size(); ++i) check_store(i);
    return value_findings_.empty() && store_findings_.empty() && general_.empty();
  }

  std::string report() const {
    std::string text;
    for (const TileGraphLine& line : text_lines(graph_)) {
      text += line.text + "\n";
      auto annotate = [&](const std::vector<std::string>& findings) {
        for (const std::string& finding : findings) text += "    ^ " + finding + "\n";
      };
      if (line.value && value_findings_.contains(*line.value)) annotate(value_findings_.at(*line.value));
      if (line.store && store_findings_.contains(*line.store)) annotate(store_findings_.at(*line.store));
    }
    for (const std::string& finding : general_) text += finding + "\n";
    return text;
  }

 private:
  void check_tables() {
    std::set<std::string> names;
    for (const Axis& axis : graph_.axes) {
      if (!names.insert(axis.name).second) general_.push_back("two axes are called " + axis.name);
      if (!indices_of(axis.extent).empty())
        general_.push_back("the extent of " + axis.name + " holds an axis");
    }
    bool outputs_began = false;
    for (const Buffer& buffer : graph_.buffers) {
      if (buffer.shape.size() != buffer.strides.size()) {
        general_.push_back("buffer %" + buffer.name + " has " + std::to_string(buffer.shape.size()) +
                           " dimensions and " + std::to_string(buffer.strides.size()) + " strides");
      }
      for (const std::vector<Expr>* sizes : {&buffer.shape, &buffer.strides}) {
        const bool is_known = std::all_of(sizes->begin(), sizes->end(),
                                          [](const Expr& size) { return indices_of(size).empty(); });
        if (!is_known) general_.push_back("a size or stride of buffer %" + buffer.name + " holds an axis");
      }
      outputs_began = outputs_began || buffer.role == Buffer::Role::Output;
      if (outputs_began && buffer.role == Buffer::Role::Input) {
        general_.push_back("input %" + buffer.name + " stands behind an output");
      }
    }
  }

  void find(const std::string& message) { value_findings_[*value_].push_back(message); }

  void check_value(const TileValue& value) {
    if (!names_.insert(value.name).second) find("another value has this name");
    if (is_opaque(value.dtype)) find("nothing is computed in " + std::string(info(value.dtype).name));
    bool in_order = true;
    for (const TileValueId operand : operands_of(value)) in_order = in_order && operand < *value_;
    if (!in_order) {
      find("an operand does not stand before it");
      return;
    }
    std::set<AxisId> domain;
    for (const TileValueId operand : operands_of(value)) {
      domain.insert(graph_[operand].axes.begin(), graph_[operand].axes.end());
    }
    match(
        value.op, [&](const TileLoad& load) { check_load(value, load, domain); }, [](const TileConstant&) {},
        [&](const TileIndex& index) { add_axes(index.expr, domain); },
        [&](const TilePredicate& predicate) {
          if (value.dtype != DType::Bool) find("a predicate is bool");
          for (const Expr& guard : predicate.guard) add_axes(guard, domain);
        },
        [&](const TileMap& map) { check_arity(value, static_cast<size_t>(info(map.fn).arity)); },
        [&](const TileReduce& reduce) { check_reduce(value, reduce, domain); },
        [&](const TileScan& scan) {
          check_arity(value, 1);
          domain.insert(scan.axis);
        },
        [&](const TileCarry&) { domain.insert(value.axes.begin(), value.axes.end()); });
    check_domain(value, domain);
  }

  void check_domain(const TileValue& value, const std::set<AxisId>& domain) {
    const std::vector<AxisId> wanted(domain.begin(), domain.end());
    if (!wanted.empty() && wanted.back().index >= graph_.axes.size()) {
      find("it reads axis " + std::to_string(wanted.back().index) + " of " +
           std::to_string(graph_.axes.size()));
    } else if (value.axes != wanted) {
      find("its domain should be [" + axes_text(wanted) + "]");
    }
  }

  void check_load(const TileValue& value, const TileLoad& load, std::set<AxisId>& domain) {
    add_axes(load.offset, domain);
    for (const Expr& guard : load.guard) add_axes(guard, domain);
    if (load.buffer.index >= graph_.buffers.size()) {
      find("it reads a buffer that does not exist");
      return;
    }
    const Buffer& buffer = graph_[load.buffer];
    if (buffer.role == Buffer::Role::Output) find("it reads an output");
    if (buffer.dtype != value.dtype) find("its buffer holds " + std::string(info(buffer.dtype).name));
    for (const IndexTerm& term : load.gathered) {
      if (is_float(graph_[term.value].dtype)) find("%" + graph_[term.value].name + " is no integer");
    }
  }

  void check_reduce(const TileValue& value, const TileReduce& reduce, std::set<AxisId>& domain) {
    check_arity(value, 1);
    if (!std::is_sorted(reduce.axes.begin(), reduce.axes.end())) find("its axes are not sorted");
    for (const AxisId axis : reduce.axes) {
      if (axis.index >= graph_.axes.size()) find("it reduces an axis that does not exist");
      domain.erase(axis);
    }
    if (info(reduce.kind).is_index && value.dtype != DType::I64) find("a position is i64");
  }

  void check_arity(const TileValue& value, size_t arity) {
    if (value.operands.size() == arity) return;
    find("it takes " + std::to_string(arity) + " operands, not " + std::to_string(value.operands.size()));
  }

  void check_store(size_t number) {
    const TileStore& store = graph_.stores[number];
    std::vector<std::string> findings;
    if (store.buffer.index >= graph_.buffers.size() || store.value.index >= graph_.values.size()) {
      store_findings_[number].push_back("its buffer or its value does not exist");
      return;
    }
    if (graph_[store.buffer].role == Buffer::Role::Input) findings.push_back("it writes an input");
    if (graph_[store.buffer].dtype != graph_[store.value].dtype) {
      findings.push_back("its value is " + std::string(info(graph_[store.value].dtype).name));
    }
    for (const AxisId axis : graph_[store.value].axes) {
      if (is_walked(store, axis)) continue;
      findings.push_back("its value varies along " + graph_[axis].name + ", the place does not");
    }
    std::set<AxisId> walked;
    add_axes(store.offset, walked);
    if (!walked.empty() && walked.rbegin()->index >= graph_.axes.size()) {
      findings.emplace_back("its place varies along an axis that does not exist");
    }
    if (store.scatter) check_scatter(store, findings);
    if (!findings.empty()) store_findings_[number] = std::move(findings);
  }

  void check_scatter(const TileStore& store, std::vector<std::string>& findings) const {
    std::set<AxisId> over(store.scatter->over.begin(), store.scatter->over.end()), wanted;
    if (over.size() != store.scatter->over.size()) findings.emplace_back("it is over an axis twice");
    add_axes(store.offset, wanted);
    for (const IndexTerm& term : store.scatter->at) {
      if (term.value.index >= graph_.values.size()) {
        findings.emplace_back("one of its indices does not exist");
        continue;
      }
      if (is_float(graph_[term.value].dtype))
        findings.push_back("%" + graph_[term.value].name + " is no integer");
      wanted.insert(graph_[term.value].axes.begin(), graph_[term.value].axes.end());
    }
    if (!over.empty() && over.rbegin()->index >= graph_.axes.size()) {
      findings.emplace_back("it is over an axis that does not exist");
    } else if (!std::includes(over.begin(), over.end(), wanted.begin(), wanted.end())) {
      findings.emplace_back("its place varies along an axis that it is not over");
    }
    if (store.scatter->mode != ScatterMode::Assign && graph_[store.buffer].dtype == DType::Bool) {
      findings.emplace_back("it combines bools");
    }
  }

  static void add_axes(const Expr& e, std::set<AxisId>& domain) {
    for (const int index : indices_of(e)) domain.insert({static_cast<uint32_t>(index)});
  }

  std::string axes_text(const std::vector<AxisId>& axes) const {
    std::string text;
    for (const AxisId axis : axes) text += (text.empty() ? "" : ", ") + graph_[axis].name;
    return text;
  }

  const TileGraph& graph_;
  std::optional<TileValueId> value_;
  std::set<std::string> names_;
  std::map<TileValueId, std::vector<std::string>> value_findings_;
  std::map<size_t, std::vector<std::string>> store_findings_;
  std::vector<std::string> general_;
};

}  // namespace

void verify(const TileGraph& graph, std::string_view after_stage) {
  Verifier verifier(graph);
  if (verifier.run()) return;
  throw InternalError("verify tile graph after " + std::string(after_stage) + "\n" + verifier.report());
}

}  // namespace tilefuse
