#include "codegen/bundle_header.h"

#include <algorithm>

#include "codegen/bundle_status.h"
#include "codegen/c_names.h"
#include "core/source_writer.h"

namespace tilefuse {
namespace {

std::string listed(const std::vector<Expr>& exprs) {
  std::string text;
  for (const Expr& expr : exprs) text += (text.empty() ? "" : ", ") + to_text(expr);
  return "[" + text + "]";
}

// Symbols may be called anything; what is shown of them must not end a comment or a string.
std::string printable(std::string text) {
  const auto is_harmful = [](char c) { return c < ' ' || c > '~' || c == '\\' || c == '"'; };
  std::replace_if(text.begin(), text.end(), is_harmful, '?');
  return text;
}

class HeaderWriter {
 public:
  HeaderWriter(const BundlePlan& plan, const BundleRequest& request)
      : plan_(plan), request_(request), lower_(request.name), upper_(upper_case(request.name)) {}

  std::string write() {
    write_contract();
    out_.line("#ifndef $_H", {upper_});
    out_.line("#define $_H", {upper_});
    out_.line("#include <stddef.h>");
    out_.line("#include <stdint.h>");
    out_.blank();
    out_.line("#ifdef __cplusplus");
    out_.line("extern \"C\" {");
    out_.line("#endif");
    out_.blank();
    write_numbers();
    write_dtypes();
    write_statuses();
    write_types();
    write_functions();
    out_.line("#ifdef __cplusplus");
    out_.line("}");
    out_.line("#endif");
    out_.line("#endif");
    return out_.text();
  }

 private:
  void write_contract() {
    out_.line("// $ as a C library, made by tilefuse bundle.", {printable(request_.origin)});
    out_.line("//");
    for (size_t i = 0; i < plan_.inputs.size(); ++i) {
      const BundleTensor& input = plan_.inputs[i];
      out_.line("// input $   $: $",
                {i, input.spec.name, shown_type(input.spec) + (input.is_written ? ", written" : "")});
    }
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const TensorSpec& spec = plan_.outputs[i].tensor.spec;
      out_.line("// output $  $: $", {i, spec.name, shown_type(spec)});
    }
    for (size_t i = 0; i < plan_.symbols.size(); ++i) {
      const SymbolBinding& symbol = plan_.symbols[i];
      out_.line("// size $    $: $; dimension $ of $ is $",
                {i, printable(symbol.symbol), shown_range(symbol.range), symbol.dim,
                 plan_.inputs[size_t(symbol.position)].spec.name, size_of(symbol)});
    }
    out_.line("//");
    out_.line(
        "// A tensor is contiguous where no strides stand behind its sizes. No output overlaps another "
        "tensor.");
    out_.line("// Calls may run at the same time, each with a workspace$ of its own.",
              {request_.state_bytes > 0 ? " and a state" : ""});
  }

  std::string size_of(const SymbolBinding& symbol) const {
    return printable(to_text(plan_.inputs[size_t(symbol.position)].spec.sizes[size_t(symbol.dim)]));
  }
  void write_numbers() {
    out_.line("enum { $_INPUTS = $, $_OUTPUTS = $, $_SIZES = $ };",
              {upper_, plan_.inputs.size(), upper_, plan_.outputs.size(), upper_, plan_.symbols.size()});
    write_places("INPUT", plan_.inputs.size(), [&](size_t i) { return plan_.inputs[i].spec.name; });
    write_places("OUTPUT", plan_.outputs.size(), [&](size_t i) { return plan_.outputs[i].tensor.spec.name; });
    write_places("SIZE", plan_.symbols.size(), [&](size_t i) { return plan_.symbols[i].symbol; });
    if (request_.state_bytes > 0) out_.line("#define $_STATE_BYTES $", {upper_, request_.state_bytes});
    if (!request_.weights_mark.empty()) {
      out_.line("#define $_WEIGHTS_BYTES $", {upper_, request_.weights_bytes + kWeightsMarkBytes});
    }
    out_.blank();
  }

  template <class Name>
  void write_places(const std::string& kind, size_t count, Name name) {
    CNames names;
    for (size_t i = 0; i < count; ++i) {
      out_.line("enum { $_$_$ = $ };", {upper_, kind, names.add(upper_case(name(i))), i});
    }
  }

  void write_dtypes() {
    out_.line("// Element types. A bool is a byte, 0 or 1.");
    auto block = out_.block("enum", {}, "};");
    for (int i = 0; i <= int(DType::F8E8M0FNU); ++i) {
      out_.line("$_$ = $,", {upper_, upper_case(info(DType(i)).name), i});
    }
  }

  void write_statuses() {
    out_.blank();
    out_.line(
        "// What functions return: $_OK, or a kind plus $ times the number of the input, output or size.",
        {upper_, kStatusNumber});
    {
      auto block = out_.block("enum", {}, "};");
      for (const BundleStatus& status : kBundleStatuses)
        out_.line("$_$ = $,", {upper_, status.name, status.kind});
    }
    out_.blank();
  }

  void write_types() {
    {
      auto block = out_.block("typedef struct $_tensor", {lower_}, "} " + lower_ + "_tensor;");
      out_.line("void* data;              // aligned as its elements are; NULL if there are none");
      out_.line("const int64_t* sizes;    // rank of them");
      out_.line("const int64_t* strides;  // in elements; NULL: those that stand above");
      out_.line("int32_t rank;");
      out_.line("int32_t dtype;           // $_F32, ...", {upper_});
    }
    out_.blank();
    out_.line(
        "// Threads of the caller's. parallel_for calls task(context, i) once for every i from 0 to tasks - "
        "1, on any");
    out_.line("// threads, and returns when all have returned; tasks is never more than count.");
    out_.line("typedef void (*$_task)(void* context, int64_t i);", {lower_});
    auto block = out_.block("typedef struct $_threads", {lower_}, "} " + lower_ + "_threads;");
    out_.line("int32_t count;");
    out_.line("void (*parallel_for)(void* pool, int64_t tasks, $_task task, void* context);", {lower_});
    out_.line("void* pool;              // passed on");
  }

  void write_functions() {
    out_.blank();
    out_.line("const char* $_error_text(int status);", {lower_});
    out_.blank();
    out_.line("// Reads the $_SIZES sizes off the inputs, and checks their ranges.", {upper_});
    out_.line("int $_read_sizes(const $_tensor* inputs, int64_t* sizes);", {lower_, lower_});
    out_.blank();
    out_.line("// The sizes of an output; `result` has room for as many as its rank.");
    out_.line("int $_output_sizes(int output, const int64_t* sizes, int64_t* result);", {lower_});
    out_.blank();
    out_.line(
        "// What $_run needs for these sizes and threads (NULL: the calling thread alone). 0: they are out "
        "of range.",
        {lower_});
    out_.line("size_t $_workspace_bytes(const int64_t* sizes, const $_threads* threads);", {lower_, lower_});
    out_.blank();
    if (request_.state_bytes > 0) write_state();
    write_run();
    out_.blank();
  }

  void write_state() {
    out_.line(
        "// The values that the program starts with. The state is what it remembers from call to call: "
        "$_STATE_BYTES",
        {upper_});
    out_.line("// bytes, aligned to 64, of the caller's.");
    out_.line("int $_init_state(void* state$);", {lower_, weights_parameter()});
    out_.blank();
  }

  std::string weights_parameter() const {
    return request_.weights_mark.empty() ? "" : ", const void* weights";
  }

  void write_run() {
    out_.line("// Runs the model. Allocates nothing. The workspace is aligned to 64 bytes.");
    if (!request_.weights_mark.empty()) {
      out_.line("// weights: the bytes of the file of weights, $_WEIGHTS_BYTES of them, aligned to 64.",
                {upper_});
    }
    out_.line(
        "int $_run(const $_tensor* inputs, const $_tensor* outputs, void* workspace, size_t workspace_bytes,",
        {lower_, lower_, lower_});
    const std::string indent(lower_.size() + 9, ' ');
    const std::string state = request_.state_bytes > 0 ? "void* state, " : "";
    const std::string weights = request_.weights_mark.empty() ? "" : "const void* weights, ";
    out_.line("$const $_threads* threads);", {indent + state + weights, lower_});
  }

  const BundlePlan& plan_;
  const BundleRequest& request_;
  std::string lower_, upper_;
  SourceWriter out_;
};

}  // namespace

std::string shown_type(const TensorSpec& spec) {
  std::string text = info(spec.dtype).name + listed(spec.sizes);
  if (spec.strides != contiguous_strides(spec.sizes)) text += ", strides " + listed(spec.strides);
  return printable(text);
}

std::string shown_range(const SymbolRange& range) {
  const bool is_open = range.high == SymbolRange{}.high;
  std::string text =
      "from " + std::to_string(range.low) + (is_open ? " up" : " to " + std::to_string(range.high));
  if (range.multiple_of > 1) text += ", a multiple of " + std::to_string(range.multiple_of);
  return text;
}

std::string bundle_header(const BundlePlan& plan, const BundleRequest& request) {
  return HeaderWriter(plan, request).write();
}

}  // namespace tilefuse
