// Exported and fused programs that are damaged, or that somebody made up: every one is an error that names
// the file, or reads as what it was. Systematic where offline_test.cpp has the single cases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "core/result.h"
#include "offline/fuse_file.h"
#include "offline/program_file.h"
#include "offline/region_files.h"
#include "tests/fuzz/archive_bytes.h"

namespace tilefuse {
namespace {

using fuzz::Contents;
using fuzz::file_bytes;
using fuzz::MemoryFile;
using fuzz::packed;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::StartsWith;
using Json = nlohmann::json;

constexpr const char* kProgram = "models/model.json";
constexpr std::string_view kExtra = "extra/tilefuse/";

CompileOptions without_compiler() {
  CompileOptions options;
  options.cxx = "/nonexistent/c++";
  options.search_path = "/nonexistent";
  options.cache_dir = fuzz::scratch_folder() + "/cache";
  return options;
}

const std::string& plain_bytes() {
  static const std::string bytes = file_bytes(TILEFUSE_SOURCE_DIR "/tests/offline/counter.pt2");
  return bytes;
}

const std::string& fused_bytes() {
  static const std::string bytes = [] {
    const std::string fused = fuzz::scratch_folder() + "/whole.pt2";
    fuse_file(TILEFUSE_SOURCE_DIR "/tests/offline/counter.pt2", fused, {.compile = {}, .embed = false});
    return file_bytes(fused);
  }();
  return bytes;
}

// What a file says, in so many words: its state, its regions, its graph.
struct Reading {
  std::string path, error, content;
};

std::string regions_of(const Archive& archive) {
  ExtraFiles files;
  for (const auto& [name, entry] : archive.entries()) {
    if (name.starts_with(kExtra)) files[name.substr(kExtra.size())] = archive.text(name);
  }
  if (files.empty()) return "";
  // Most damage is elsewhere, and making regions again takes most of the time.
  static std::map<ExtraFiles, std::string> known;
  if (const auto found = known.find(files); found != known.end()) return found->second;
  const std::string origin = archive.path() + ": entry " + std::string(kExtra);
  std::string text;
  for (const FileRegion& region : load_regions(files, origin, false, without_compiler())) {
    text += region.op + " " + region.how + "\n";
  }
  return known[files] = text;
}

Reading read(const std::string& bytes) {
  const MemoryFile file(bytes);
  Reading reading{file.path(), "", ""};
  try {
    const ProgramFile program = ProgramFile::open(file.path());
    for (const StateTensor& tensor : program.state()) {
      reading.content += tensor.name + "=" + std::string(program.archive().text(tensor.entry)) + "\n";
    }
    reading.content += regions_of(program.archive());
    const Result<Graph> graph = import_program(program);
    reading.content += graph ? to_text(*graph) : graph.unsupported().reason;
  } catch (const UserError& error) {
    reading.error = error.what();
  }
  return reading;
}

// ---------------------------------------------------------------- damage
class Damage : public testing::TestWithParam<const std::string& (*)()> {
 protected:
  const std::string& whole_ = GetParam()();
  const std::string right_ = read(whole_).content;

  void expect_error_or_the_same(const std::string& bytes, const std::string& what) const {
    const Reading reading = read(bytes);
    if (reading.error.empty()) {
      EXPECT_EQ(reading.content, right_) << what;
    } else {
      EXPECT_THAT(reading.error, StartsWith(reading.path + ": ")) << what;
    }
  }
};

TEST_P(Damage, a_file_cut_anywhere_is_an_error_that_names_it) {
  for (size_t size = 0; size < whole_.size(); size += 64) {
    const Reading reading = read(whole_.substr(0, size));
    EXPECT_THAT(reading.error, StartsWith(reading.path + ": ")) << "cut at " << size;
  }
}

TEST_P(Damage, a_hole_anywhere_is_an_error_or_changes_nothing) {
  for (size_t at = 0; at < whole_.size(); at += 64) {
    std::string bytes = whole_;
    bytes.replace(at, 16, 16, '\0');
    bytes.resize(whole_.size());
    expect_error_or_the_same(bytes, "zeros at " + std::to_string(at));
  }
}

TEST_P(Damage, a_flipped_bit_is_an_error_or_changes_nothing) {
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    std::string bytes = whole_;
    const size_t at = random() % bytes.size(), bit = random() % 8;
    bytes[at] = char(bytes[at] ^ (1 << bit));
    expect_error_or_the_same(bytes, "bit " + std::to_string(bit) + " of " + std::to_string(at));
  }
}

// The directory is small and says where everything lies: every bit of it.
TEST_P(Damage, a_flipped_bit_of_the_directory_is_an_error_or_changes_nothing) {
  for (size_t at = whole_.find("PK\x01\x02"); at < whole_.size(); ++at) {
    std::string bytes = whole_;
    bytes[at] = char(bytes[at] ^ (1 << at % 8));
    expect_error_or_the_same(bytes, "byte " + std::to_string(at));
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Damage, testing::Values(plain_bytes, fused_bytes), [](const auto& info) {
  return std::string(info.index == 0 ? "exported" : "fused");
});

// ---------------------------------------------------------------- fields
void list_paths(const Json& json, const std::string& path, std::vector<std::string>& paths) {
  if (!path.empty()) paths.push_back(path);
  for (const auto& [key, value] : json.items()) {
    if (!json.is_structured()) return;
    std::string escaped;
    for (const char c : key) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    list_paths(value, path + "/" + escaped, paths);
  }
}

class Fields : public testing::TestWithParam<const char*> {};

TEST_P(Fields, every_one_replaced_is_an_error_that_names_file_and_entry_or_a_reading) {
  const std::vector<Json> others = {nullptr,        -1,        true,      1e300, "x", Json::array(),
                                    Json::object(), INT64_MAX, UINT64_MAX};
  Contents contents = *fuzz::unpacked(fused_bytes());
  const Json whole = Json::parse(contents.at(GetParam()));
  std::vector<std::string> paths;
  list_paths(whole, "", paths);
  std::mt19937 random(11);
  for (const std::string& path : paths) {
    Json changed = whole;
    Json& field = changed[Json::json_pointer(path)];
    const Json& other = others[random() % others.size()];
    field = other;
    contents[GetParam()] = changed.dump();
    const Reading reading = read(packed(contents));
    if (reading.error.empty()) continue;
    EXPECT_THAT(reading.error, StartsWith(reading.path + ": entry ")) << path << " = " << other;
  }
}

INSTANTIATE_TEST_SUITE_P(Entries, Fields,
                         testing::Values("models/model.json", "data/weights/model_weights_config.json",
                                         "data/constants/model_constants_config.json",
                                         "extra/tilefuse/tilefuse.json"),
                         [](const auto& info) { return std::to_string(info.index); });

// ---------------------------------------------------------------- programs that lie
class Lie : public testing::Test {
 protected:
  static std::string error_of(const std::function<void(Json&)>& edit, const char* entry = kProgram) {
    Contents contents = *fuzz::unpacked(plain_bytes());
    Json json = Json::parse(contents.at(entry));
    edit(json);
    contents[entry] = json.dump();
    const Reading reading = read(packed(contents));
    return reading.error.empty() ? "" : reading.error.substr(reading.path.size());
  }
  static Json& graph(Json& json) { return json["graph_module"]["graph"]; }
};

TEST_F(Lie, nodes_that_read_what_comes_later) {
  const auto reversed = [](Json& json) {
    auto& nodes = graph(json)["nodes"];
    std::reverse(nodes.begin(), nodes.end());
  };
  EXPECT_THAT(error_of(reversed), AllOf(StartsWith(": entry models/model.json: node '"),
                                        HasSubstr("which no input and no earlier node gives")));
}

TEST_F(Lie, a_node_that_reads_itself) {
  const auto cyclic = [](Json& json) {
    Json& node = graph(json)["nodes"][0];
    node["inputs"][0]["arg"] = node["outputs"][0];
  };
  EXPECT_THAT(error_of(cyclic), HasSubstr("which no input and no earlier node gives"));
}

TEST_F(Lie, a_view_that_reads_more_than_there_is) {
  const auto longer = [](Json& json) {
    for (Json& node : graph(json)["nodes"]) {
      if (node["target"] != "torch.ops.aten.sum.default") continue;
      node["target"] = "torch.ops.aten.view.default";
      const Json size = {{"name", "size"}, {"arg", {{"as_ints", Json::array({4096})}}}, {"kind", 1}};
      node["inputs"] = {node["inputs"][0], size};
      Json& made = graph(json)["tensor_values"][node["outputs"][0]["as_tensor"]["name"].get<std::string>()];
      made["sizes"] = Json::array({{{"as_int", 4096}}});
      made["strides"] = Json::array({{{"as_int", 1}}});
    }
  };
  EXPECT_THAT(error_of(longer), AllOf(HasSubstr("entry models/model.json"), HasSubstr("outside of 0 to")));
}

TEST_F(Lie, an_input_that_is_another_than_the_signature_says) {
  const auto swapped = [](Json& json) {
    auto& inputs = graph(json)["inputs"];
    std::swap(inputs[0], inputs[inputs.size() - 1]);
  };
  EXPECT_THAT(error_of(swapped),
              AllOf(HasSubstr("input_specs[0]"), HasSubstr("the graph's input at that place is 'x'")));
}

TEST_F(Lie, a_result_of_another_dtype_than_its_operator_gives) {
  const auto halved = [](Json& json) { graph(json)["tensor_values"]["slice_1"]["dtype"] = 6; };
  EXPECT_THAT(
      error_of(halved),
      AllOf(HasSubstr(": entry models/model.json: node 'slice_1' (torch.ops.aten.slice.Tensor)"),
            HasSubstr("must record f32 elements of 'slice_1', which the operator gives, records f16")));
}

TEST_F(Lie, state_that_is_written_with_another_type) {
  const auto written_back = [](Json& json) {
    json["graph_module"]["signature"]["output_specs"][1] = {
        {"buffer_mutation", {{"arg", {{"name", "sum_1"}}}, {"buffer_name", "steps"}}}};
  };
  EXPECT_THAT(error_of(written_back),
              AllOf(HasSubstr("outputs[1]"), HasSubstr("'b_steps': must be f32[4], is f32[]")));
}

TEST_F(Lie, sizes_that_no_memory_has) {
  const auto huge = [](Json& json) {
    Json& meta = json["config"]["weight"]["tensor_meta"];
    meta["sizes"] = Json::array({{{"as_int", int64_t{1} << 40}}, {{"as_int", int64_t{1} << 40}}});
    meta["strides"] = Json::array({{{"as_int", 0}}, {{"as_int", 0}}});
  };
  EXPECT_THAT(error_of(huge, "data/weights/model_weights_config.json"),
              AllOf(HasSubstr("config.weight.tensor_meta"), HasSubstr("reaches over")));
  const auto beyond = [](Json& json) {
    Json& meta = json["config"]["weight"]["tensor_meta"];
    meta["sizes"][0]["as_int"] = 0;
    meta["storage_offset"]["as_int"] = int64_t{1} << 40;
  };
  EXPECT_THAT(error_of(beyond, "data/weights/model_weights_config.json"), HasSubstr("reaches over"));
}

TEST_F(Lie, names_of_sizes_that_are_none) {
  for (const char* name : {"s0; int x", "s\\n0", "i0", "", "2"}) {
    const auto renamed = [&](Json& json) {
      graph(json)["tensor_values"]["x"]["sizes"][0] = {
          {"as_expr", {{"expr_str", "Symbol('" + std::string(name) + "', positive=True, integer=True)"}}}};
    };
    EXPECT_THAT(error_of(renamed), HasSubstr("is no name of a size")) << name;
  }
}

TEST_F(Lie, expressions_that_grow) {
  std::string factor = "Symbol('s0')";
  for (int i = 1; i < 12; ++i) factor = "Add(" + factor + ", Symbol('s" + std::to_string(i) + "'))";
  const std::string power = "Pow(" + factor + ", Integer(16))";
  const auto grown = [&](Json& json) {
    graph(json)["tensor_values"]["x"]["sizes"][0] = {{"as_expr", {{"expr_str", power}}}};
  };
  EXPECT_THAT(error_of(grown), HasSubstr("a size expression is too long"));
}

TEST_F(Lie, missing_entries) {
  for (const char* entry : {"data/weights/weight_0", "data/weights/model_weights_config.json",
                            "data/constants/model_constants_config.json", "byteorder", "archive_format"}) {
    Contents contents = *fuzz::unpacked(plain_bytes());
    ASSERT_EQ(contents.erase(entry), 1U);
    EXPECT_THAT(read(packed(contents)).error, AllOf(HasSubstr(entry), HasSubstr("is missing"))) << entry;
  }
  Contents contents = *fuzz::unpacked(plain_bytes());
  contents.erase(kProgram);
  EXPECT_THAT(read(packed(contents)).error, HasSubstr("holds no program"));
}

// An operator that nobody knows is the framework's to refuse: it stays as it is.
TEST_F(Lie, an_unknown_operator_stays) {
  const auto unknown = [](Json& json) {
    for (Json& node : graph(json)["nodes"]) {
      if (node["target"] == "torch.ops.aten.sum.default") node["target"] = "torch.ops.aten.no_such.default";
    }
  };
  EXPECT_EQ(error_of(unknown), "");
}

TEST(Place, what_is_no_file_is_an_error) {
  EXPECT_THAT([] { ProgramFile::open("/"); },
              testing::ThrowsMessage<UserError>(HasSubstr("/: is no regular file")));
  EXPECT_THAT([] { ProgramFile::open("/dev/zero"); },
              testing::ThrowsMessage<UserError>(HasSubstr("/dev/zero: is no regular file")));
}

// Two entries of the directory over the same bytes: a small file that reads as a large one.
TEST(Place, entries_that_share_bytes_are_an_error) {
  std::string bytes = packed({{"a", std::string(64, 'a')}, {"b", std::string(64, 'b')}});
  const size_t first = bytes.find("PK\x01\x02"), second = bytes.find("PK\x01\x02", first + 1);
  bytes.replace(second + 42, 4, bytes.substr(first + 42, 4));
  EXPECT_THAT(read(bytes).error, AnyOf(HasSubstr("shares bytes"), HasSubstr("cannot be read")));
}

// ---------------------------------------------------------------- regions that lie
class RegionLie : public testing::Test {
 protected:
  RegionLie() {
    const Contents contents = *fuzz::unpacked(fused_bytes());
    for (const auto& [name, text] : contents) {
      if (name.starts_with(kExtra)) files_[name.substr(kExtra.size())] = text;
    }
    manifest_ = Json::parse(files_.at("tilefuse.json"));
    op_ = manifest_["regions"][0]["op"];
  }

  std::string error_of(const ExtraFiles& files, bool trusted = false) const {
    try {
      load_regions(files, "fused.pt2: entry extra/tilefuse/", trusted, without_compiler());
    } catch (const UserError& refused) {
      return refused.what();
    }
    return "";
  }
  // Somebody who makes up a graph can give the operator its name, too.
  FileRegion region_of(const std::string& graph) const {
    const std::string op = region_operator("made_up", graph, false);
    const Json manifest = {{"format", 2},
                           {"targets", Json::array()},
                           {"numerics", "fast"},
                           {"regions", {{{"op", op}, {"name", "made_up"}}}}};
    const ExtraFiles files = {{"tilefuse.json", manifest.dump()}, {op + "/graph.txt", graph}};
    return load_regions(files, "fused.pt2: entry extra/tilefuse/", false, without_compiler()).at(0);
  }

  ExtraFiles files_;
  Json manifest_;
  std::string op_;
};

TEST_F(RegionLie, every_text_cut_short_is_an_error_that_names_it) {
  for (const auto& [name, text] : files_) {
    if (!name.starts_with(op_) || !(name.ends_with("graph.txt") || name.ends_with("schedule.txt"))) continue;
    for (size_t size = 1; size < text.size(); size += 7) {  // an empty schedule is none
      ExtraFiles cut = files_;
      cut[name] = text.substr(0, size);
      EXPECT_THAT(error_of(cut), StartsWith("fused.pt2: entry extra/tilefuse/" + name + ": ")) << size;
    }
  }
}

TEST_F(RegionLie, changed_texts_are_errors_that_name_them_or_legal) {
  std::mt19937 random(13);
  for (int i = 0; i < 300; ++i) {
    ExtraFiles changed = files_;
    auto file = changed.begin();
    std::advance(file, random() % changed.size());
    if (file->second.empty()) continue;
    file->second[random() % file->second.size()] = char(random());
    const std::string error = error_of(changed);
    EXPECT_THAT(error, AnyOf("", StartsWith("fused.pt2: entry extra/tilefuse/")));
  }
}

TEST_F(RegionLie, operators_have_names_that_are_names) {
  manifest_["regions"][0]["op"] = "f() { } static int x = 1; void g";
  files_["tilefuse.json"] = manifest_.dump();
  EXPECT_THAT(error_of(files_), AllOf(HasSubstr("tilefuse.json: field regions[0].op"), HasSubstr("no name")));
}

TEST_F(RegionLie, a_graph_that_reads_outside_of_its_input_gets_no_kernel) {
  const FileRegion region = region_of(
      "graph g(%x: f32[4]) {\n  %y = view(%x) {map = (i0) -> (i0 + 1000000) : [4]} : f32[4]\n"
      "  %z = exp(%y) : f32[4]\n  return %z\n}\n");
  EXPECT_FALSE(region.module);
  EXPECT_THAT(region.how, HasSubstr("%y reads %x at i0 + 1000000, which may be outside of 0 to 3"));
}

TEST_F(RegionLie, sizes_that_may_lead_outside_get_no_kernel) {
  const FileRegion region = region_of(
      "graph g(%x: f32[s0], %w: f32[s1]) {\n  %y = view(%x) {map = (i0) -> (i0) : [s1]} : f32[s1]\n"
      "  %z = add(%y, %w) : f32[s1]\n  return %z\n}\n");
  EXPECT_FALSE(region.module);
  EXPECT_THAT(region.how, HasSubstr("%y reads %x at i0, which may be outside of 0 to s0 - 1"));
}

TEST_F(RegionLie, graphs_that_are_no_regions_are_errors) {
  const auto error = [&](const std::string& graph) -> std::string {
    try {
      region_of(graph);
    } catch (const UserError& refused) {
      return refused.what();
    }
    return "";
  };
  EXPECT_THAT(error("graph g(%x: f32[4]) {\n  return %x\n}\n"), HasSubstr("graph.txt: is no region"));
  EXPECT_THAT(error("graph g(%x: f32[4]) {\n  %y = exp(%x) : f32[4]\n  return %y, 4\n}\n"),
              HasSubstr("graph.txt: is no region"));
  EXPECT_THAT(error("graph g(%x: f32[4]) {\n  %y = exp(%x) : f32[4]\n  mutate 0 <- %y\n  return %y\n}\n"),
              HasSubstr("graph.txt: is no region"));
  EXPECT_THAT(error("graph g(%x: f32[4]) {\n  %y = call(%x) {op = \"aten.exp.default\", self = %x} : f32[4]\n"
                    "  return %y\n}\n"),
              HasSubstr("graph.txt: is no region"));
  EXPECT_THAT(
      error("graph g(%x: f32[9223372036854775807, 4]) {\n  %y = exp(%x) : f32[9223372036854775807, 4]\n"
            "  return %y\n}\n"),
      HasSubstr("graph.txt: a size expression does not fit into 64 bits"));
}

// Trusted, and yet not what was written: found before it is loaded.
class ObjectLie : public RegionLie {
 protected:
  ObjectLie() {
    CompileOptions options;
    options.cache_dir = fuzz::scratch_folder() + "/cache";
    const std::string fused = fuzz::scratch_folder() + "/embedded.pt2";
    fuse_file(TILEFUSE_SOURCE_DIR "/tests/offline/counter.pt2", fused, {.compile = options});
    const Contents contents = *fuzz::unpacked(file_bytes(fused));
    for (const auto& [name, text] : contents) {
      if (name.starts_with(kExtra)) files_[name.substr(kExtra.size())] = text;
    }
    const Json manifest = Json::parse(files_.at("tilefuse.json"));
    folder_ = manifest["regions"][0]["op"].get<std::string>() + "/" +
              manifest["targets"][0]["name"].get<std::string>();
  }
  std::string error_with(const std::string& file, const std::string& text) const {
    ExtraFiles changed = files_;
    changed[folder_ + file] = text;
    return error_of(changed, true);
  }

  std::string folder_;  // of the code for this processor
};

TEST_F(ObjectLie, machine_code_that_was_changed_is_an_error) {
  ASSERT_TRUE(files_.contains(folder_ + "/kernel.so.b64")) << "no compiler was found";
  EXPECT_EQ(error_of(files_, true), "");
  std::string object = files_.at(folder_ + "/kernel.so.b64");
  object[object.size() / 2] = object[object.size() / 2] == 'A' ? 'B' : 'A';
  EXPECT_THAT(error_with("/kernel.so.b64", object), AllOf(HasSubstr("kernel.so.b64"), HasSubstr("hash")));
  EXPECT_THAT(error_with("/kernel.so.b64", "no base64!"), HasSubstr("kernel.so.b64: is no base64"));
  object = files_.at(folder_ + "/kernel.so.b64");
  EXPECT_THAT(error_with("/kernel.so.b64", object.substr(0, 400)), HasSubstr("hash"));
}

TEST_F(ObjectLie, launches_that_were_changed_are_errors) {
  const std::string file = folder_ + "/program.json";
  EXPECT_THAT(error_with("/program.json", "{}"), HasSubstr(file));
  EXPECT_THAT(error_with("/program.json", "[1, 2"), HasSubstr(file));
  const Json whole = Json::parse(files_.at(file));
  for (const auto& [key, value] : whole.items()) {
    Json changed = whole;
    changed.erase(key);
    const std::string error = error_with("/program.json", changed.dump());
    EXPECT_TRUE(key == "symbols" || error.find(file) != std::string::npos) << key << ": " << error;
  }
  Json on_gpu = whole;
  on_gpu["place"] = {"cuda:0", "sm_80"};
  EXPECT_THAT(error_with("/program.json", on_gpu.dump()), HasSubstr("describes what runs on a GPU"));
  on_gpu = whole;
  on_gpu["regions"][0]["inputs"][0].push_back("no such device");
  EXPECT_THAT(error_with("/program.json", on_gpu.dump()), HasSubstr("describes what runs on a GPU"));
  Json other = whole;
  other["regions"][0]["launches"][0][0] = "no_such_kernel";
  EXPECT_THAT(error_with("/program.json", other.dump()), HasSubstr("lacks the kernel no_such_kernel"));
}

}  // namespace
}  // namespace tilefuse
