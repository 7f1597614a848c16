// Writes the inputs that fuzzing starts from: make_seeds FOLDER
//
// FOLDER/<target>/<name>, from the golden files, the captured graphs and the exported programs of the tests,
// and FOLDER/<target>.dict, the words of the text forms.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/dtype.h"
#include "core/graph.h"
#include "core/map_function.h"
#include "core/structural_hash.h"
#include "offline/fuse_file.h"
#include "tests/fuzz/archive_bytes.h"

namespace tilefuse::fuzz {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const fs::path kTests = fs::path(TILEFUSE_SOURCE_DIR) / "tests";
constexpr std::string_view kExtra = "extra/tilefuse/";

class Seeds {
 public:
  explicit Seeds(fs::path folder) : folder_(std::move(folder)) {}

  // Called after what is in it: writing seeds again adds none.
  void add(const std::string& target, const std::string& bytes) {
    fs::create_directories(folder_ / target);
    const fs::path path = folder_ / target / to_text(hash_bytes(bytes));
    std::ofstream(path, std::ios::binary) << bytes;
    if (!fs::exists(path)) throw std::runtime_error("cannot write " + path.string());
  }

  void add_words(const std::string& target, const std::set<std::string>& words) {
    std::ofstream file(folder_ / (target + ".dict"));
    for (const std::string& word : words) file << "\"" << word << "\"\n";
  }

 private:
  fs::path folder_;
};

std::string target_of_stage(const std::string& stage) {
  if (stage == "import") return "program";
  static const std::set<std::string> over_graphs = {"graph", "canonicalize", "hash",    "tiles",
                                                    "plan",  "partition",    "products"};
  return over_graphs.contains(stage) ? "graph" : "tile_graph";
}

// Between the line `run: stage --option value` and the line `---`.
void add_golden(Seeds& seeds, const std::string& text) {
  const size_t run = text.find("run: "), end = text.find('\n', run), line = text.find("\n---\n");
  if (run == std::string::npos || line == std::string::npos) return;
  std::string words = text.substr(run + 5, end - run - 5);
  if (words.starts_with("cuda") || words.starts_with("gpu-")) return;  // of stages that no target runs
  std::string input = text.substr(text.find_first_not_of('\n', end));
  input.resize(input.find("\n---\n") + 1);
  const size_t pins = words.find("--pins ");
  if (pins != std::string::npos) {
    const std::string given = words.substr(pins + 7);
    input = "pins: " + given.substr(0, given.find(' ')) + "\n" + input;
  }
  seeds.add(target_of_stage(words.substr(0, words.find(' '))), input);
}

void add_sizes(Seeds& seeds, const Json& value) {
  if (value.is_object() && value.contains("expr_str") && value["expr_str"].is_string()) {
    seeds.add("size_expression", value["expr_str"]);
  }
  if (!value.is_structured()) return;
  for (const Json& item : value) add_sizes(seeds, item);
}

void add_program(Seeds& seeds, const std::string& text) {
  seeds.add("program", text);
  add_sizes(seeds, Json::parse(text));
}

void add_archive(Seeds& seeds, const std::string& bytes) {
  seeds.add("archive", bytes);
  const Contents contents = *unpacked(bytes);
  for (const auto& [name, text] : contents) {
    if (name.starts_with("models/")) add_program(seeds, text);
    if (!name.starts_with(kExtra)) continue;
    if (name.ends_with("/graph.txt")) seeds.add("graph", text);
    if (name.ends_with("/report.json")) seeds.add("report", text);
    if (name.ends_with("/program.json")) seeds.add("executable", text);
    if (!name.ends_with("/tiles.txt")) continue;
    seeds.add("tile_graph", text);
    const std::string schedule = name.substr(0, name.rfind('/')) + "/x86-avx2/schedule.txt";
    seeds.add("tile_graph", text + "\n" + contents.at(schedule));
  }
}

void add_exported(Seeds& seeds, const fs::path& path) {
  add_archive(seeds, file_bytes(path));
  const std::string fused = scratch_folder() + "/fused.pt2";
  FuseOptions options;
  options.compile.target = "x86-avx2";
  options.embed = false;
  fuse_file(path, fused, options);
  add_archive(seeds, file_bytes(fused));
}

void add_written_sizes(Seeds& seeds) {
  for (const char* text :
       {"64*s0 + i1 // 4 - i1 % 8", "min(s0, 3) + max(i0, -1)*2", "(s0 + 1)*(s1 - 1) % 5",
        "FloorDiv(Add(Symbol('s1', integer=True, positive=True), Integer(-1)), Integer(4))",
        "Pow(Symbol('s0', positive=True, integer=True), Integer(3))",
        "ModularIndexing(Mul(Integer(6), Symbol('s1')), Integer(2), Integer(3))",
        "Max(Integer(1), Min(Symbol('s0'), PythonMod(Symbol('s1'), Integer(7))))"}) {
    seeds.add("size_expression", text);
  }
}

void add_dictionaries(Seeds& seeds) {
  std::set<std::string> words = {"graph",
                                 "symbol",
                                 "in",
                                 "inf",
                                 "multiple_of",
                                 "return",
                                 "mutate",
                                 "param",
                                 "strides",
                                 "view",
                                 "concat",
                                 "gather",
                                 "iota",
                                 "constant",
                                 "call",
                                 "{map = (",
                                 ") -> (",
                                 "coordinates = [",
                                 "from_index = [",
                                 "wrap = true",
                                 "dims = [0]",
                                 "9223372036854775807",
                                 "-1",
                                 "size s0",
                                 " // ",
                                 " % ",
                                 "min(",
                                 "max("};
  for (int fn = 0; fn <= int(MapFn::Fma); ++fn) words.insert(info(MapFn(fn)).name);
  for (int kind = 0; kind <= int(ReduceKind::ArgMin); ++kind) {
    words.insert(std::string("reduce.") + info(ReduceKind(kind)).name);
    words.insert(std::string("scan.") + info(ReduceKind(kind)).name);
  }
  for (const char* dtype : {"f32[", "f64[", "f16[", "bf16[", "bool[", "i64[", "i32[", "u8["})
    words.insert(dtype);
  seeds.add_words("graph", words);
  words.merge(std::set<std::string>{
      "tile_graph", "axes",       "buffers",  "load",     "store", "over",   "index",
      "inside",     "carry",      "extent",   "stride",   "wrap(", "at(",    " if [",
      "else",       "in",         "out",      "schedule", "lanes", "unroll", "grid",
      "walk",       "multi_pass", "resident", "online",   "keep",  "rows",   "split",
      "stage",      "along",      "stores",   "streamed", "cost",  "pins: ", "accumulate in scratch"});
  seeds.add_words("tile_graph", words);
  seeds.add_words("size_expression", {"Symbol('s0', positive=True, integer=True)",
                                      "Integer(",
                                      "Add(",
                                      "Mul(",
                                      "Pow(",
                                      "FloorDiv(",
                                      "CleanDiv(",
                                      "Mod(",
                                      "PythonMod(",
                                      "ModularIndexing(",
                                      "Max(",
                                      "Min(",
                                      "Identity(",
                                      "s0",
                                      "i0",
                                      " // ",
                                      " % ",
                                      "min(",
                                      "max(",
                                      "9223372036854775807",
                                      "-9223372036854775808"});
}

void write_all(const fs::path& folder) {
  fs::create_directories(folder);
  Seeds seeds(folder);
  for (const auto& entry : fs::recursive_directory_iterator(kTests / "golden")) {
    if (entry.path().extension() == ".txt") add_golden(seeds, file_bytes(entry.path()));
  }
  for (const auto& entry : fs::directory_iterator(kTests / "import")) {
    if (entry.path().extension() == ".json") add_program(seeds, file_bytes(entry.path()));
  }
  for (const auto& entry : fs::directory_iterator(kTests / "offline")) {
    if (entry.path().extension() == ".pt2") add_exported(seeds, entry.path());
  }
  add_written_sizes(seeds);
  add_dictionaries(seeds);
}

}  // namespace
}  // namespace tilefuse::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: make_seeds FOLDER\n";
    return 2;
  }
  try {
    tilefuse::fuzz::write_all(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "make_seeds: " << error.what() << "\n";
    return 2;
  }
  return 0;
}
