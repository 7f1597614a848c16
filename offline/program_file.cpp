#include "offline/program_file.h"

#include <algorithm>
#include <limits>
#include <map>

#include "core/import/document.h"
#include "core/import/field.h"
#include "core/import/import_graph.h"
#include "core/import/metadata.h"
#include "core/unproven_reads.h"
#include "offline/gpu_file.h"

namespace tilefuse {
namespace {

using aten::Field;
using Json = nlohmann::json;

constexpr std::string_view kModels = "models/", kJson = ".json";
constexpr const char* kSaveAgain = ": save the program again with torch.export.save of torch 2.11 or newer";

struct Config {  // of the weights, or of the constants
  std::string folder, entry;
  Json json;
};

Config read_config(const Archive& archive, const std::string& kind, const std::string& model) {
  Config config;
  config.folder = "data/" + kind + "/";
  config.entry = config.folder + model + "_" + kind + "_config.json";
  if (!archive.has(config.entry)) {
    archive.fail(config.entry,
                 archive.has(config.folder + model + ".pt")
                     ? std::string("is missing, and there is a pickle in its place") + kSaveAgain
                     : "is missing");
  }
  config.json = parse_document(archive.text(config.entry), archive.path() + ": entry " + config.entry);
  return config;
}

// Sizes, strides and offsets of what is saved are literals.
int64_t literal(const Field& size) {
  const Field value = size["as_int"];
  if (value.integer() < 0) value.fail("must not be negative, got " + std::to_string(value.integer()));
  return value.integer();
}

std::vector<int64_t> literals(const Field& list) {
  std::vector<int64_t> values;
  values.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) values.push_back(literal(list.at(i)));
  return values;
}

// One past the last element that the tensor reaches, in elements; nullopt: more than 64 bits hold.
std::optional<int64_t> end_of(const StateTensor& tensor) {
  constexpr __int128 kLimit = std::numeric_limits<int64_t>::max() / 16;  // in bytes it fits, too
  __int128 last = tensor.offset, elements = 1;
  bool is_empty = false;
  for (size_t d = 0; d < tensor.sizes.size(); ++d) {
    is_empty |= tensor.sizes[d] == 0;
    elements *= std::max<int64_t>(tensor.sizes[d], 1);
    last += __int128(std::max<int64_t>(tensor.sizes[d] - 1, 0)) * tensor.strides[d];
    if (last >= kLimit || elements >= kLimit) return std::nullopt;
  }
  return is_empty ? tensor.offset : int64_t(last) + 1;
}

StateTensor read_tensor(const Archive& archive, const Config& config, const std::string& name) {
  const Field document = Field(config.json).inside(archive.path() + ": entry " + config.entry);
  const Field payload = document["config"][name];
  StateTensor tensor;
  tensor.name = name;
  tensor.entry = config.folder + payload["path_name"].text();
  if (payload["use_pickle"].flag()) payload.fail("is pickled: only plain tensors are read without Python");
  const Field meta = payload["tensor_meta"];
  const std::string_view dtype = aten::dtype_name(meta["dtype"]);
  const auto known = aten::dtype_of(dtype);
  if (!known) meta["dtype"].fail("is " + std::string(dtype) + ", which is no element type here");
  if (aten::layout_name(meta["layout"]) != "strided") meta["layout"].fail("is not strided");
  tensor.dtype = *known;
  tensor.sizes = literals(meta["sizes"]);
  tensor.strides = literals(meta["strides"]);
  tensor.offset = literal(meta["storage_offset"]);
  if (tensor.sizes.size() != tensor.strides.size()) meta.fail("has as many strides as sizes not");
  if (!archive.has(tensor.entry)) payload["path_name"].fail("names " + tensor.entry + ", which is missing");
  const size_t held = archive.entries().at(tensor.entry).size / size_t(size_in_bytes(tensor.dtype));
  const auto end = end_of(tensor);
  if (!end || uint64_t(*end) > held) {
    meta.fail("reaches over the " + std::to_string(held) + " elements of the entry " + tensor.entry);
  }
  return tensor;
}

class SignatureReader {
 public:
  SignatureReader(const Archive& archive, const std::string& model, const Field& graph)
      : archive_(archive),
        tensor_values_(graph["tensor_values"]),
        weights_(read_config(archive, "weights", model)),
        constants_(read_config(archive, "constants", model)) {}

  // `given`: the graph's input at that place.
  void read(const Field& spec, const Field& given, std::vector<ProgramInput>& inputs,
            std::vector<StateTensor>& state) {
    const auto [kind, content] = spec.tagged();
    require_input(content, given);
    if (kind == "parameter") return add(content, "parameter_name", weights_, inputs, state);
    if (kind == "buffer") {
      const auto persistent = content.find("persistent");
      const bool is_weight = !persistent || persistent->flag();
      return add(content, "buffer_name", is_weight ? weights_ : constants_, inputs, state);
    }
    if (kind == "tensor_constant") return add(content, "tensor_constant_name", constants_, inputs, state);
    if (kind == "user_input") {
      inputs.push_back({ProgramInput::Kind::User, users_++, name_of(content["arg"])});
    } else if (kind == "constant_input") {
      inputs.push_back({ProgramInput::Kind::Literal, users_++, content["name"].text()});
    } else {
      spec.fail("is an input of kind " + std::string(kind) + ", which is not read without Python");
    }
  }

 private:
  void add(const Field& spec, const char* name_field, const Config& config, std::vector<ProgramInput>& inputs,
           std::vector<StateTensor>& state) {
    const Field name = spec[name_field];
    const Field document = Field(config.json).inside(archive_.path() + ": entry " + config.entry);
    if (!document["config"].find(name.text())) {
      name.fail("names '" + name.text() + "', which " + config.entry + " does not have");
    }
    const Field input = spec["arg"]["name"];
    inputs.push_back({ProgramInput::Kind::State, state.size(), input.text()});
    state.push_back(read_tensor(archive_, config, name.text()));
    require_recorded(state.back(), input);
  }
  // The graph and the state agree on what the tensor is.
  void require_recorded(const StateTensor& tensor, const Field& input) const {
    const auto recorded = tensor_values_.find(input.text());
    if (!recorded) input.fail("names the tensor '" + input.text() + "', which tensor_values does not have");
    const auto dtype = aten::dtype_of(aten::dtype_name((*recorded)["dtype"]));
    if (dtype != tensor.dtype || literals((*recorded)["sizes"]) != tensor.sizes) {
      recorded->fail("is not the dtype and the sizes of what is stored as '" + tensor.name + "'");
    }
  }
  // Signature and graph mean the same tensor.
  static void require_input(const Field& spec, const Field& given) {
    const auto argument = spec.find("arg");
    if (!argument) return;
    const auto name = argument->find("name");
    const std::string wanted = name ? name->text() : name_of(*argument), found = name_of(given);
    if (wanted != found) {
      argument->fail("names '" + wanted + "', the graph's input at that place is '" + found + "'");
    }
  }
  static std::string name_of(const Field& argument) {
    const auto [tag, value] = argument.tagged();
    if (tag == "as_tensor") return value["name"].text();
    return "";
  }

  const Archive& archive_;
  Field tensor_values_;
  Config weights_, constants_;
  size_t users_ = 0;
};

void require_layout(const Archive& archive) {
  if (archive.has("serialized_exported_program.json")) {
    archive.fail("serialized_exported_program.json",
                 std::string("is the layout of torch 2.7 and older") + kSaveAgain);
  }
  for (const auto& [entry, wanted] : {std::pair{"archive_format", "pt2"}, std::pair{"archive_version", "0"},
                                      std::pair{"byteorder", "little"}}) {
    if (!archive.has(entry))
      archive.fail(entry, std::string("is missing; this is no file of torch.export.save"));
    const std::string_view found = archive.text(entry);
    if (found != wanted) {
      archive.fail(entry, "must be " + std::string(wanted) + ", got " + std::string(found.substr(0, 20)));
    }
  }
}

// UserError: whatever its sizes are. A reason: that cannot be told.
std::optional<std::string> reads_outside(const Graph& graph) {
  std::optional<std::string> reason;
  for (const UnprovenRead& read : unproven_reads(graph)) {
    const Node& node = graph[read.node];
    const std::string text = read.text + (node.origin.empty() ? "" : " (" + node.origin + ")");
    if (read.requirement && read.requirement->constant()) throw UserError("captured graph: " + text);
    reason = "cannot take a program whose reads are not known to stay inside: " + text;
  }
  return reason;
}

}  // namespace

void ProgramFile::find_model() {
  for (const auto& [name, entry] : archive_.entries()) {
    if (!name.starts_with(kModels) || !name.ends_with(kJson)) continue;
    if (!model_.empty()) throw UserError(archive_.path() + ": holds more than one program: " + name);
    model_ = name.substr(kModels.size(), name.size() - kModels.size() - kJson.size());
  }
  if (model_.empty()) throw UserError(archive_.path() + ": holds no program (models/*.json)");
}

ProgramFile ProgramFile::open(const std::string& path) {
  ProgramFile file(Archive::open(path));
  require_layout(file.archive_);
  file.find_model();
  const std::string place = path + ": entry " + file.program_entry();
  const Json json = parse_document(file.program(), place);
  const Field document = Field(json).inside(place);
  const Field specs = document["graph_module"]["signature"]["input_specs"];
  const Field graph_inputs = document["graph_module"]["graph"]["inputs"];
  if (specs.size() != graph_inputs.size()) {
    specs.fail("holds " + std::to_string(specs.size()) + " inputs, the graph " +
               std::to_string(graph_inputs.size()));
  }
  SignatureReader reader(file.archive_, file.model_, document["graph_module"]["graph"]);
  for (size_t i = 0; i < specs.size(); ++i)
    reader.read(specs.at(i), graph_inputs.at(i), file.inputs_, file.state_);
  return file;
}

void ProgramFile::check_state() const {
  for (const StateTensor& tensor : state_) archive_.bytes(tensor.entry);
}

Result<Graph> import_program(const ProgramFile& file) {
  try {
    Result<Graph> graph = import_graph(file.program());
    if (graph && graph->device != "cpu" && !is_gpu_device(graph->device)) {
      return Unsupported{"cannot take a graph on " + graph->device + ": there is no such device"};
    }
    if (graph) {
      if (const auto reason = reads_outside(*graph)) return Unsupported{*reason};
    }
    return graph;
  } catch (const UserError& error) {
    file.archive().fail(file.program_entry(), error.what());
  }
}

}  // namespace tilefuse
