#include <map>
#include <set>

#include "codegen/emit.h"
#include "codegen/fill_in.h"
#include "codegen/kernel_ir.h"
#include "core/match.h"
#include "core/result.h"
#include "core/source_writer.h"

namespace tilefuse {
namespace {

// Types as the IRs print them.
constexpr Dialect kText = {
    .name = "text",
    .lanes_macro = "",
    .include = "",
    .scalar_types = {"bool", "u8", "i8", "i16", "i32", "i64", "f16", "bf16", "f32", "f64", "f8e4m3fn",
                     "f8e5m2"},
    .vector_type = "vector $",
    .mask_type = "mask",
    .four_type = "four $",
    .tensor_map = "tensor map",
    .function = "",
    .cluster = "",
    .parameters = {},
    .unroll = "",
    .shared = "",
    .name_space = "",
};

class Printer {
 public:
  explicit Printer(const Kernel& kernel) : kernel_(kernel) {}

  std::string print() {
    {
      std::string threads =
          kernel_.threads > 0 ? fill_in(", $ threads", {std::to_string(kernel_.threads)}) : "";
      if (kernel_.cluster > 1)
        threads += fill_in(", clusters of $ blocks", {std::to_string(kernel_.cluster)});
      const auto body = out_.block("kernel $, $ lanes$", {kernel_.name, kernel_.lanes, threads});
      block(kernel_.body);
    }
    return out_.text();
  }

 private:
  void block(const Block& stmts) {
    for (const Stmt& stmt : stmts) {
      match(
          stmt.kind,
          [&](const Let& let) {
            out_.line("let $: $ = $", {name(let.symbol), type(let.symbol), text(let.value)});
          },
          [&](const LetPair& let) {
            out_.line("let $, $: $ = $",
                      {name(let.first), name(let.second), type(let.first), text(let.value)});
          },
          [&](const Var& var) { this->var(var); },
          [&](const Assign& assign) {
            const bool adds = assign.op == CodeOperator::Add;
            out_.line(!assign.op ? "$ = $"
                      : adds     ? "$ += $"
                                 : "$ *= $",
                      {text(assign.target), text(assign.value)});
          },
          [&](const Effect& effect) { out_.line("$", {text(effect.call)}); },
          [&](const For& loop) {
            const std::string step = std::to_string(loop.step);
            const std::string walk = loop.axis.empty() ? step : step + ", axis " + loop.axis;
            const auto body = out_.block("for $ in [$, $) step $",
                                         {name(loop.index), text(loop.first), text(loop.last), walk});
            block(loop.body);
          },
          [&](const If& branch) {
            const auto body = out_.block("if $", {text(branch.condition)});
            block(branch.body);
          },
          [&](const Function& function) {
            std::string parameters;
            for (const SymbolId parameter : function.parameters)
              parameters += (parameters.empty() ? "" : ", ") + name(parameter) + ": " + type(parameter);
            const auto body = out_.block("function $($)", {name(function.symbol), parameters});
            block(function.body);
          },
          [&](const Return& returned) { out_.line("return $", {text(returned.value)}); },
          [](const Blank&) {});
    }
  }

  void var(const Var& var) {
    const std::string count = var.count > 1 ? fill_in("[$]", {std::to_string(var.count)}) : "";
    const std::string initial = var.initial ? " = " + text(*var.initial) : "";
    out_.line("$ $: $",
              {var.is_shared ? "shared" : "var", name(var.symbol) + count, type(var.symbol) + initial});
  }

  std::string text(const Code& code) const { return spell(code, kernel_, kText); }
  std::string type(SymbolId symbol) const { return spell(kernel_[symbol].type, kText); }
  const std::string& name(SymbolId symbol) const { return kernel_[symbol].name; }

  const Kernel& kernel_;
  SourceWriter out_;
};

class Verifier {
 public:
  explicit Verifier(const Kernel& kernel) : kernel_(kernel) {
    for (uint32_t i = 0; i <= kScratch.index; ++i) visible_.insert({i});
    visible_.insert(kernel.arguments.begin(), kernel.arguments.end());
  }

  std::vector<std::string> run() {
    block(kernel_.body);
    return std::move(findings_);
  }

 private:
  void define(SymbolId symbol, std::vector<SymbolId>& here) {
    if (!defined_.insert(symbol).second) findings_.push_back(kernel_[symbol].name + " is defined twice");
    visible_.insert(symbol);
    here.push_back(symbol);
  }

  void block(const Block& stmts) {
    std::vector<SymbolId> here;
    for (const Stmt& stmt : stmts) {
      for_each_code(stmt, [&](const Code& code) {
        for_each_reference(code, [&](SymbolId symbol) {
          if (visible_.contains(symbol)) return;
          findings_.push_back(kernel_[symbol].name + " is used where it is not defined");
        });
      });
      if (const auto* let = std::get_if<Let>(&stmt.kind)) define(let->symbol, here);
      if (const auto* pair = std::get_if<LetPair>(&stmt.kind)) {
        define(pair->first, here);
        define(pair->second, here);
      }
      if (const auto* var = std::get_if<Var>(&stmt.kind)) {
        variables_.insert(var->symbol);
        define(var->symbol, here);
      }
      if (const auto* assign = std::get_if<Assign>(&stmt.kind)) check_target(assign->target);
      if (const auto* loop = std::get_if<For>(&stmt.kind)) define(loop->index, here);
      if (const auto* function = std::get_if<Function>(&stmt.kind)) {
        define(function->symbol, here);
        for (const SymbolId parameter : function->parameters) define(parameter, here);
      }
      if (const Block* body = body_of(stmt)) block(*body);
    }
    for (const SymbolId symbol : here) visible_.erase(symbol);
  }

  void check_target(const Code& target) {
    const auto* ref = std::get_if<Reference>(&target.kind);
    if (ref == nullptr || variables_.contains(ref->symbol)) return;
    findings_.push_back(kernel_[ref->symbol].name + " is assigned to and is no variable");
  }

  const Kernel& kernel_;
  std::set<SymbolId> visible_, defined_, variables_;
  std::vector<std::string> findings_;
};

}  // namespace

std::string to_text(const Kernel& kernel) { return Printer(kernel).print(); }

void verify(const Kernel& kernel, std::string_view after_stage) {
  const std::vector<std::string> findings = Verifier(kernel).run();
  if (findings.empty()) return;
  std::string message = "verify kernel after " + std::string(after_stage) + ":";
  for (const std::string& finding : findings) message += "\n  " + finding;
  TILEFUSE_CHECK(findings.empty(), message + "\n" + to_text(kernel));
}

}  // namespace tilefuse
