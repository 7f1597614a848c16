#include "codegen/plan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>

#include "codegen/instruction_slots.h"
#include "codegen/memory_plan.h"
#include "codegen/run_order.h"
#include "core/match.h"

namespace tilefuse {
namespace {

constexpr int kForever = std::numeric_limits<int>::max();
constexpr int64_t kLeastBlock = 64 << 10;  // bytes; smaller ones are not worth the allocator's 100 ns

Expr bytes_of(const TensorSpec& spec) { return storage_elements(spec) * int64_t(size_in_bytes(spec.dtype)); }

bool same_layout(const std::vector<Expr>& sizes, const std::vector<Expr>& a, const std::vector<Expr>& b) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!sizes[d].is_constant(1) && !(a[d] == b[d])) return false;
  }
  return true;
}

class Planner {
 public:
  Planner(const Graph& graph, const Partition& partition, std::vector<CompiledRegion> regions,
          const std::vector<int>& region_of, const CallFactsOf& facts, const Place& place)
      : graph_(graph),
        partition_(partition),
        region_of_(region_of),
        facts_(facts),
        in_memory_(values_in_memory(graph, partition)),
        slot_of_(graph.values.size()) {
    plan_.name = graph.name;
    plan_.place = place;
    plan_.regions = std::move(regions);
  }

  Executable run();

 private:
  SlotId add_slot(TensorSpec spec, Home home);
  SlotId slot(ValueId value);  // makes an alias if it is a view
  SlotId root(SlotId id) const;
  void place_inputs();
  void emit_unit(const Unit& unit);
  void emit_region(const Region& region, int program);
  void emit_call(const Node& node);
  void emit_write_backs();
  void emit_outputs();
  SlotId copied(SlotId source, std::vector<Expr> strides);
  bool is_rooted_in(SlotId id, const std::set<int>& positions) const;
  void find_lifetimes();
  void keep_returned();
  void give_blocks();
  void place_arena();
  bool is_passing(const InputHome& home, int last) const;
  void reuse_inputs();
  void insert_frees();

  const Graph& graph_;
  const Partition& partition_;
  const std::vector<int>& region_of_;
  const CallFactsOf& facts_;
  IdMap<ValueId, bool> in_memory_;
  IdMap<ValueId, std::optional<SlotId>> slot_of_;
  Executable plan_;
  std::vector<int> first_, last_;  // by slot (roots): instructions
};

SlotId Planner::add_slot(TensorSpec spec, Home home) {
  plan_.slots.push_back({std::move(spec), std::move(home)});
  return SlotId{uint32_t(plan_.slots.size() - 1)};
}

SlotId Planner::root(SlotId id) const {
  const auto* alias = std::get_if<AliasHome>(&plan_[id].home);
  return alias ? alias->base : id;
}

SlotId Planner::slot(ValueId value) {
  if (slot_of_[value]) return *slot_of_[value];
  // The chain of views down to memory, then the slots back up: chains are longer than stacks.
  std::vector<ValueId> chain;
  while (!slot_of_[value]) {
    TILEFUSE_CHECK(!in_memory_[value], "plan: %" + graph_[value].name + " is read before it is made");
    chain.push_back(value);
    value = graph_.producer(value).operands[0];
  }
  for (auto view = chain.rbegin(); view != chain.rend(); ++view) {
    const SlotId below = *slot_of_[graph_.producer(*view).operands[0]];
    const auto* alias = std::get_if<AliasHome>(&plan_[below].home);
    const Expr offset = alias ? alias->offset : Expr(0);
    const IndexMap& map = std::get<View>(graph_.producer(*view).op).map;
    const auto strided = as_strided(map, plan_[below].spec.strides, offset);
    TILEFUSE_CHECK(strided, "plan: no strides express %" + graph_[*view].name + ", but no region makes it");
    // Along a dim of one element the map may say any stride. Operators tell memory formats by all of them,
    // and would copy what they take for another one.
    TensorSpec spec = spec_of(graph_, *view);
    if (!same_layout(spec.sizes, spec.strides, strided->strides)) spec.strides = strided->strides;
    slot_of_[*view] = add_slot(std::move(spec), AliasHome{root(below), strided->offset});
  }
  return *slot_of_[chain.front()];
}

void Planner::place_inputs() {
  for (size_t position = 0; position < graph_.inputs.size(); ++position) {
    const GraphInput& input = graph_.inputs[position];
    if (!input.tensor) {
      plan_.inputs.push_back({input.size});
      continue;
    }
    const SlotId id = add_slot(spec_of(graph_, *input.tensor), InputHome{int(position)});
    slot_of_[*input.tensor] = id;
    plan_.inputs.push_back({id});
  }
}

void Planner::emit_region(const Region& region, int program) {
  LaunchRegion launch{.region = program, .inputs = {}, .outputs = {}, .workspaces = {}};
  const CompiledRegion& compiled = plan_.regions[size_t(program)];
  for (ValueId input : region.inputs) launch.inputs.push_back(slot(input));
  for (ValueId output : region.outputs) {
    const Home home = compiled.refusal.empty() ? Home(ArenaHome{}) : Home(FrameworkHome{});
    slot_of_[output] = add_slot(spec_of(graph_, output), home);
    launch.outputs.push_back(*slot_of_[output]);
  }
  for (const Workspace& workspace : compiled.program.workspaces) {
    launch.workspaces.push_back(
        add_slot({"workspace", workspace.dtype, {workspace.elements}, {Expr(1)}}, ArenaHome{}));
  }
  plan_.instructions.emplace_back(std::move(launch));
}

void Planner::emit_call(const Node& node) {
  const Call& call = std::get<Call>(node.op);
  const CallFacts facts = facts_(call);
  CallOperator instruction{.call = call, .operands = {}, .results = {}, .writes_results = false};
  instruction.writes_results = facts.writes_results && !facts.results_may_alias && !plan_.place.is_gpu();
  for (ValueId operand : node.operands) instruction.operands.push_back(slot(operand));
  for (ValueId result : node.results) {
    FrameworkHome made{facts.results_may_alias ? instruction.operands : std::vector<SlotId>()};
    const Home home = instruction.writes_results ? Home(ArenaHome{}) : Home(std::move(made));
    const SlotId id = add_slot(spec_of(graph_, result), home);
    slot_of_[result] = id;
    instruction.results.push_back(id);
  }
  plan_.instructions.emplace_back(std::move(instruction));
}

void Planner::emit_unit(const Unit& unit) {
  if (unit.is_region) {
    emit_region(partition_.regions[unit.index], region_of_[unit.index]);
  } else {
    emit_call(graph_.nodes[unit.index]);
  }
}

SlotId Planner::copied(SlotId source, std::vector<Expr> strides) {
  TensorSpec spec = plan_[source].spec;
  spec.name += "_copy";
  spec.strides = std::move(strides);
  const SlotId target = add_slot(std::move(spec), BlockHome{});
  plan_.instructions.emplace_back(CopySlot{source, target});
  return target;
}

bool Planner::is_rooted_in(SlotId id, const std::set<int>& positions) const {
  const Home& home = plan_[root(id)].home;
  if (const auto* made = std::get_if<FrameworkHome>(&home)) {
    return std::any_of(made->may_share.begin(), made->may_share.end(),
                       [&](SlotId operand) { return is_rooted_in(operand, positions); });
  }
  const auto* input = std::get_if<InputHome>(&home);
  return input && positions.contains(input->position);
}

void Planner::emit_outputs() {
  std::set<int> mutated;
  for (const auto& [position, value] : graph_.mutations) mutated.insert(position);
  for (const GraphOutput& output : graph_.outputs) {
    const auto* value = std::get_if<ValueId>(&output);
    if (!value) {
      const auto* size = std::get_if<Expr>(&output);
      plan_.outputs.push_back(size ? ExecutableOutput(*size) : ExecutableOutput(NoneArgument{}));
      continue;
    }
    SlotId id = slot(*value);
    const std::vector<Expr> wanted = graph_[*value].strides.value_or(plan_[id].spec.strides);
    // The graph returns values: what a write-back is about to change is copied first.
    const bool kept = same_layout(plan_[id].spec.sizes, wanted, plan_[id].spec.strides);
    if (!kept || is_rooted_in(id, mutated)) id = copied(id, wanted);
    plan_.outputs.emplace_back(id);
  }
}

void Planner::emit_write_backs() {
  std::set<int> mutated;
  std::vector<WriteBack> write_backs;
  for (const auto& [position, value] : graph_.mutations) mutated.insert(position);
  for (const auto& [position, value] : graph_.mutations) {
    SlotId id = slot(value);
    const auto* input = std::get_if<InputHome>(&plan_[id].home);
    if (input && input->position == position) continue;  // written back as it was
    if (is_rooted_in(id, mutated)) id = copied(id, contiguous_strides(plan_[id].spec.sizes));
    write_backs.push_back({id, position});
  }
  for (const WriteBack& write_back : write_backs) plan_.instructions.emplace_back(write_back);
}

void Planner::find_lifetimes() {
  first_.assign(plan_.slots.size(), kForever);
  last_.assign(plan_.slots.size(), -1);
  for (int i = 0; i < int(plan_.instructions.size()); ++i) {
    for_each_slot(plan_.instructions[size_t(i)], [&](SlotId id) {
      const uint32_t memory = root(id).index;
      first_[memory] = std::min(first_[memory], i);
      last_[memory] = i;
    });
  }
  for (const ExecutableOutput& output : plan_.outputs) {
    if (const auto* id = std::get_if<SlotId>(&output)) last_[root(*id).index] = kForever;
  }
  // Later slots first: a view of a view reaches all the way down.
  for (size_t s = plan_.slots.size(); s-- > 0;) {
    const auto* made = std::get_if<FrameworkHome>(&plan_.slots[s].home);
    if (made == nullptr) continue;
    for (SlotId operand : made->may_share) {
      int& last = last_[root(operand).index];
      last = std::max(last, last_[s]);
    }
  }
}

// What the graph returns, or may share memory with what it returns, gets a block of its own.
void Planner::keep_returned() {
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    if (last_[s] == kForever && std::holds_alternative<ArenaHome>(plan_.slots[s].home)) {
      plan_.slots[s].home = BlockHome{};
    }
  }
}

void Planner::give_blocks() {
  for (Slot& slot : plan_.slots) {
    if (std::holds_alternative<ArenaHome>(slot.home)) slot.home = BlockHome{};
  }
}

void Planner::place_arena() {
  std::vector<ArenaRequest> requests;
  std::vector<Slot*> slots;
  for (size_t s = 0; s < plan_.slots.size(); ++s) {
    Slot& here = plan_.slots[s];
    if (!std::holds_alternative<ArenaHome>(here.home)) continue;
    requests.push_back({bytes_of(here.spec), first_[s], last_[s]});
    slots.push_back(&here);
  }
  const ArenaPlan arena = plan_arena(requests);
  for (size_t i = 0; i < slots.size(); ++i) slots[i]->home = ArenaHome{arena.offsets[i]};
  plan_.arena_bytes = arena.bytes;
}

// Whether to free an input early may help: it is not a parameter, which lives on, and something runs after
// its last reader. What is written back is needed to the end.
bool Planner::is_passing(const InputHome& home, int last) const {
  const Node& node = graph_.producer(*graph_.inputs[size_t(home.position)].tensor);
  const bool mutated = std::any_of(graph_.mutations.begin(), graph_.mutations.end(),
                                   [&](const auto& mutation) { return mutation.first == home.position; });
  return !mutated && !std::get<Input>(node.op).is_parameter && last < int(plan_.instructions.size()) - 1;
}

// Where the caller gives more memory away than the arena would take (a backward graph gets all that the
// forward graph saved), intermediates get blocks of their own: a block that is freed serves the next of its
// size, and saved tensors and gradients have the same sizes. Gaps of the arena do not count.
void Planner::reuse_inputs() {
  Expr given_away = 0;
  for (uint32_t s = 0; s < plan_.slots.size(); ++s) {
    if (std::holds_alternative<ArenaHome>(plan_.slots[s].home)) given_away = given_away + kStaggerBytes;
    const auto* input = std::get_if<InputHome>(&plan_.slots[s].home);
    if (input == nullptr || last_[s] < 0 || last_[s] == kForever || !is_passing(*input, last_[s])) continue;
    given_away = given_away + bytes_of(plan_.slots[s].spec);
  }
  if (!proves_nonnegative(given_away - plan_.arena_bytes)) return;
  for (Slot& slot : plan_.slots) {
    const bool is_large = proves_nonnegative(bytes_of(slot.spec) - kLeastBlock);
    if (is_large && std::holds_alternative<ArenaHome>(slot.home)) slot.home = BlockHome{};
  }
  place_arena();
}

void Planner::insert_frees() {
  std::map<int, std::vector<SlotId>> dying;
  for (uint32_t s = 0; s < plan_.slots.size(); ++s) {
    const Home& home = plan_.slots[s].home;
    const auto* input = std::get_if<InputHome>(&home);
    const bool dies = std::holds_alternative<BlockHome>(home) ||
                      std::holds_alternative<FrameworkHome>(home) ||
                      (input != nullptr && is_passing(*input, last_[s]));
    if (dies && last_[s] >= 0 && last_[s] != kForever) dying[last_[s]].push_back(SlotId{s});
  }
  std::vector<Instruction> with_frees;
  for (int i = 0; i < int(plan_.instructions.size()); ++i) {
    with_frees.push_back(std::move(plan_.instructions[size_t(i)]));
    if (const auto found = dying.find(i); found != dying.end()) {
      for (SlotId id : found->second) with_frees.emplace_back(Free{id});
    }
  }
  plan_.instructions = std::move(with_frees);
}

Executable Planner::run() {
  place_inputs();
  const auto is_ordered = [&](const Call& call) { return facts_(call).is_ordered; };
  for (const Unit& unit : run_order(graph_, partition_, is_ordered)) emit_unit(unit);
  emit_outputs();
  emit_write_backs();
  find_lifetimes();
  keep_returned();
  if (plan_.place.is_gpu()) give_blocks();
  place_arena();
  reuse_inputs();
  insert_frees();
  return std::move(plan_);
}

}  // namespace

TensorSpec spec_of(const Graph& graph, ValueId value) {
  const Value& v = graph[value];
  return {v.name, v.type.dtype, v.type.shape, v.strides.value_or(contiguous_strides(v.type.shape)),
          v.elsewhere};
}

Executable plan(const Graph& graph, const Partition& partition, std::vector<CompiledRegion> regions,
                const std::vector<int>& region_of, const CallFactsOf& facts, const Place& place) {
  return Planner(graph, partition, std::move(regions), region_of, facts, place).run();
}

}  // namespace tilefuse
