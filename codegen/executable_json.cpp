#include "codegen/executable_json.h"

#include <map>
#include <nlohmann/json.hpp>

#include "core/expr_terms.h"
#include "core/match.h"
#include "core/result.h"

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
  Json spec(const TensorSpec& s) { return {s.name, info(s.dtype).name, exprs(s.sizes), exprs(s.strides)}; }
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
  Json write(const CompiledRegion& region) {
    const RegionProgram& program = region.program;
    Json launches = Json::array(), workspaces = Json::array();
    for (const Launch& l : program.launches) {
      launches.push_back({l.symbol, expr(l.tiles), expr(l.scratch_bytes), l.tile_us});
    }
    for (const Workspace& w : program.workspaces)
      workspaces.push_back({info(w.dtype).name, expr(w.elements)});
    return {{"name", region.name},
            {"hash", region.hash},
            {"inputs", specs(region.inputs)},
            {"program", program.name},
            {"outputs", specs(region.outputs)},
            {"source", program.source},
            {"launches", launches},
            {"workspaces", workspaces},
            {"sizes", exprs(program.sizes)},
            {"checks", program.checks_indices},
            {"refusal", region.refusal},
            {"fallback", region.fallback}};
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
    for (const auto& [name, range] : json["symbols"].items()) symbols_[name] = {range[0], range[1], range[2]};
  }

  Executable read() {
    Executable result;
    result.name = json_["name"];
    for (const Json& input : json_["inputs"]) result.inputs.push_back({slot_or_size(input)});
    for (const Json& slot : json_["slots"]) result.slots.push_back({spec(slot[0]), home(slot[1])});
    for (const Json& region : json_["regions"]) result.regions.push_back(read_region(region));
    for (const Json& instruction : json_["instructions"]) {
      result.instructions.push_back(read_instruction(instruction));
    }
    for (const Json& output : json_["outputs"]) {
      if (output.is_null()) {
        result.outputs.emplace_back(NoneArgument{});
      } else {
        match(slot_or_size(output), [&](const auto& value) { result.outputs.emplace_back(value); });
      }
    }
    result.arena_bytes = expr(json_["arena"]);
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
    if (json.contains("slot")) return SlotId{json["slot"].get<uint32_t>()};
    return expr(json["size"]);
  }
  static SlotId id(const Json& json) { return SlotId{json.get<uint32_t>()}; }
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
    return {json[0], dtype(json[1]), exprs(json[2]), exprs(json[3])};
  }
  std::vector<TensorSpec> specs(const Json& json) const {
    std::vector<TensorSpec> result;
    for (const Json& s : json) result.push_back(spec(s));
    return result;
  }
  Home home(const Json& json) const {
    const std::string kind = json[0];
    if (kind == "input") return InputHome{json[1]};
    if (kind == "arena") return ArenaHome{expr(json[1])};
    if (kind == "alias") return AliasHome{id(json[1]), expr(json[2])};
    if (kind == "block") return BlockHome{};
    return FrameworkHome{ids(json[1])};
  }
  CompiledRegion read_region(const Json& json) const {
    CompiledRegion region{json["name"], json["hash"],    specs(json["inputs"]), specs(json["outputs"]),
                          {},           json["refusal"], json["fallback"]};
    region.program.name = json["program"];
    region.program.source = json["source"];
    region.program.sizes = exprs(json["sizes"]);
    region.program.checks_indices = json["checks"];
    for (const Json& l : json["launches"]) {
      region.program.launches.push_back({l[0], expr(l[1]), expr(l[2]), l[3]});
    }
    for (const Json& w : json["workspaces"]) region.program.workspaces.push_back({dtype(w[0]), expr(w[1])});
    return region;
  }
  Instruction read_instruction(const Json& json) const {
    const std::string kind = json[0];
    if (kind == "launch") return LaunchRegion{json[1], ids(json[2]), ids(json[3]), ids(json[4])};
    if (kind == "copy") return CopySlot{id(json[1]), id(json[2])};
    if (kind == "back") return WriteBack{id(json[1]), json[2]};
    if (kind == "free") return Free{id(json[1])};
    return CallOperator{{json[1], json[2], arguments(json[3])}, ids(json[4]), ids(json[5]), json[6]};
  }
  std::vector<CallArgument> arguments(const Json& json) const {
    std::vector<CallArgument> result;
    for (const Json& argument : json) result.push_back(read_argument(argument));
    return result;
  }
  CallArgument read_argument(const Json& json) const {
    CallArgument argument{json[0], NoneArgument{}};
    const std::string kind = json[1];
    if (kind == "operand") argument.value = OperandArgument{json[2]};
    if (kind == "bool") argument.value = json[2].get<bool>();
    if (kind == "int") argument.value = expr(json[2]);
    if (kind == "float") argument.value = std::stod(json[2].get<std::string>());
    if (kind == "text") argument.value = json[2].get<std::string>();
    if (kind == "enum") argument.value = EnumArgument{json[2], json[3]};
    if (kind == "list") argument.value = ListArgument{arguments(json[2])};
    return argument;
  }

  const Json& json_;
  std::map<std::string, SymbolRange> symbols_;
};

}  // namespace

std::string to_json(const Executable& executable) { return Writer().write(executable).dump(); }

Executable parse_executable(std::string_view text) {
  try {
    const Json json = Json::parse(text);
    return Reader(json).read();
  } catch (const Json::exception& error) {
    throw InternalError(std::string("plan cache: ") + error.what());
  }
}

}  // namespace tilefuse
