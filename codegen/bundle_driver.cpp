#include "codegen/bundle_driver.h"

#include "codegen/bundle_body.h"
#include "codegen/bundle_functions.h"
#include "codegen/bundle_status.h"
#include "codegen/c_names.h"
#include "codegen/runtime/cpu_runtime.h"
#include "codegen/spell_size.h"
#include "core/source_writer.h"

namespace tilefuse {
namespace {

class DriverWriter {
 public:
  DriverWriter(const Executable& executable, const BundlePlan& plan, const BundleRequest& request)
      : executable_(executable),
        plan_(plan),
        request_(request),
        lower_(request.name),
        upper_(upper_case(request.name)),
        symbols_(bundle_symbols(plan)) {}

  std::string write(const std::string& header_file) {
    write_front(header_file);
    write_declarations();
    {
      out_.line("namespace {");
      out_.blank();
      write_tables();
      write_check("check_inputs", "inputs", "INPUT", input_specs());
      write_check("check_outputs", "outputs", "OUTPUT", output_specs());
      write_bytes();
      write_bundle_body(out_, executable_, plan_, request_);
      out_.line("}  // namespace");
      out_.blank();
    }
    write_bundle_functions(out_, plan_, request_);
    return out_.text();
  }

 private:
  std::string spell(const Expr& expr) const { return spell_size(expr, symbols_); }
  std::string spell(const std::vector<Expr>& exprs) const { return spell_sizes(exprs, symbols_); }

  std::vector<TensorSpec> input_specs() const {
    std::vector<TensorSpec> specs;
    specs.reserve(plan_.inputs.size());
    for (const BundleTensor& input : plan_.inputs) specs.push_back(input.spec);
    return specs;
  }
  std::vector<TensorSpec> output_specs() const {
    std::vector<TensorSpec> specs;
    specs.reserve(plan_.outputs.size());
    for (const BundleOutput& output : plan_.outputs) specs.push_back(output.tensor.spec);
    return specs;
  }

  // ------------------------------------------------------------ front matter
  void write_front(const std::string& header_file) {
    out_.line("// How the model runs, made by tilefuse bundle. Its kernels are sources of their own.");
    out_.line("#pragma GCC visibility push(default)");
    out_.line("#include \"$\"", {header_file});
    out_.line("#pragma GCC visibility pop");
    out_.blank();
    out_.line("namespace {");
    out_.line("using Tensor = $_tensor;", {lower_});
    out_.line("using Threads = $_threads;", {lower_});
    out_.line("constexpr int kStatusNumber = $;", {kStatusNumber});
    {
      auto block = out_.block("enum Status : int", {}, "};");
      for (const BundleStatus& status : kBundleStatuses) {
        out_.line("$ = $_$,", {status.name, upper_, status.name});
      }
    }
    out_.line("}  // namespace");
    out_.line("$", {bundle_processor_text()});
    out_.line("$", {bundle_runtime_text()});
  }

  void write_declarations() {
    auto block = out_.block("extern \"C\"");
    out_.line("extern const uint32_t $_needs[];", {lower_});
    const bool is_inside = request_.weights_bytes > 0 && request_.weights_mark.empty();
    if (is_inside) out_.line("extern const int64_t $_weights_distance;", {lower_});
    for (size_t r = 0; r < executable_.regions.size(); ++r) {
      for (const tilefuse::Launch& launch : executable_.regions[r].program.launches) {
        out_.line("void $(const void* const*, const int64_t*, int64_t, int64_t, void*);",
                  {bundle_symbol(request_, r, launch.symbol)});
      }
    }
  }

  void write_tables() {
    {
      auto block = out_.block("constexpr Symbol kSymbols[$_SIZES + 1] =", {upper_}, "};");
      for (const SymbolBinding& s : plan_.symbols) {
        out_.line("{$, $, $, $, $, $, $},  // $",
                  {s.position, s.dim, s.factor, s.offset, s.range.low, s.range.high, s.range.multiple_of,
                   c_identifier(s.symbol)});
      }
    }
    write_facts("kInputs", "INPUTS", input_specs());
    write_facts("kOutputs", "OUTPUTS", output_specs());
    out_.blank();
  }

  void write_facts(const std::string& table, const std::string& count, const std::vector<TensorSpec>& specs) {
    auto block = out_.block("constexpr TensorFacts $[$_$ + 1] =", {table, upper_, count}, "};");
    for (const TensorSpec& spec : specs) {
      out_.line("{$_$, $},  // $", {upper_, upper_case(info(spec.dtype).name), spec.sizes.size(), spec.name});
    }
  }

  // ------------------------------------------------------------ checks
  void write_check(const std::string& function, const std::string& tensors, const std::string& kind,
                   const std::vector<TensorSpec>& specs) {
    {
      auto block = out_.block("int $(const Tensor* $, const int64_t* sizes)", {function, tensors});
      for (size_t i = 0; i < specs.size(); ++i) {
        auto scope = out_.block("");
        out_.line("const int64_t wanted[] = {$}, strides[] = {$};",
                  {spell(specs[i].sizes), spell(specs[i].strides)});
        out_.line("const Fault fault = fault_of($[$], k$s[$], wanted, strides);",
                  {tensors, i, kind == "INPUT" ? "Input" : "Output", i});
        out_.line("if (fault != kNoFault) return BAD_$_DTYPE + fault + kStatusNumber * $;", {kind, i});
      }
      out_.line("return OK;");
    }
    out_.blank();
  }

  // ------------------------------------------------------------ memory
  void write_bytes() {
    {
      auto block = out_.block("int64_t planned_bytes(const int64_t* sizes)");
      out_.line("return rounded_up($);", {spell(plan_.workspace_bytes)});
    }
    out_.blank();
    {
      auto block = out_.block("int64_t task_bytes(const int64_t* sizes)");
      out_.line("int64_t bytes = kAlign;");
      for (const CompiledRegion& region : executable_.regions) {
        for (const tilefuse::Launch& launch : region.program.launches) {
          if (launch.scratch_bytes.is_constant(0)) continue;
          out_.line("bytes = largest(bytes, $);", {spell(launch.scratch_bytes)});
        }
      }
      out_.line("return rounded_up(bytes);");
    }
    out_.blank();
  }

  const Executable& executable_;
  const BundlePlan& plan_;
  const BundleRequest& request_;
  std::string lower_, upper_;
  SymbolSpellings symbols_;
  SourceWriter out_;
};

}  // namespace

std::string bundle_driver(const Executable& executable, const BundlePlan& plan, const BundleRequest& request,
                          const std::string& header_file) {
  return DriverWriter(executable, plan, request).write(header_file);
}

}  // namespace tilefuse
