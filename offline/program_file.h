// A .pt2 file of torch.export, read without torch: the program's JSON, and where the bytes of its state lie.
//
//   ProgramFile file = ProgramFile::open("model.pt2");
//   Result<Graph> graph = import_program(file);
//   file.inputs()     {State 0, State 1, User 0, Literal, ...} by position of the graph
//   file.state()      {"layer.weight", f32[384, 384], entry "data/weights/weight_0", ...}
//
// Two tensors that name one entry share its memory, as they did when they were saved. Every tensor lies
// wholly inside its entry: checked here. What torch pickled (custom objects, tensor subclasses), an older
// layout, or another major version of the schema is a UserError that says what to do.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph.h"
#include "core/result.h"
#include "offline/archive.h"

namespace tilefuse {

struct StateTensor {
  std::string name;  // "layer.weight"
  std::string entry;
  DType dtype = DType::F32;
  std::vector<int64_t> sizes, strides;  // in elements
  int64_t offset = 0;                   // elements from the start of the entry
};

struct ProgramInput {
  enum class Kind : uint8_t { State, User, Literal } kind = Kind::User;
  size_t index = 0;  // of the state, or among what the caller passes (literals included)
  std::string name;  // in the graph
};

class ProgramFile {
 public:
  static ProgramFile open(const std::string& path);

  const Archive& archive() const { return archive_; }
  const std::string& model() const { return model_; }  // "model"
  std::string program_entry() const { return "models/" + model_ + ".json"; }
  std::string_view program() const { return archive_.text(program_entry()); }
  const std::vector<ProgramInput>& inputs() const { return inputs_; }
  const std::vector<StateTensor>& state() const { return state_; }
  // The state's bytes against their checksums: reads the whole file.
  void check_state() const;

 private:
  explicit ProgramFile(Archive archive) : archive_(std::move(archive)) {}
  void find_model();

  Archive archive_;
  std::string model_;
  std::vector<ProgramInput> inputs_;
  std::vector<StateTensor> state_;
};

// Errors name file and entry; Unsupported: as of import_graph.
Result<Graph> import_program(const ProgramFile& file);

}  // namespace tilefuse
