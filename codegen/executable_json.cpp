#include "codegen/executable_json.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/expr_terms.h"
#include "core/match.h"
#include "core/result.h"
#include "core/text_cursor.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

// ---------------------------------------------------------------- writing
class Writer {
 public:
  Json write(const Executable& executable) {
    Json inputs = Json::array(), slots = Json::array(), regions = Json::array();
    for (const ExecutableInput& input : executable.inputs) inputs.push_back(slot_or_size(input.value));
    for (const Slot& slot : executable.slots) slots.push_back({spec(slot.spec), home(slot.home)});
    for (const CompiledRegion& region : executable.regions) regions.push_back(write(region));
    Json instructions = Json::array(), outputs = Json::array();
    for (const Instruction& instruction : executable.instructions) instructions.push_back(write(instruction));
    for (const ExecutableOutput& output : executable.outputs) {
      outputs.push_back(match(
          output, [&](const NoneArgument&) { return Json(); },
          [&](const auto& value) { return slot_or_size({value}); }));
    }
    Json result = {
        {"name", executable.name},     {"inputs", inputs},   {"slots", slots},
        {"regions", regions},          {"outputs", outputs}, {"arena", expr(executable.arena_bytes)},
        {"instructions", instructions}};
    if (const Place& place = executable.place; place != Place{})
      result["place"] = {place.device, place.architecture};
    for (const auto& [name, range] : symbols_)
      result["symbols"][name] = {range.low, range.high, range.multiple_of};
    return result;
  }

 private:
  Json expr(const Expr& e) {
    if (const auto value = e.constant()) return *value;
    note_symbols(e);
    return to_text(e);
  }
  void note_symbols(const Expr& e) {
    for (const Expr::Term& term : e.terms()) {
      for (const Expr::Atom& atom : term.factors) {
        if (atom.kind == Expr::AtomKind::Symbol) symbols_[atom.symbol] = atom.range;
        for (const Expr& argument : atom.args) note_symbols(argument);
      }
    }
  }
  Json exprs(const std::vector<Expr>& list) {
    Json result = Json::array();
    for (const Expr& e : list) result.push_back(expr(e));
    return result;
  }
  Json slot_or_size(const std::variant<SlotId, Expr>& value) {
    return match(
        value, [](const SlotId& id) { return Json{{"slot", id.index}}; },
        [&](const Expr& size) { return Json{{"size", expr(size)}}; });
  }
  static Json ids(const std::vector<SlotId>& slots) {
    Json result = Json::array();
    for (SlotId id : slots) result.push_back(id.index);
    return result;
  }
  Json spec(const TensorSpec& s) {
    Json result = {s.name, info(s.dtype).name, exprs(s.sizes), exprs(s.strides)};
    if (!s.elsewhere.empty()) result.push_back(s.elsewhere);
    return result;
  }
  Json specs(const std::vector<TensorSpec>& list) {
    Json result = Json::array();
    for (const TensorSpec& s : list) result.push_back(spec(s));
    return result;
  }
  Json home(const Home& home) {
    return match(
        home, [](const InputHome& h) { return Json{"input", h.position}; },
        [&](const ArenaHome& h) { return Json{"arena", expr(h.offset)}; },
        [](const BlockHome&) { return Json{"block"}; },
        [](const FrameworkHome& h) { return Json{"framework", ids(h.may_share)}; },
        [&](const AliasHome& h) { return Json{"alias", h.base.index, expr(h.offset)}; });
  }
  Json launch(const Launch& l) { return {l.symbol, expr(l.tiles), expr(l.scratch_bytes), l.tile_us}; }
  Json gpu_step(const GpuStep& s) {
    Json result = {s.symbol, s.source, expr(s.blocks), s.threads, s.buffers, exprs(s.sizes), s.shared_bytes};
    for (const GpuTensorMap& map : s.tensor_maps) {
      result.push_back({map.buffer, info(map.dtype).name, expr(map.offset), exprs(map.extents),
                        exprs(map.strides), map.box});
    }
    return result;
  }
  Json write(const CompiledRegion& region) {
    const RegionProgram& program = region.program;
    Json launches = Json::array(), workspaces = Json::array(), packs = Json::array();
    for (const Launch& l : program.launches) launches.push_back(launch(l));
    for (const Pack& p : program.packs) {
      packs.push_back({launch(p.launch), p.input, p.position, info(p.dtype).name, p.elements, p.layout});
    }
    for (const Workspace& w : program.workspaces)
      workspaces.push_back({info(w.dtype).name, expr(w.elements)});
    Json result = {{"name", region.name},
                   {"hash", region.hash},
                   {"inputs", specs(region.inputs)},
                   {"program", program.name},
                   {"outputs", specs(region.outputs)},
                   {"source", program.source},
                   {"launches", launches},
                   {"workspaces", workspaces},
                   {"packs", packs},
                   {"sizes", exprs(program.sizes)},
                   {"checks", program.checks_indices},
                   {"refusal", region.refusal},
                   {"fallback", region.fallback}};
    for (const GpuStep& step : program.gpu) result["gpu"].push_back(gpu_step(step));
    return result;
  }
  Json write(const Instruction& instruction) {
    return match(
        instruction,
        [&](const LaunchRegion& i) {
          return Json{"launch", i.region, ids(i.inputs), ids(i.outputs), ids(i.workspaces)};
        },
        [&](const CallOperator& i) {
          return Json{"call",          i.call.op,      i.call.overload, arguments(i.call.arguments),
                      ids(i.operands), ids(i.results), i.writes_results};
        },
        [&](const CopySlot& i) { return Json{"copy", i.source.index, i.target.index}; },
        [&](const WriteBack& i) { return Json{"back", i.source.index, i.position}; },
        [&](const Free& i) { return Json{"free", i.slot.index}; });
  }
  Json arguments(const std::vector<CallArgument>& list) {
    Json result = Json::array();
    for (const CallArgument& argument : list) {
      result.push_back(match(
          argument.value, [&](const NoneArgument&) { return Json{argument.name, "none"}; },
          [&](const OperandArgument& v) { return Json{argument.name, "operand", v.operand}; },
          [&](bool v) { return Json{argument.name, "bool", v}; },
          [&](const Expr& v) { return Json{argument.name, "int", expr(v)}; },
          [&](double v) { return Json{argument.name, "float", to_text(Scalar(v))}; },
          [&](const std::string& v) { return Json{argument.name, "text", v}; },
          [&](const EnumArgument& v) { return Json{argument.name, "enum", v.kind, v.value}; },
          [&](const ListArgument& v) { return Json{argument.name, "list", arguments(v.items)}; }));
    }
    return result;
  }

  std::map<std::string, SymbolRange> symbols_;
};

// ---------------------------------------------------------------- reading
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {
    if (!json.contains("symbols")) return;
    for (const auto& [name, range] : json.at("symbols").items()) {
      symbols_[name] = {whole<int64_t>(range.at(0)), whole<int64_t>(range.at(1)),
                        whole<int64_t>(range.at(2))};
    }
  }

  Executable read() {
    Executable result;
    result.name = json_.at("name");
    for (const Json& input : json_.at("inputs")) result.inputs.push_back({slot_or_size(input)});
    for (const Json& slot : json_.at("slots")) result.slots.push_back({spec(slot.at(0)), home(slot.at(1))});
    for (const Json& region : json_.at("regions")) result.regions.push_back(read_region(region));
    for (const Json& instruction : json_.at("instructions")) {
      result.instructions.push_back(read_instruction(instruction));
    }
    for (const Json& output : json_.at("outputs")) {
      if (output.is_null()) {
        result.outputs.emplace_back(NoneArgument{});
      } else {
        match(slot_or_size(output), [&](const auto& value) { result.outputs.emplace_back(value); });
      }
    }
    result.arena_bytes = expr(json_.at("arena"));
    if (json_.contains("place")) result.place = {json_.at("place").at(0), json_.at("place").at(1)};
    return result;
  }

 private:
  Expr expr(const Json& json) const {
    if (json.is_number_integer()) return json.get<int64_t>();
    return parse_expr(json.get<std::string>(), {},
                      [&](const std::string& name) -> std::optional<SymbolRange> {
                        const auto found = symbols_.find(name);
                        return found == symbols_.end() ? std::nullopt : std::optional(found->second);
                      });
  }
  std::vector<Expr> exprs(const Json& json) const {
    std::vector<Expr> result;
    for (const Json& e : json) result.push_back(expr(e));
    return result;
  }
  std::variant<SlotId, Expr> slot_or_size(const Json& json) const {
    if (json.contains("slot")) return id(json.at("slot"));
    return expr(json.at("size"));
  }
  template <class Integer>
  static Integer whole(const Json& json) {
    TILEFUSE_CHECK(json.is_number_integer(), "plan: no integer: " + json.dump());
    return json.get<Integer>();
  }
  static SlotId id(const Json& json) { return SlotId{whole<uint32_t>(json)}; }
  static std::vector<SlotId> ids(const Json& json) {
    std::vector<SlotId> result;
    for (const Json& index : json) result.push_back(id(index));
    return result;
  }
  static DType dtype(const Json& json) {
    const auto found = parse_dtype(json.get<std::string>());
    TILEFUSE_CHECK(found, "plan: no dtype " + json.dump());
    return *found;
  }
  TensorSpec spec(const Json& json) const {
    return {json.at(0), dtype(json.at(1)), exprs(json.at(2)), exprs(json.at(3)),
            json.size() > 4 ? json.at(4).get<std::string>() : ""};
  }
  std::vector<TensorSpec> specs(const Json& json) const {
    std::vector<TensorSpec> result;
    for (const Json& s : json) result.push_back(spec(s));
    return result;
  }
  Home home(const Json& json) const {
    const std::string kind = json.at(0);
    if (kind == "input") return InputHome{whole<int>(json.at(1))};
    if (kind == "arena") return ArenaHome{expr(json.at(1))};
    if (kind == "alias") return AliasHome{id(json.at(1)), expr(json.at(2))};
    if (kind == "block") return BlockHome{};
    return FrameworkHome{ids(json.at(1))};
  }
  Launch launch(const Json& l) const { return {l.at(0), expr(l.at(1)), expr(l.at(2)), l.at(3)}; }
  GpuStep gpu_step(const Json& s) const {
    GpuStep step{s.at(0), s.at(1),       expr(s.at(2)), whole<int>(s.at(3)), whole<int64_t>(s.at(6)),
                 {},      exprs(s.at(5))};
    for (const Json& buffer : s.at(4)) step.buffers.push_back(whole<int>(buffer));
    for (size_t i = 7; i < s.size(); ++i) step.tensor_maps.push_back(tensor_map(s.at(i)));
    return step;
  }
  GpuTensorMap tensor_map(const Json& m) const {
    GpuTensorMap map{whole<int>(m.at(0)), dtype(m.at(1)), expr(m.at(2)), exprs(m.at(3)), exprs(m.at(4)), {}};
    for (const Json& elements : m.at(5)) map.box.push_back(whole<int64_t>(elements));
    return map;
  }
  CompiledRegion read_region(const Json& json) const {
    CompiledRegion region{
        json.at("name"),    json.at("hash"),    specs(json.at("inputs")), specs(json.at("outputs")), {},
        json.at("refusal"), json.at("fallback")};
    region.program.name = json.at("program");
    region.program.source = json.at("source");
    region.program.sizes = exprs(json.at("sizes"));
    region.program.checks_indices = json.at("checks");
    for (const Json& l : json.at("launches")) region.program.launches.push_back(launch(l));
    for (const Json& s : json.value("gpu", Json::array())) region.program.gpu.push_back(gpu_step(s));
    for (const Json& p : json.value("packs", Json::array())) {
      region.program.packs.push_back({launch(p.at(0)), whole<int>(p.at(1)), whole<int>(p.at(2)),
                                      dtype(p.at(3)), whole<int64_t>(p.at(4)), p.at(5)});
    }
    for (const Json& w : json.at("workspaces"))
      region.program.workspaces.push_back({dtype(w.at(0)), expr(w.at(1))});
    return region;
  }
  Instruction read_instruction(const Json& json) const {
    const std::string kind = json.at(0);
    if (kind == "launch")
      return LaunchRegion{whole<int>(json.at(1)), ids(json.at(2)), ids(json.at(3)), ids(json.at(4))};
    if (kind == "copy") return CopySlot{id(json.at(1)), id(json.at(2))};
    if (kind == "back") return WriteBack{id(json.at(1)), whole<int>(json.at(2))};
    if (kind == "free") return Free{id(json.at(1))};
    return CallOperator{
        {json.at(1), json.at(2), arguments(json.at(3))}, ids(json.at(4)), ids(json.at(5)), json.at(6)};
  }
  std::vector<CallArgument> arguments(const Json& json) const {
    std::vector<CallArgument> result;
    for (const Json& argument : json) result.push_back(read_argument(argument));
    return result;
  }
  CallArgument read_argument(const Json& json) const {
    CallArgument argument{json.at(0), NoneArgument{}};
    const std::string kind = json.at(1);
    if (kind == "operand") argument.value = OperandArgument{whole<int>(json.at(2))};
    if (kind == "bool") argument.value = json.at(2).get<bool>();
    if (kind == "int") argument.value = expr(json.at(2));
    if (kind == "float") argument.value = TextCursor(json.at(2).get_ref<const std::string&>()).number();
    if (kind == "text") argument.value = json.at(2).get<std::string>();
    if (kind == "enum") argument.value = EnumArgument{json.at(2), json.at(3)};
    if (kind == "list") argument.value = ListArgument{arguments(json.at(2))};
    return argument;
  }

  const Json& json_;
  std::map<std::string, SymbolRange> symbols_;
};

}  // namespace

std::string to_json(const Executable& executable) {
  return Writer().write(executable).dump(-1, ' ', false, Json::error_handler_t::replace);
}

Executable parse_executable(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    return Reader(json).read();
  } catch (const Json::exception& error) {
    throw InternalError(std::string("plan: ") + error.what());
  } catch (const UserError& error) {
    throw InternalError(std::string("plan: ") + error.what());
  }
}

}  // namespace tilefuse
