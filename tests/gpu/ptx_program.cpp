#include "tests/gpu/ptx_program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <regex>

#include "tests/gpu/ptx_bulk.h"
#include "tests/gpu/ptx_text.h"
#include "tests/gpu/tensor_map.h"

namespace tilefuse {
namespace {

class Parser final : PtxBulk {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  PtxProgram parse() {
    read_statements();
    for (const auto& [instruction, label] : branches_) {
      const auto found = labels_.find(label);
      if (found == labels_.end()) throw PtxError("no label " + label);
      program_.instructions[instruction].target = found->second;
    }
    if (program_.name.empty()) throw PtxError("no kernel");
    check_meetings();
    if (!given_.empty()) given_begin();
    program_.registers = static_cast<int>(registers_.size());
    return std::move(program_);
  }

 private:
  // Statements end with a semicolon, labels with a colon; braces that begin or end a scope stand alone.
  void read_statements() {
    std::string statement;
    int line = 0;
    for (const std::string& whole : split(std::string(text_), '\n')) {
      ++line;
      const std::string code = trimmed(whole.substr(0, whole.find("//")));
      if (code.empty()) continue;
      if (statement.empty()) line_ = line;
      statement += (statement.empty() ? "" : " ") + code;
      if (statement.ends_with(';')) {
        statement.pop_back();
        take_statement(trimmed(statement));
      } else if (statement.starts_with(".target ")) {
        program_.target = trimmed(split(statement.substr(8), ',').front());
      } else if (statement.starts_with(".maxntid ")) {
        program_.threads = std::stoll(statement.substr(9));
      } else if (statement.starts_with(".reqnctapercluster")) {
        take_cluster(statement);
      } else if (statement == "{" || statement == "}" || is_directive_of_a_line(statement)) {
      } else if (statement.ends_with(':')) {
        labels_[statement.substr(0, statement.size() - 1)] = program_.instructions.size();
      } else if (statement.find(".entry") != std::string::npos) {
        if (!statement.ends_with(')')) continue;
        take_entry(statement);
      } else {
        continue;
      }
      statement.clear();
    }
  }

  static bool is_directive_of_a_line(const std::string& statement) {
    for (const char* directive :
         {".version", ".address_size", ".minnctapersm", ".explicitcluster", ".loc", ".file"}) {
      if (statement.starts_with(directive)) return true;
    }
    return false;
  }

  void take_entry(const std::string& text) {
    if (!program_.name.empty()) fail("a second kernel");
    const size_t open = text.find('(');
    const size_t name = text.find(".entry") + 6;
    program_.name = trimmed(text.substr(name, open - name));
    for (const std::string& parameter : split_operands(text.substr(open + 1, text.rfind(')') - open - 1))) {
      if (parameter.ends_with("]")) {
        take_tensor_map(parameter);
        continue;
      }
      std::vector<std::string> words = split(parameter, ' ');
      if (words.size() < 3 || words.front() != ".param") fail("a parameter that is not plain: " + parameter);
      if (!program_.tensor_map_offsets.empty()) fail("a parameter behind a tensor map: " + parameter);
      program_.parameter_offsets.push_back(add_parameter(words.back(), bytes_of_type(words[1].substr(1)), 1));
    }
  }

  int64_t add_parameter(const std::string& name, int64_t bytes, int64_t alignment) {
    alignment = std::max(alignment, std::min<int64_t>(bytes, 8));
    const int64_t offset = (program_.parameter_bytes + alignment - 1) / alignment * alignment;
    program_.parameter_bytes = offset + bytes;
    return parameters_[name] = offset;
  }

  void take_tensor_map(const std::string& parameter) {  // .param .align 64 .b8 name[128]
    static const std::regex kForm(R"(\.param\s+\.align 64\s+\.b8\s+(\S+)\[128\])");
    std::smatch found;
    if (!std::regex_match(parameter, found, kForm)) fail("a parameter that is not plain: " + parameter);
    program_.tensor_map_offsets.push_back(add_parameter(found[1], kTensorMapBytes, 64));
  }

  void take_statement(const std::string& statement) {
    if (statement.starts_with(".reg") || statement.starts_with(".pragma")) return;
    if (statement.starts_with(".shared")) return take_shared(statement);
    if (statement.starts_with(".extern .shared")) return take_given(statement);
    if (statement.starts_with('.')) fail("not understood: " + statement);
    take_instruction(statement);
  }

  void take_shared(const std::string& statement) {  // .shared .align 4 .b8 name[32], or .f32 name
    static const std::regex kForm(R"(\.shared\s+\.align (\d+)\s+\.[bfsu](\d+)\s+([^\s\[]+)(?:\[(\d+)\])?)");
    std::smatch found;
    if (!std::regex_match(statement, found, kForm)) fail("shared memory that is not plain: " + statement);
    if (program_.given_at) fail("shared memory declared behind the use of what is given: " + statement);
    const int64_t apart = std::max<int64_t>(16, std::stoll(found[1]));
    program_.shared_bytes = (program_.shared_bytes + apart - 1) / apart * apart;
    shared_[found[3]] = program_.shared_bytes;
    program_.shared_bytes += std::stoll(found[2]) / 8 * (found[4].matched ? std::stoll(found[4]) : 1);
  }

  void take_given(const std::string& statement) {  // .extern .shared .align 128 .b8 name[]
    const size_t align = statement.find(".align "), open = statement.find("[]");
    if (align == std::string::npos || open == std::string::npos || !given_.empty())
      fail("not understood: " + statement);
    given_ = split(statement.substr(0, open), ' ').back();
    given_alignment_ = std::stoll(statement.substr(align + 7));
  }

  void take_instruction(std::string text) {
    PtxInstruction instruction;
    instruction.text = text;
    instruction.line = line_;
    if (text.starts_with('@')) {
      instruction.negated = text[1] == '!';
      const size_t begin = instruction.negated ? 2 : 1, end = text.find(' ');
      instruction.predicate = named_register(text.substr(begin, end - begin));
      text = trimmed(text.substr(end));
    }
    const size_t space = text.find_first_of(" \t");
    const std::string opcode = text.substr(0, space);
    const std::vector<std::string> operands =
        space == std::string::npos ? std::vector<std::string>{} : split_operands(text.substr(space));
    decode(opcode, operands, instruction);
    program_.instructions.push_back(std::move(instruction));
  }

  void decode(const std::string& opcode, const std::vector<std::string>& operands,
              PtxInstruction& instruction) {
    if (decode_bulk(opcode, operands, instruction)) return;
    if (opcode == "ret" || opcode == "exit") {
      instruction.kind = PtxKind::Exit;
    } else if (opcode == "trap") {
      instruction.kind = PtxKind::Trap;
    } else if (opcode == "bra" || opcode == "bra.uni") {
      instruction.kind = PtxKind::Branch;
      branches_.emplace_back(program_.instructions.size(), operands.at(0));
    } else if ((opcode == "bar.sync" || opcode == "barrier.sync") &&
               operands == std::vector<std::string>{"0"}) {
      instruction.kind = PtxKind::Barrier;
    } else if (opcode == "prefetch.global.L2" && operands.size() == 1) {
      instruction.kind = PtxKind::Prefetch;
      instruction.operands = {address(operands[0], instruction.offset)};
    } else if (opcode == "bar.warp.sync" && operands == std::vector<std::string>{"-1"}) {
      instruction.kind = PtxKind::MeetWarp;
    } else if (opcode.starts_with("ld.param.")) {
      decode_parameter(operands, instruction);
    } else if (opcode.starts_with("ld.") || opcode.starts_with("st.")) {
      decode_access(opcode, operands, instruction);
    } else if (opcode.starts_with("shfl.sync.")) {
      decode_shuffle(opcode, operands, instruction);
    } else if (opcode.starts_with("ldmatrix.")) {
      decode_matrix_load(opcode, operands, instruction);
    } else if (opcode.starts_with("mma.")) {
      decode_matrix_product(opcode, operands, instruction);
    } else if (opcode.starts_with("wgmma.")) {
      decode_warpgroup(opcode, operands, instruction);
    } else {
      decode_operation(opcode, operands, instruction);
    }
  }

  void decode_parameter(const std::vector<std::string>& operands, PtxInstruction& instruction) {
    instruction.kind = PtxKind::LoadParameter;
    instruction.element_bytes =
        bytes_of_type(split(instruction.text.substr(0, instruction.text.find_first_of(" \t")), '.').back());
    instruction.results = {value(operands.at(0))};
    const std::string inside = operands.at(1).substr(1, operands.at(1).size() - 2);
    const auto found = parameters_.find(inside);
    if (found == parameters_.end()) fail("no parameter " + inside);
    instruction.offset = found->second;
  }

  void decode_access(const std::string& opcode, const std::vector<std::string>& operands,
                     PtxInstruction& instruction) {
    std::vector<std::string> parts = split(opcode, '.');
    const bool is_load = parts.front() == "ld";
    instruction.kind = is_load ? PtxKind::Load : PtxKind::Store;
    const std::string type = parts.back();
    parts = {parts.begin() + 1, parts.end() - 1};
    for (const std::string& part : parts) {
      if (part == "shared") {
        instruction.space = PtxSpace::Shared;
      } else if (part == "shared::cluster") {
        instruction.space = PtxSpace::Cluster;
      } else if (part == "nc") {
        instruction.is_read_only = true;
      } else if (part != "global" && part != "v2" && part != "v4") {
        fail("an access that is not understood: " + opcode);
      }
    }
    if (parts.empty() || (parts.front() != "global" && !parts.front().starts_with("shared")))
      fail("no space: " + opcode);
    if (instruction.space == PtxSpace::Cluster) demand_sm_90(opcode);
    instruction.element_bytes = bytes_of_type(type);
    instruction.extends_sign = type.starts_with('s');
    if (is_load) instruction.results = values(operands.at(0));
    if (!is_load) instruction.operands = values(operands.at(1));
    instruction.operands.push_back(address(operands.at(is_load ? 1 : 0), instruction.offset));
  }

  void decode_shuffle(const std::string& opcode, const std::vector<std::string>& operands,
                      PtxInstruction& instruction) {
    const bool is_up = opcode == "shfl.sync.up.b32", is_index = opcode == "shfl.sync.idx.b32";
    if (!is_up && !is_index && opcode != "shfl.sync.bfly.b32") fail("an unknown instruction: " + opcode);
    if (operands.size() != 5) fail("a shuffle that is not understood: " + instruction.text);
    instruction.kind = PtxKind::Shuffle;
    instruction.shuffle = is_up ? PtxShuffle::Up : is_index ? PtxShuffle::Index : PtxShuffle::Flip;
    for (const std::string& result : split(operands[0], '|')) instruction.results.push_back(value(result));
    for (size_t i = 1; i < 5; ++i) instruction.operands.push_back(value(operands[i]));
  }

  // ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r5]
  void decode_matrix_load(const std::string& opcode, const std::vector<std::string>& operands,
                          PtxInstruction& instruction) {
    instruction.kind = PtxKind::LoadMatrix;
    instruction.is_transposed = opcode.ends_with(".x4.trans.shared.b16");
    const std::string form = "ldmatrix.sync.aligned.m8n8.x4.";
    if (opcode != form + (instruction.is_transposed ? "trans.shared.b16" : "shared.b16"))
      fail("an unknown instruction: " + opcode);
    instruction.results = values(operands.at(0));
    if (instruction.results.size() != 4) fail("operands of " + instruction.text);
    instruction.operands = {address(operands.at(1), instruction.offset)};
  }

  void decode_matrix_product(const std::string& opcode, const std::vector<std::string>& operands,
                             PtxInstruction& instruction) {
    static const std::map<std::string, MatrixElement> kProducts = {
        {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", MatrixElement::Bf16},
        {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", MatrixElement::F16},
        {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", MatrixElement::Tf32}};
    const auto found = kProducts.find(opcode);
    instruction.kind = PtxKind::MultiplyMatrices;
    if (found != kProducts.end()) {
      instruction.element = instruction.second_element = found->second;
    } else {
      decode_bytes(opcode, instruction);
    }
    instruction.results = values(operands.at(0));
    for (size_t i = 1; i < operands.size(); ++i) {
      const std::vector<int> part = values(operands[i]);
      instruction.operands.insert(instruction.operands.end(), part.begin(), part.end());
    }
    if (instruction.results.size() != 4 || instruction.operands.size() != 4 + 2 + 4)
      fail("operands of " + instruction.text);
  }

  // mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32: integers with each other, floats with each other.
  void decode_bytes(const std::string& opcode, PtxInstruction& instruction) const {
    static const std::map<std::string, MatrixElement> kElements = {{"s8", MatrixElement::S8},
                                                                   {"u8", MatrixElement::U8},
                                                                   {"e4m3", MatrixElement::E4M3},
                                                                   {"e5m2", MatrixElement::E5M2}};
    static const std::regex kForm(
        R"(mma\.sync\.aligned\.m16n8k32\.row\.col\.(?:s32\.([su]8)\.([su]8)\.s32|f32\.(e4m3|e5m2)\.(e4m3|e5m2)\.f32))");
    std::smatch found;
    if (!std::regex_match(opcode, found, kForm)) fail("an unknown instruction: " + opcode);
    const bool is_float = found[3].matched;
    if (is_float && std::stoi(program_.target.substr(3)) < 89)
      fail(opcode + " is of sm_89 and newer, not of " + program_.target);
    instruction.element = kElements.at(found[is_float ? 3 : 1]);
    instruction.second_element = kElements.at(found[is_float ? 4 : 2]);
  }

  void decode_warpgroup(const std::string& opcode, const std::vector<std::string>& operands,
                        PtxInstruction& instruction) {
    if (program_.target != "sm_90a") fail(opcode + " is of sm_90a, not of " + program_.target);
    program_.has_group_products = true;
    if (opcode.starts_with("wgmma.mma_async.")) {
      decode_group_product(opcode, operands, instruction);
    } else if (opcode == "wgmma.fence.sync.aligned" && operands.empty()) {
      instruction.kind = PtxKind::FenceProducts;
    } else if (opcode == "wgmma.commit_group.sync.aligned" && operands.empty()) {
      instruction.kind = PtxKind::CommitProducts;
    } else if (opcode == "wgmma.wait_group.sync.aligned" && operands.size() == 1) {
      instruction.kind = PtxKind::WaitForProducts;
      instruction.groups_left = std::stoul(operands[0]);
    } else {
      fail("an unknown instruction: " + instruction.text);
    }
  }

  // wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {sums}, first, second, adds, sign of the first, of the
  // second, turns the first (where that is in shared memory), turns the second. Only factors of 16 bits are
  // turned; integers have no signs either, and only 8, 24 and multiples of 16 columns.
  void decode_group_product(const std::string& opcode, const std::vector<std::string>& operands,
                            PtxInstruction& instruction) {
    static const std::regex kForm(
        R"(wgmma\.mma_async\.sync\.aligned\.m64n(\d+)(k\d+\.(?:f32|s32))\.(\w+)\.(\w+))");
    std::smatch found;
    if (!std::regex_match(opcode, found, kForm)) fail("an unknown instruction: " + opcode);
    PtxGroupProduct& product = instruction.group_product;
    instruction.kind = PtxKind::BeginProduct;
    find_group_elements(opcode, found[2], {found[3], found[4]}, product);
    product.columns = std::stoi(found[1]);
    product.is_first_in_registers = operands.size() > 1 && operands[1].starts_with('{');
    const bool is_half = in_register(product.element) == 2;
    if (product.is_first_in_registers && !is_half)
      fail("a first factor in registers that is not of 16 bits: " + opcode);
    const size_t signs = is_integer(product.element) ? 0 : 2, turns = !is_half                        ? 0
                                                                      : product.is_first_in_registers ? 1
                                                                                                      : 2;
    if (operands.size() != 4 + signs + turns) fail("operands of " + instruction.text);
    instruction.results = values(operands[0]);
    for (size_t i = 1; i < 4; ++i) {
      const std::vector<int> part = values(operands[i]);
      instruction.operands.insert(instruction.operands.end(), part.begin(), part.end());
    }
    const size_t first_registers = product.is_first_in_registers ? 4 : 1;
    const bool has_columns = product.columns % 8 == 0 && product.columns >= 8 && product.columns <= 256 &&
                             (!is_integer(product.element) || product.columns % 16 == 0 ||
                              product.columns == 8 || product.columns == 24);
    if (!has_columns || instruction.results.size() != size_t(product.columns / 2) ||
        instruction.operands.size() != first_registers + 2)
      fail("operands of " + instruction.text);
    if (signs > 0) {
      product.negates_first = one_of(operands[4], "1", "-1");
      product.negates_second = one_of(operands[5], "1", "-1");
    }
    if (turns == 2) product.turns_first = one_of(operands[6], "0", "1");
    if (turns > 0) product.turns_second = one_of(operands.back(), "0", "1");
  }

  // By what stands between the columns and the types.
  void find_group_elements(const std::string& opcode, const std::string& form,
                           const std::array<std::string, 2>& types, PtxGroupProduct& product) const {
    struct Known {
      const char *form, *type;
      MatrixElement element;
      bool is_mixed;  // with others of its form
    };
    static constexpr std::array<Known, 7> kKnown = {{
        {"k16.f32", "bf16", MatrixElement::Bf16, false},
        {"k16.f32", "f16", MatrixElement::F16, false},
        {"k8.f32", "tf32", MatrixElement::Tf32, false},
        {"k32.s32", "s8", MatrixElement::S8, true},
        {"k32.s32", "u8", MatrixElement::U8, true},
        {"k32.f32", "e4m3", MatrixElement::E4M3, true},
        {"k32.f32", "e5m2", MatrixElement::E5M2, true},
    }};
    const auto find = [&](const std::string& type) {
      const auto known = std::find_if(kKnown.begin(), kKnown.end(),
                                      [&](const Known& k) { return form == k.form && type == k.type; });
      if (known == kKnown.end()) fail("an unknown instruction: " + opcode);
      return *known;
    };
    const Known first = find(types[0]), second = find(types[1]);
    if (first.element != second.element && !first.is_mixed) fail("an unknown instruction: " + opcode);
    product.element = first.element;
    product.second_element = second.element;
  }

  bool one_of(const std::string& text, const char* no, const char* yes) const {
    if (text != no && text != yes) fail("an operand that is not understood: " + text);
    return text == yes;
  }

  void decode_operation(const std::string& opcode, const std::vector<std::string>& operands,
                        PtxInstruction& instruction) {
    const bool packs = operands.size() == 2 && operands[1].starts_with('{');
    const bool unpacks = operands.size() == 2 && operands[0].starts_with('{');
    if (opcode.starts_with("mov.b") && (packs || unpacks)) {
      const int bits = std::stoi(opcode.substr(5));
      return packs ? decode_pack(bits, operands, instruction) : decode_unpack(bits, operands, instruction);
    }
    const auto operation = find_operation(opcode);
    if (!operation) fail("an unknown instruction: " + opcode);
    if (operands.size() != static_cast<size_t>(operation->operands) + 1)
      fail("operands of " + instruction.text);
    instruction.operation = *operation;
    instruction.results = {value(operands[0])};
    for (size_t i = 1; i < operands.size(); ++i) instruction.operands.push_back(value(operands[i]));
  }

  // mov.b32 %r1, {%rs1, %rs2}: the first one has the low bits.
  void decode_pack(int bits, const std::vector<std::string>& operands, PtxInstruction& instruction) {
    instruction.results = {value(operands[0])};
    instruction.operands = values(operands[1]);
    const int count = static_cast<int>(instruction.operands.size()), part = bits / count;
    instruction.operation = {count, [=](const uint64_t* parts) {
                               uint64_t whole = 0;
                               for (int i = 0; i < count; ++i) {
                                 whole |= (parts[i] & ((uint64_t{1} << part) - 1)) << (i * part);
                               }
                               return whole;
                             }};
  }

  // One instruction for each part; the last one is the caller's to add.
  void decode_unpack(int bits, const std::vector<std::string>& operands, PtxInstruction& instruction) {
    const std::vector<int> results = values(operands[0]);
    const int part = bits / static_cast<int>(results.size());
    instruction.operands = {value(operands[1])};
    for (size_t i = 0; i < results.size(); ++i) {
      const int shift = static_cast<int>(i) * part;
      instruction.results = {results[i]};
      instruction.operation = {
          1, [=](const uint64_t* whole) { return whole[0] >> shift & ((uint64_t{1} << part) - 1); }};
      if (i + 1 < results.size()) program_.instructions.push_back(instruction);
    }
  }

  std::string_view text_;
  std::map<std::string, size_t> labels_;
  std::vector<std::pair<size_t, std::string>> branches_;
};

}  // namespace

PtxProgram parse_ptx(std::string_view text) { return Parser(text).parse(); }

}  // namespace tilefuse
