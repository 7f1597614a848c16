#include "codegen/emit.h"

#include "codegen/fill_in.h"
#include "codegen/wrap_line.h"
#include "core/match.h"
#include "core/result.h"
#include "core/source_writer.h"

namespace tilefuse {
namespace {

constexpr size_t kIndent = 2, kNoteColumn = 70;

class Emitter {
 public:
  Emitter(const Kernel& kernel, const Dialect& dialect, SourceWriter& out)
      : kernel_(kernel), dialect_(dialect), out_(out) {}

  void function() {
    for (const std::string& label : kernel_.header) {
      for (const std::string& line : wrap_labelled(label, kSourceColumns - 3)) out_.comment(line);
    }
    const bool has_threads = kernel_.threads > 0;
    nested(head() + (has_threads ? arguments() : parameters()), "", kernel_.body);
  }

 private:
  std::string head() const {
    if (kernel_.threads == 0) return fill_in(dialect_.function, {kernel_.name});
    const std::string cluster =
        kernel_.cluster > 1 ? fill_in(dialect_.cluster, {std::to_string(kernel_.cluster)}) : "";
    return fill_in(dialect_.function, {cluster, std::to_string(kernel_.threads), kernel_.name});
  }

  // Parameters that the body does not use have no name: compilers warn otherwise.
  std::string parameters() const {
    std::vector<bool> used(dialect_.parameters.size(), false);
    mark_used(kernel_.body, used);
    std::string text = "(";
    for (size_t i = 0; i < used.size(); ++i) {
      if (i > 0) text += ", ";
      text += dialect_.parameters[i];
      if (used[i]) text += " " + kernel_.symbols[i].name;
    }
    return text + ")";
  }

  // One by one; no two of them point into the same memory.
  std::string arguments() const {
    std::string text = "(";
    for (const SymbolId argument : kernel_.arguments) {
      const CodeType type = kernel_[argument].type;
      const bool is_pointer = type.shape == CodeShape::Pointer || type.shape == CodeShape::ConstPointer;
      text += (text.size() == 1 ? "" : ", ") + spell(type, dialect_);
      text += (is_pointer ? " __restrict__ " : " ") + name(argument);
    }
    return text + ")";
  }

  static void mark_used(const Block& block, std::vector<bool>& used) {
    for (const Stmt& stmt : block) {
      for_each_code(stmt, [&](const Code& code) {
        for_each_reference(code, [&](SymbolId symbol) {
          if (symbol.index < used.size()) used[symbol.index] = true;
        });
      });
      if (const Block* body = body_of(stmt)) mark_used(*body, used);
    }
  }

  void block(const Block& stmts) {
    for (const Stmt& stmt : stmts) {
      match(
          stmt.kind, [&](const Let& let) { declare(let.symbol, let.value, stmt.note); },
          [&](const LetPair& let) {
            line(fill_in("const auto [$, $] = $;", {name(let.first), name(let.second), text(let.value)}),
                 stmt.note);
          },
          [&](const Var& var) { declare(var, stmt.note); },
          [&](const Assign& assign) { this->assign(assign, stmt.note); },
          [&](const Effect& effect) { line(text(effect.call).append(";"), stmt.note); },
          [&](const For& loop) { this->loop(loop); },
          [&](const If& branch) {
            nested(fill_in("if ($)", {text(branch.condition)}), stmt.note, branch.body);
          },
          [&](const Function& function) { this->function(function, stmt.note); },
          [&](const Return& returned) { line(fill_in("return $;", {text(returned.value)})); },
          [&](const Blank&) { out_.blank(); });
    }
  }

  void function(const Function& function, const std::string& note) {
    std::string parameters;
    for (const SymbolId parameter : function.parameters) {
      parameters += parameters.empty() ? "" : ", ";
      parameters += spell(kernel_[parameter].type, dialect_) + " " + name(parameter);
    }
    nested(fill_in("const auto $ = [&]($)", {name(function.symbol), parameters}), note, function.body, "};");
  }

  void declare(SymbolId symbol, const Code& value, const std::string& note) {
    const CodeType type = kernel_[symbol].type;
    // A pointer to const says so in its type already.
    const bool is_pointer = type.shape == CodeShape::Pointer || type.shape == CodeShape::ConstPointer;
    line(fill_in(is_pointer ? "$ $ = $;" : "const $ $ = $;",
                 {spell(type, dialect_), name(symbol), text(value)}),
         note);
  }

  void declare(const Var& var, const std::string& note) {
    std::string line = var.is_shared ? dialect_.shared : "";
    line += fill_in("$ $", {spell(kernel_[var.symbol].type, dialect_), name(var.symbol)});
    if (var.count > 1) line += fill_in("[$]", {std::to_string(var.count)});
    if (var.initial) line += fill_in(" = $", {text(*var.initial)});
    this->line(line.append(";"), note);
  }

  void assign(const Assign& assign, const std::string& note) {
    if (!assign.op) {
      line(fill_in("$ = $;", {text(assign.target), text(assign.value)}), note);
      return;
    }
    TILEFUSE_CHECK(*assign.op == CodeOperator::Add || *assign.op == CodeOperator::Mul,
                   "an assignment with an operator other than + and *");
    const char* pattern = *assign.op == CodeOperator::Add ? "$ += $;" : "$ *= $;";
    line(fill_in(pattern, {text(assign.target), text(assign.value)}), note);
  }

  void loop(const For& loop) {
    if (loop.unroll > 1) line(fill_in(dialect_.unroll, {std::to_string(loop.unroll)}));
    const std::string index = name(loop.index);
    const std::string step =
        loop.step == 1 ? fill_in("++$", {index}) : fill_in("$ += $", {index, std::to_string(loop.step)});
    nested(fill_in("for ($ $ = $; $ < $; $)", {spell(kernel_[loop.index].type, dialect_), index,
                                               text(loop.first), index, text(loop.last), step}),
           loop.axis.empty() ? "" : "axis " + loop.axis, loop.body);
  }

  // A line with its note behind it where that fits, broken where it is too long. (A note stands behind the
  // opening brace of a block, too, which is why blocks are written here.)
  void line(std::string text, const std::string& note = "") {
    const std::string indent(depth_ * kIndent, ' ');
    const size_t columns = kSourceColumns - indent.size();
    if (!note.empty() && text.size() + note.size() + 5 <= columns) {
      const size_t column = kNoteColumn - std::min(kNoteColumn, indent.size());
      text.append(text.size() + 2 < column ? column - text.size() : 2, ' ').append("// ").append(note);
    }
    for (const std::string& part : wrap_line(text, columns)) out_.line("$", {indent + part});
  }

  void nested(const std::string& head, const std::string& note, const Block& body,
              const std::string& end = "}") {
    line(head + " {", note);
    ++depth_;
    block(body);
    --depth_;
    line(end);
  }

  std::string text(const Code& code) const { return spell(code, kernel_, dialect_); }
  const std::string& name(SymbolId symbol) const { return kernel_[symbol].name; }

  const Kernel& kernel_;
  const Dialect& dialect_;
  SourceWriter& out_;
  size_t depth_ = 0;
};

}  // namespace

const Dialect& cpu_dialect() {
  static constexpr Dialect kCpu = {
      .name = "cpu",
      .lanes_macro = "#define TILEFUSE_LANES $",
      .include = "#include \"tilefuse_cpu.h\"",
      .scalar_types = {"bool", "unsigned char", "signed char", "short", "int", "int64_t", "f16", "bf16",
                       "float", "double", "f8e4m3fn", "f8e5m2"},
      .vector_type = "Vec<$>",
      .mask_type = "Mask",
      .four_type = "Four<$>",
      .tensor_map = "",
      .function = "extern \"C\" void $",
      .cluster = "",
      .parameters = {"const void* const*", "const int64_t*", "int64_t", "int64_t", "void*"},
      .unroll = "#pragma GCC unroll $",
      .shared = "",
      .name_space = "",
  };
  return kCpu;
}

const Dialect& cuda_dialect() {
  static constexpr Dialect kCuda = {
      .name = "cuda",
      .lanes_macro = "#define TILEFUSE_LANES $",
      .include = "#include \"tilefuse_cuda.h\"",
      .scalar_types = {"bool", "unsigned char", "signed char", "short", "int", "int64_t", "f16", "bf16",
                       "float", "double", "f8e4m3fn", "f8e5m2"},
      .vector_type = "Vec<$>",
      .mask_type = "Mask",
      .four_type = "",
      .tensor_map = "const __grid_constant__ TensorMap",
      // 1: rather fewer blocks at a time than registers in memory.
      .function = "extern \"C\" __global__ void $__launch_bounds__($, 1) $",
      .cluster = "__cluster_dims__($) ",
      .parameters = {},
      .unroll = "#pragma unroll $",
      .shared = "__shared__ ",
      .name_space = "tile",
  };
  return kCuda;
}

std::string emit(const std::vector<Kernel>& kernels, const Dialect& dialect) {
  TILEFUSE_CHECK(!kernels.empty(), "emit: no kernels");
  SourceWriter out;
  out.line(dialect.lanes_macro, {kernels.front().lanes});
  out.line(dialect.include);
  const bool has_name_space = *dialect.name_space != '\0';
  if (has_name_space) {
    out.blank();
    out.line("namespace $ {", {dialect.name_space});
  }
  for (const Kernel& kernel : kernels) {
    TILEFUSE_CHECK(kernel.lanes == kernels.front().lanes,
                   "emit: kernels with different numbers of lanes: " + kernel.name);
    out.blank();
    Emitter(kernel, dialect, out).function();
  }
  if (has_name_space) {
    out.blank();
    out.line("}  // namespace $", {dialect.name_space});
  }
  return out.text();
}

}  // namespace tilefuse
