// Imports captured graphs and evaluates them with the reference interpreter, for the comparison with eager.
//
//   import_eval graph.json inputs.bin outputs.bin [the next three ...]
//   import_eval --operators        lists the overloads of the operator table
//
// A tensor file is a sequence of tensors: a line "f32 2 3 4" (dtype, rank, extents), then the elements in
// row-major order, each eight bytes: floats as double, everything else as int64. Inputs are the tensor inputs
// in order; outputs are the tensor outputs in order, then what is written back into inputs.
//
// One line on standard output for each graph: "ok", "unsupported REASON" or "error MESSAGE", then a tab and
// the overloads that were expanded, then a tab and the operators that stayed calls.
#include <array>
#include <bit>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include "core/canonicalize.h"
#include "core/import/import_graph.h"
#include "core/import/operator_table.h"
#include "core/reference.h"

namespace {

using namespace tilefuse;

struct Summary {
  std::set<std::string> expanded, calls;
};

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

Summary summary_of(const Graph& graph) {
  Summary summary;
  for (const Node& node : graph.nodes) {
    const bool is_call = std::holds_alternative<Call>(node.op);
    if (!node.origin.empty()) (is_call ? summary.calls : summary.expanded).insert(node.origin);
  }
  return summary;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError("cannot read " + path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Tensor> read_tensors(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError("cannot read " + path);
  std::vector<Tensor> tensors;
  std::string header;
  while (std::getline(file, header)) {
    std::istringstream words(header);
    std::string dtype;
    size_t rank = 0;
    words >> dtype >> rank;
    std::vector<int64_t> shape(rank);
    for (int64_t& extent : shape) words >> extent;
    const std::optional<DType> known = parse_dtype(dtype);
    if (!known) throw UserError(path + ": unknown dtype " + dtype);
    Tensor tensor(*known, shape);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      std::array<char, 8> bytes{};
      file.read(bytes.data(), bytes.size());
      if (is_float(*known)) {
        tensor.set_float(i, std::bit_cast<double>(bytes));
      } else {
        tensor.set_int(i, std::bit_cast<int64_t>(bytes));
      }
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void write_tensor(std::ofstream& file, const Tensor& tensor) {
  file << info(tensor.dtype()).name << ' ' << tensor.shape().size();
  for (const int64_t extent : tensor.shape()) file << ' ' << extent;
  file << '\n';
  for (int64_t i = 0; i < tensor.count(); ++i) {
    const auto bits =
        is_float(tensor.dtype()) ? std::bit_cast<int64_t>(tensor.float_at(i)) : tensor.int_at(i);
    file.write(reinterpret_cast<const char*>(&bits), sizeof bits);
  }
}

std::string run(const std::string& graph_path, const std::string& input_path,
                const std::string& output_path) {
  const Result<Graph> graph = import_graph(read_text(graph_path));
  if (!graph) return "unsupported " + graph.unsupported().reason + "\t\t";
  const Summary summary = summary_of(*graph);
  const std::string operators = "\t" + joined(summary.expanded) + "\t" + joined(summary.calls);
  if (!summary.calls.empty()) return "unsupported calls" + operators;
  const std::vector<Tensor> inputs = read_tensors(input_path);
  const Result<ReferenceResult> result = evaluate(*graph, inputs, bind_symbols(*graph, inputs));
  if (!result) return "unsupported " + result.unsupported().reason + operators;
  const Graph canonical = canonicalize(*graph);
  const Result<ReferenceResult> again = evaluate(canonical, inputs, bind_symbols(canonical, inputs));
  if (again->outputs != result->outputs || again->mutations != result->mutations) {
    throw InternalError("canonicalize changed the results of " + to_text(*graph) + "to " +
                        to_text(canonical));
  }
  std::ofstream file(output_path, std::ios::binary);
  for (const ReferenceOutput& output : result->outputs) {
    if (const Tensor* tensor = std::get_if<Tensor>(&output)) write_tensor(file, *tensor);
  }
  for (const auto& [position, tensor] : result->mutations) write_tensor(file, tensor);
  return "ok" + operators;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1 && arguments[0] == "--operators") {
    for (const auto& family : aten::operator_families()) {
      for (const auto& row : family) std::cout << row.overload << '\n';
    }
    return 0;
  }
  for (size_t i = 0; i + 2 < arguments.size(); i += 3) {
    try {
      std::cout << run(arguments[i], arguments[i + 1], arguments[i + 2]) << '\n';
    } catch (const std::exception& error) {
      std::string message = error.what();
      for (char& c : message) c = c == '\n' || c == '\t' ? ' ' : c;
      std::cout << "error " << message << "\t\t\n";
    }
  }
  return 0;
}
