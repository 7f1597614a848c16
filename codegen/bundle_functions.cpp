#include "codegen/bundle_functions.h"

#include "codegen/bundle_body.h"
#include "codegen/bundle_header.h"
#include "codegen/bundle_status.h"
#include "codegen/c_names.h"

namespace tilefuse {
namespace {

class FunctionWriter {
 public:
  FunctionWriter(SourceWriter& out, const BundlePlan& plan, const BundleRequest& request)
      : out_(out),
        plan_(plan),
        request_(request),
        lower_(request.name),
        upper_(upper_case(request.name)),
        symbols_(bundle_symbols(plan)) {}

  void write() {
    write_error_text();
    write_read_sizes();
    write_output_sizes();
    write_workspace_bytes();
    if (request_.state_bytes > 0) write_init_state();
    write_run();
  }

 private:
  bool has_weights() const { return request_.weights_bytes > 0; }
  bool is_beside() const { return !request_.weights_mark.empty(); }
  std::string spell(const std::vector<Expr>& exprs) const { return spell_sizes(exprs, symbols_); }

  void write_error_text() {
    {
      auto block = out_.block("extern \"C\" const char* $_error_text(int status)", {lower_});
      auto cases = out_.block("switch (status)");
      for (const BundleStatus& status : kBundleStatuses) write_texts(status);
      out_.line("default: return \"no status of this library\";");
    }
    out_.blank();
  }

  void write_texts(const BundleStatus& status) {
    const auto one = [&](size_t number, const std::string& text) {
      out_.line("case $ + kStatusNumber * $: return \"$\";", {status.name, number, text});
    };
    switch (status.subject) {
      case StatusSubject::Call:
        return one(0, status.text);
      case StatusSubject::Size:
        for (size_t i = 0; i < plan_.symbols.size(); ++i) {
          const SymbolBinding& symbol = plan_.symbols[i];
          one(i, "size " + c_identifier(symbol.symbol) + ", dimension " + std::to_string(symbol.dim) +
                     " of input " + plan_.inputs[size_t(symbol.position)].spec.name + ", " + status.text +
                     ": " + shown_range(symbol.range));
        }
        return;
      case StatusSubject::Input:
        for (size_t i = 0; i < plan_.inputs.size(); ++i)
          one(i, about("input ", plan_.inputs[i].spec, status));
        return;
      case StatusSubject::Output:
        for (size_t i = 0; i < plan_.outputs.size(); ++i)
          one(i, about("output ", plan_.outputs[i].tensor.spec, status));
        return;
    }
  }

  static std::string about(const std::string& kind, const TensorSpec& spec, const BundleStatus& status) {
    return kind + spec.name + " " + status.text + "; it is " + shown_type(spec);
  }

  void write_read_sizes() {
    {
      auto block = out_.block("extern \"C\" int $_read_sizes(const $_tensor* inputs, int64_t* sizes)",
                              {lower_, lower_});
      out_.line("if ($_SIZES == 0) return OK;", {upper_});
      out_.line("if (inputs == nullptr || sizes == nullptr) return BAD_ARGUMENT;");
      out_.line("return read_sizes(inputs, kInputs, kSymbols, $_SIZES, sizes);", {upper_});
    }
    out_.blank();
  }

  void write_output_sizes() {
    {
      auto block = out_.block(
          "extern \"C\" int $_output_sizes(int output, const int64_t* sizes, int64_t* result)", {lower_});
      out_.line("if (result == nullptr || (sizes == nullptr && $_SIZES > 0)) return BAD_ARGUMENT;", {upper_});
      out_.line("const int status = check_sizes(kSymbols, $_SIZES, sizes);", {upper_});
      out_.line("if (status != OK) return status;");
      for (size_t i = 0; i < plan_.outputs.size(); ++i) {
        const TensorSpec& spec = plan_.outputs[i].tensor.spec;
        auto scope = out_.block("if (output == $)", {i});
        out_.line("const int64_t values[] = {$};", {spell(spec.sizes)});
        out_.line("memcpy(result, values, $ * sizeof(int64_t));", {spec.sizes.size()});
        out_.line("return OK;");
      }
      out_.line("return BAD_ARGUMENT;");
    }
    out_.blank();
  }

  void write_workspace_bytes() {
    {
      auto block =
          out_.block("extern \"C\" size_t $_workspace_bytes(const int64_t* sizes, const $_threads* threads)",
                     {lower_, lower_});
      out_.line("if ((sizes == nullptr && $_SIZES > 0) || !are_threads(threads)) return 0;", {upper_});
      out_.line("if (check_sizes(kSymbols, $_SIZES, sizes) != OK) return 0;", {upper_});
      out_.line("return size_t(planned_bytes(sizes) + task_bytes(sizes) * count_of(threads));");
    }
    out_.blank();
  }

  // How the weights are reached: a distance that the linker knows needs no relocation, however far they lie.
  void write_weights(const std::string& otherwise) {
    if (!has_weights()) {
      out_.line("const char* weights_at = nullptr;");
    } else if (!is_beside()) {
      out_.line("const char* weights_at = (const char*)&$_weights_distance + $_weights_distance;",
                {lower_, lower_});
    } else {
      out_.line("if (weights == nullptr || memcmp(weights, \"$\", $) != 0) return BAD_WEIGHTS;",
                {request_.weights_mark, kWeightsMarkBytes});
      out_.line("const char* weights_at = (const char*)weights + $;", {kWeightsMarkBytes});
    }
    out_.line("$", {otherwise});
  }

  void write_init_state() {
    {
      auto block = out_.block("extern \"C\" int $_init_state(void* state$)",
                              {lower_, is_beside() ? ", const void* weights" : ""});
      write_weights("if (state == nullptr) return BAD_ARGUMENT;");
      for (const StateRange& range : request_.state) {
        out_.line("memcpy((char*)state + $, weights_at + $, $);",
                  {range.state_offset, range.weights_offset, range.bytes});
      }
      out_.line("return OK;");
    }
    out_.blank();
  }

  void write_run() {
    const std::string state = request_.state_bytes > 0 ? "void* state, " : "";
    const std::string weights = is_beside() ? "const void* weights, " : "";
    out_.line("extern \"C\" int $_run(const $_tensor* inputs, const $_tensor* outputs, void* workspace,",
              {lower_, lower_, lower_});
    auto block = out_.block("               size_t workspace_bytes, $const $_threads* threads)",
                            {state + weights, lower_});
    out_.line(
        "if ((inputs == nullptr && $_INPUTS > 0) || (outputs == nullptr && $_OUTPUTS > 0)) return "
        "BAD_ARGUMENT;",
        {upper_, upper_});
    out_.line("if (workspace == nullptr) return BAD_ARGUMENT;");
    out_.line("if (!are_threads(threads)) return BAD_THREADS;");
    out_.line("if (!processor_has($_needs)) return BAD_PROCESSOR;", {lower_});
    write_weights(state.empty() ? "void* state = nullptr;" : "if (state == nullptr) return BAD_ARGUMENT;");
    out_.line("int64_t sizes[$_SIZES + 1];", {upper_});
    out_.line("int status = read_sizes(inputs, kInputs, kSymbols, $_SIZES, sizes);", {upper_});
    out_.line("if (status == OK) status = check_inputs(inputs, sizes);");
    out_.line("if (status == OK) status = check_outputs(outputs, sizes);");
    out_.line("if (status != OK) return status;");
    out_.line("const bool is_aligned = (uintptr_t)workspace % kAlign == 0;");
    out_.line("if (!is_aligned || workspace_bytes < $_workspace_bytes(sizes, threads)) return BAD_WORKSPACE;",
              {lower_});
    out_.line("return run_all(inputs, outputs, (char*)workspace, (char*)state, weights_at, sizes, threads);");
  }

  SourceWriter& out_;
  const BundlePlan& plan_;
  const BundleRequest& request_;
  std::string lower_, upper_;
  SymbolSpellings symbols_;
};

}  // namespace

void write_bundle_functions(SourceWriter& out, const BundlePlan& plan, const BundleRequest& request) {
  FunctionWriter(out, plan, request).write();
}

}  // namespace tilefuse
