#include "offline/bundle_state.h"

#include <fstream>
#include <map>
#include <set>

#include "codegen/instruction_slots.h"
#include "core/result.h"
#include "core/structural_hash.h"

namespace tilefuse {
namespace {

constexpr uint64_t kAlign = 64;
uint64_t aligned(uint64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

class StatePlacer {
 public:
  StatePlacer(const ProgramFile& file, const Executable& executable, BundleRequest& request)
      : file_(file), executable_(executable), request_(request) {}

  std::vector<WeightEntry> run() {
    find_used();
    find_written();
    for (size_t position = 0; position < file_.inputs().size(); ++position) place(position);
    return std::move(entries_);
  }

 private:
  void find_used() {
    const auto use = [&](SlotId id) {
      used_.insert(id.index);
      if (const auto* alias = std::get_if<AliasHome>(&executable_[id].home)) used_.insert(alias->base.index);
    };
    for (const Instruction& instruction : executable_.instructions) {
      if (!std::holds_alternative<Free>(instruction)) for_each_slot(instruction, use);
    }
    for (const ExecutableOutput& output : executable_.outputs) {
      if (const auto* id = std::get_if<SlotId>(&output)) use(*id);
    }
  }

  void find_written() {
    for (const Instruction& instruction : executable_.instructions) {
      const auto* back = std::get_if<WriteBack>(&instruction);
      if (back == nullptr) continue;
      const ProgramInput& input = file_.inputs()[size_t(back->position)];
      if (input.kind != ProgramInput::Kind::State) continue;
      written_.insert(file_.state()[input.index].entry);
      used_.insert(std::get<SlotId>(executable_.inputs[size_t(back->position)].value).index);
    }
  }

  void place(size_t position) {
    const ProgramInput& input = file_.inputs()[position];
    const ExecutableInput& taken = executable_.inputs[position];
    const auto* slot = std::get_if<SlotId>(&taken.value);
    if (slot == nullptr) {
      if (!std::get<Expr>(taken.value).constant()) {
        throw UserError(file_.archive().path() + ": cannot be a library: input " + std::to_string(position) +
                        " is a size, and a library takes tensors");
      }
      request_.inputs.emplace_back(BundleLiteral{});
    } else if (input.kind == ProgramInput::Kind::State && !used_.contains(slot->index)) {
      request_.inputs.emplace_back(BundleLiteral{});
    } else if (input.kind == ProgramInput::Kind::State) {
      request_.inputs.emplace_back(state_of(file_.state()[input.index], executable_[*slot].spec));
    } else {
      request_.inputs.emplace_back(BundleArgument{input.name});
    }
  }

  BundleState state_of(const StateTensor& tensor, const TensorSpec& spec) {
    for (size_t d = 0; d < tensor.sizes.size(); ++d) {
      if (tensor.sizes[d] != 1 && !spec.strides.at(d).is_constant(tensor.strides[d])) {
        throw UserError(file_.archive().path() + ": cannot be a library: '" + tensor.name +
                        "' is stored with other strides than the program reads it with");
      }
    }
    const uint64_t inside = uint64_t(tensor.offset) * uint64_t(size_in_bytes(tensor.dtype));
    const uint64_t weights = weights_offset(tensor.entry);
    if (!written_.contains(tensor.entry)) return {weights + inside, false};
    return {state_offset(tensor.entry, weights) + inside, true};
  }

  uint64_t bytes_of(const std::string& entry) const { return file_.archive().entries().at(entry).size; }

  uint64_t weights_offset(const std::string& entry) {
    const auto [found, is_new] = weights_.try_emplace(entry, request_.weights_bytes);
    if (is_new) {
      entries_.push_back({entry, request_.weights_bytes, bytes_of(entry)});
      request_.weights_bytes += aligned(bytes_of(entry));
    }
    return found->second;
  }

  uint64_t state_offset(const std::string& entry, uint64_t weights) {
    const auto [found, is_new] = state_.try_emplace(entry, request_.state_bytes);
    if (is_new) {
      request_.state.push_back({weights, request_.state_bytes, bytes_of(entry)});
      request_.state_bytes += aligned(bytes_of(entry));
    }
    return found->second;
  }

  const ProgramFile& file_;
  const Executable& executable_;
  BundleRequest& request_;
  std::set<uint32_t> used_;        // slots
  std::set<std::string> written_;  // entries
  std::map<std::string, uint64_t> weights_, state_;
  std::vector<WeightEntry> entries_;
};

}  // namespace

std::vector<WeightEntry> place_state(const ProgramFile& file, const Executable& executable,
                                     BundleRequest& request) {
  return StatePlacer(file, executable, request).run();
}

void write_weights(const ProgramFile& file, const std::vector<WeightEntry>& entries, const std::string& mark,
                   const std::string& path) {
  std::ofstream out(path, std::ios::binary);
  out << mark;
  for (const WeightEntry& entry : entries) {
    const auto bytes = file.archive().bytes(entry.entry);
    out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
    out << std::string(aligned(entry.bytes) - entry.bytes, '\0');
  }
  if (!out.flush().good()) throw UserError("cannot write " + path);
}

std::string weights_mark(const ProgramFile& file, const std::vector<WeightEntry>& entries) {
  std::string contents;
  for (const WeightEntry& entry : entries) {
    contents += std::to_string(entry.bytes) + " " +
                std::to_string(file.archive().entries().at(entry.entry).checksum) + "\n";
  }
  std::string mark = "tilefuse weights " + to_text(hash_bytes(contents));
  mark.resize(kWeightsMarkBytes, ' ');
  return mark;
}

}  // namespace tilefuse
