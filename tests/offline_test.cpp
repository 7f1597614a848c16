// Programs of torch.export read without torch (tests/offline/*.pt2), and files that are damaged or lie.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "core/canonicalize.h"
#include "core/result.h"
#include "offline/base64.h"
#include "offline/explain_file.h"
#include "offline/fuse_file.h"
#include "offline/program_file.h"
#include "offline/region_files.h"
#include "offline/write_archive.h"

namespace tilefuse {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using Contents = std::map<std::string, std::string>;

const char* const kExample = TILEFUSE_SOURCE_DIR "/tests/offline/counter.pt2";

class OfflineTest : public testing::Test {
 protected:
  OfflineTest() : folder_(testing::TempDir() + "offline-XXXXXX") {
    EXPECT_NE(mkdtemp(folder_.data()), nullptr);
  }
  ~OfflineTest() override {
    std::error_code error;
    fs::remove_all(folder_, error);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  static std::string bytes_of(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    std::stringstream bytes;
    bytes << stream.rdbuf();
    return bytes.str();
  }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  static Contents contents_of(const std::string& file) {
    const Archive archive = Archive::open(file);
    Contents contents;
    for (const auto& [name, entry] : archive.entries()) contents[name] = archive.text(name);
    return contents;
  }
  std::string pack(const std::string& name, const Contents& contents) const {
    NewEntries entries;
    for (const auto& [entry, text] : contents) {
      entries.push_back({entry, std::as_bytes(std::span(text))});
    }
    write_archive(path(name), "model", entries);
    return path(name);
  }
  // The example with one entry edited as JSON.
  std::string edited(const std::string& entry, const std::function<void(Json&)>& edit) const {
    Contents contents = contents_of(kExample);
    Json json = Json::parse(contents.at(entry));
    edit(json);
    contents[entry] = json.dump();
    return pack("edited.pt2", contents);
  }

  // What reading the file says, up to the graph.
  static std::string error_of(const std::string& file) {
    try {
      const ProgramFile program = ProgramFile::open(file);
      program.check_state();
      const Result<Graph> graph = import_program(program);
      return graph ? "" : "unsupported: " + graph.unsupported().reason;
    } catch (const UserError& error) {
      return error.what();
    }
  }

 private:
  std::string folder_;
};

constexpr const char* kProgram = "models/model.json";
constexpr const char* kWeights = "data/weights/model_weights_config.json";

// ---------------------------------------------------------------- what is read
TEST_F(OfflineTest, state_lies_in_entries_and_tied_tensors_share_theirs) {
  const ProgramFile file = ProgramFile::open(kExample);
  ASSERT_EQ(file.state().size(), 4U);
  EXPECT_EQ(file.state()[0].name, "weight");
  EXPECT_EQ(file.state()[1].name, "tied");
  EXPECT_EQ(file.state()[0].entry, file.state()[1].entry);
  EXPECT_EQ(file.state()[3].sizes, (std::vector<int64_t>{2, 4}));
  const auto weight = file.archive().bytes(file.state()[0].entry);
  float values[4];
  ASSERT_EQ(weight.size(), sizeof values);
  std::memcpy(values, weight.data(), sizeof values);
  EXPECT_THAT(values, testing::ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(file.inputs().back().kind, ProgramInput::Kind::User);
  EXPECT_EQ(file.inputs().back().name, "x");
}

TEST_F(OfflineTest, writes_into_buffers_become_mutations) {
  const Result<Graph> graph = import_program(ProgramFile::open(kExample));
  ASSERT_TRUE(graph);
  EXPECT_EQ(graph->outputs.size(), 2U);
  std::vector<int> written;
  for (const auto& [position, value] : graph->mutations) written.push_back(position);
  EXPECT_THAT(written, testing::ElementsAre(2, 3));
}

TEST_F(OfflineTest, an_archive_is_read_as_it_was_written_and_lies_aligned) {
  const Contents written = {{"a", std::string(100, 'x')}, {"folder/b", ""}, {"c", "c"}};
  const std::string file = pack("new.pt2", written);
  EXPECT_EQ(contents_of(file), written);
  const Archive archive = Archive::open(file);
  for (const auto& [name, entry] : archive.entries()) EXPECT_EQ(entry.offset % 64, 0U) << name;
}

// As files above 4 GiB are: every size, offset and count in its field of 64 bits.
TEST_F(OfflineTest, an_archive_of_wide_fields_is_read_as_it_was_written) {
  const Contents written = {{"a", std::string(100, 'x')}, {"folder/b", ""}, {"\xc3\xa4", "c"}};
  NewEntries entries;
  for (const auto& [name, text] : written) entries.push_back({name, std::as_bytes(std::span(text))});
  write_archive(path("wide.pt2"), "model", entries, /*largest_narrow=*/0);
  EXPECT_EQ(contents_of(path("wide.pt2")), written);
  zip_t* zip = zip_open(path("wide.pt2").c_str(), ZIP_RDONLY | ZIP_CHECKCONS, nullptr);
  ASSERT_NE(zip, nullptr);
  EXPECT_EQ(zip_get_num_entries(zip, 0), 3);
  zip_discard(zip);
}

TEST_F(OfflineTest, what_cannot_be_written_is_named_and_leaves_nothing) {
  fs::create_directory(path("taken"));
  for (const std::string& file : {path("no/such/folder.pt2"), path("taken")}) {
    try {
      write_archive(file, "model", {});
      ADD_FAILURE() << file << " was written";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr(file + ": cannot be written: "));
    }
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(path("")), fs::directory_iterator()), 1);
}

TEST_F(OfflineTest, base64_is_its_own_inverse_and_refuses_other_text) {
  std::mt19937 random(1);
  for (size_t size = 0; size < 70; ++size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = char(random());
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  }
  for (const char* text : {"a", "abc", "ab=c", "a===", "ab!d", "=abc"})
    EXPECT_FALSE(from_base64(text)) << text;
}

// ---------------------------------------------------------------- fusing
TEST_F(OfflineTest, a_fused_program_reads_as_one_and_fusing_it_again_changes_nothing) {
  const std::string once = path("once.pt2"), twice = path("twice.pt2");
  const FuseResult result = fuse_file(kExample, once, {.compile = {}, .embed = false});
  EXPECT_EQ(result.refusal, "");
  EXPECT_GE(result.regions, 1);
  EXPECT_EQ(error_of(once), "");
  EXPECT_EQ(fuse_file(once, twice, {.compile = {}, .embed = false}).refusal, "it is fused already");
  EXPECT_EQ(contents_of(once), contents_of(twice));
}

TEST_F(OfflineTest, a_fused_file_explains_itself_as_its_program_does) {
  const std::string fused = path("fused.pt2");
  fuse_file(kExample, fused, {.compile = {}, .embed = false});
  const auto report_of = [](const std::string& file) {
    Json graph = Json::parse(explain_file(file, {}))["graphs"][0];
    graph["stages"] = graph["milliseconds"] = nullptr;
    return graph;
  };
  const Json report = report_of(fused);
  EXPECT_EQ(report, report_of(kExample));
  EXPECT_GE(report["regions"].size(), 1U);
  EXPECT_GE(report["graph"]["nodes"].size(), report["regions"].size());

  const auto error = [&](const std::function<void(Contents&)>& change) -> std::string {
    Contents contents = contents_of(fused);
    change(contents);
    try {
      explain_file(pack("tampered.pt2", contents), {});
    } catch (const UserError& refused) {
      return refused.what();
    }
    return "";
  };
  const std::string entry = "extra/tilefuse/report.json";
  EXPECT_THAT(error([&](Contents& c) { c.erase(entry); }), AllOf(HasSubstr(entry), HasSubstr("is missing")));
  EXPECT_THAT(error([&](Contents& c) { c[entry] = "{"; }), HasSubstr(entry));
  EXPECT_THAT(error([&](Contents& c) { c[entry] = "[]"; }), AllOf(HasSubstr(entry), HasSubstr("object")));
  EXPECT_THAT(error([&](Contents& c) {
                Json document = Json::parse(c[entry]);
                document["graphs"][0]["regions"][0]["name"] = 7;
                c[entry] = document.dump();
              }),
              AllOf(HasSubstr(entry), HasSubstr("regions[0].name: must be a string")));
  EXPECT_THAT(error([&](Contents& c) {
                Json document = Json::parse(c[entry]);
                document["graphs"][0]["graph"]["edges"][0]["to"] = 1 << 20;
                c[entry] = document.dump();
              }),
              AllOf(HasSubstr(entry), HasSubstr("graph.edges[0].to: must be below")));
  EXPECT_THAT(error([&](Contents& c) {
                Json document = Json::parse(c[entry]);
                document["graphs"][0]["fallback_reason"] = Json::array();
                c[entry] = document.dump();
              }),
              AllOf(HasSubstr(entry), HasSubstr("fallback_reason: must be a string")));
}

TEST_F(OfflineTest, a_tampered_region_is_not_what_its_name_says) {
  const std::string fused = path("fused.pt2");
  fuse_file(kExample, fused, {.compile = {}, .embed = false});
  ExtraFiles files;
  for (const auto& [name, text] : contents_of(fused)) {
    if (name.starts_with("extra/tilefuse/")) files[name.substr(15)] = text;
  }
  const std::string op = Json::parse(files.at("tilefuse.json"))["regions"][0]["op"];
  const auto error = [&](const ExtraFiles& given) -> std::string {
    try {
      load_regions(given, "fused.pt2: entry extra/tilefuse/", false, {});
    } catch (const UserError& refused) {
      return refused.what();
    }
    return "";
  };
  ExtraFiles tampered = files;
  tampered[op + "/graph.txt"] += " ";
  EXPECT_THAT(error(tampered), AllOf(HasSubstr(op + "/graph.txt"), HasSubstr("named after")));
  tampered = files;
  const std::string schedule = op + "/" + host_target_name() + "/schedule.txt";
  tampered[schedule] = "schedule x for y { lanes q = 7 }";
  EXPECT_THAT(error(tampered), HasSubstr(schedule));
  tampered = files;
  tampered.erase(op + "/graph.txt");
  EXPECT_THAT(error(tampered), HasSubstr("graph.txt: is missing"));
  tampered = files;
  tampered["tilefuse.json"] = R"({"format": 7})";
  EXPECT_THAT(error(tampered), HasSubstr("field format: must be 2 or 3, got 7"));

  // The name of a region becomes that of a function in source that is compiled.
  const std::string code = "f() {} int x",
                    of_code = region_operator(code, files.at(op + "/graph.txt"), false);
  Json manifest = Json::parse(files.at("tilefuse.json"));
  manifest["regions"][0]["name"] = code;
  manifest["regions"][0]["op"] = of_code;
  tampered = files;
  tampered["tilefuse.json"] = manifest.dump();
  tampered[of_code + "/graph.txt"] = files.at(op + "/graph.txt");
  EXPECT_THAT(error(tampered), HasSubstr("name: must be letters, digits and underscores"));
}

// ---------------------------------------------------------------- targets
class TargetsTest : public OfflineTest {
 protected:
  ExtraFiles fused_for(const std::vector<std::string>& targets, bool embed) const {
    FuseOptions options{.compile = {}, .targets = targets, .embed = embed};
    options.compile.cache_dir = path("cache");
    const FuseResult result = fuse_file(kExample, path("fused.pt2"), options);
    EXPECT_EQ(result.refusal, "");
    EXPECT_THAT(result.warnings, testing::IsEmpty());
    ExtraFiles files;
    for (const auto& [name, text] : contents_of(path("fused.pt2"))) {
      if (name.starts_with("extra/tilefuse/")) files[name.substr(15)] = text;
    }
    return files;
  }
  std::vector<FileRegion> loaded(const ExtraFiles& files, bool trusted) const {
    CompileOptions options;
    options.cache_dir = path("cache");
    return load_regions(files, "fused.pt2: entry extra/tilefuse/", trusted, options);
  }
  // Targets that no machine is, by the instructions that they name.
  static ExtraFiles out_of_reach(ExtraFiles files, const std::set<std::string>& targets) {
    Json manifest = Json::parse(files.at("tilefuse.json"));
    for (Json& target : manifest["targets"]) {
      if (targets.contains(target["name"])) target["instructions"].push_back("avx4096");
    }
    files["tilefuse.json"] = manifest.dump();
    return files;
  }
};

const std::vector<std::string> kBoth = {"portable-cpu", "x86-avx2"};

TEST_F(TargetsTest, their_order_changes_nothing_and_each_has_its_files) {
  const ExtraFiles files = fused_for(kBoth, false);
  EXPECT_EQ(files, fused_for({kBoth.rbegin(), kBoth.rend()}, false));
  const Json manifest = Json::parse(files.at("tilefuse.json"));
  EXPECT_EQ(manifest["targets"][0]["name"], "x86-avx2");
  for (const Json& region : manifest["regions"]) {
    for (const std::string& target : kBoth) {
      const std::string folder = region["op"].get<std::string>() + "/" + target;
      EXPECT_THAT(files.at(folder + "/schedule.txt"), HasSubstr("for " + target));
      EXPECT_THAT(files.at(folder + "/kernel.cpp"), HasSubstr("// target    " + target));
    }
  }
}

TEST_F(TargetsTest, the_richest_that_this_machine_is_gets_loaded) {
  const ExtraFiles files = fused_for(kBoth, true);
  const bool has_avx2 = host_target_name() != "portable-cpu";
  for (const FileRegion& region : loaded(files, true)) {
    EXPECT_TRUE(region.module);
    EXPECT_EQ(region.how, has_avx2 ? "embedded for x86-avx2" : "embedded for portable-cpu");
  }
  for (const FileRegion& region : loaded(out_of_reach(files, {"x86-avx2"}), true)) {
    EXPECT_EQ(region.how, "embedded for portable-cpu");
  }
}

TEST_F(TargetsTest, a_file_for_other_machines_is_compiled_and_says_what_lacks) {
  const ExtraFiles files = out_of_reach(fused_for(kBoth, true), {"x86-avx2", "portable-cpu"});
  for (const FileRegion& region : loaded(files, true)) {
    EXPECT_TRUE(region.module);
    EXPECT_THAT(region.how, testing::StartsWith("compiled: the file has no code for this machine: "));
    EXPECT_THAT(region.how, testing::ContainsRegex("for x86-avx2 the processor lacks .*avx4096; for "
                                                   "portable-cpu the processor lacks avx4096"));
  }
  for (const FileRegion& region : loaded(files, false)) EXPECT_EQ(region.how, "compiled");
}

TEST_F(TargetsTest, code_of_another_architecture_or_processor_is_not_loaded) {
  const ExtraFiles files = fused_for({"portable-cpu"}, true);
  const auto loaded_with = [&](const char* field, const char* value) {
    Json manifest = Json::parse(files.at("tilefuse.json"));
    manifest["targets"][0][field] = value;
    ExtraFiles changed = files;
    changed["tilefuse.json"] = manifest.dump();
    return loaded(changed, true);
  };
  for (const FileRegion& region : loaded_with("architecture", "vax")) {
    EXPECT_TRUE(region.module);
    EXPECT_THAT(region.how, AllOf(testing::StartsWith("compiled: "), HasSubstr(", not vax")));
  }
  for (const FileRegion& region : loaded_with("processor", "0123")) {
    EXPECT_TRUE(region.module);
    EXPECT_THAT(region.how, HasSubstr("the code for portable-cpu was compiled on another processor"));
  }
}

TEST_F(TargetsTest, two_of_one_name_are_an_error) {
  EXPECT_THAT(([&] { fused_for({"x86-avx2", "x86-avx2"}, false); }),
              testing::ThrowsMessage<UserError>(HasSubstr("two targets are named x86-avx2")));
}

// ---------------------------------------------------------------- damage
TEST_F(OfflineTest, every_truncation_is_an_error) {
  const std::string whole = bytes_of(kExample);
  for (size_t size = 0; size < whole.size(); size += 1 + size / 64) {
    EXPECT_NE(error_of(write("cut.pt2", whole.substr(0, size))), "") << size;
  }
}

TEST_F(OfflineTest, a_flipped_bit_is_an_error_or_changes_nothing_that_is_read) {
  const std::string whole = bytes_of(kExample);
  std::mt19937 random(3);
  for (int i = 0; i < 1500; ++i) {
    std::string damaged = whole;
    damaged[random() % whole.size()] ^= char(1 << random() % 8);
    error_of(write("flipped.pt2", damaged));
  }
  Contents contents = contents_of(kExample);
  const size_t weight = whole.find(contents.at("data/weights/weight_0"));
  std::string damaged = whole;
  damaged[weight] ^= 1;
  EXPECT_THAT(error_of(write("flipped.pt2", damaged)),
              AllOf(HasSubstr("entry data/weights/weight_0"), HasSubstr("checksum")));
}

TEST_F(OfflineTest, damaged_json_is_an_error_that_names_file_and_entry) {
  const std::string text = contents_of(kExample).at(kProgram);
  std::mt19937 random(5);
  const std::vector<Json> others = {
      nullptr, -1, 1e300, "x", Json::array(), Json::object(), 9223372036854775807};
  for (int i = 0; i < 400; ++i) {
    Json json = Json::parse(text);
    Json* at = &json;
    while (at->is_structured() && !at->empty() && (at == &json || random() % 8 != 0)) {
      auto child = at->begin();
      std::advance(child, random() % at->size());
      at = &*child;
    }
    *at = others[random() % others.size()];
    Contents contents = contents_of(kExample);
    contents[kProgram] = json.dump();
    const std::string error = error_of(pack("damaged.pt2", contents));
    if (error.empty() || error.starts_with("unsupported")) continue;
    EXPECT_THAT(error, HasSubstr("damaged.pt2: entry")) << error;
  }
}

TEST_F(OfflineTest, deep_nesting_is_an_error) {
  Contents contents = contents_of(kExample);
  contents[kProgram] = std::string(100000, '[') + std::string(100000, ']');
  EXPECT_THAT(error_of(pack("deep.pt2", contents)), HasSubstr("nests 100000 deep"));
}

TEST_F(OfflineTest, lies_about_state_are_errors_that_name_the_field) {
  const auto meta = [](Json& json) -> Json& { return json["config"]["weight"]["tensor_meta"]; };
  EXPECT_THAT(error_of(edited(kWeights, [&](Json& j) { meta(j)["sizes"][0]["as_int"] = 5; })),
              HasSubstr("reaches over the 4 elements of the entry data/weights/weight_0"));
  EXPECT_THAT(error_of(edited(kWeights, [&](Json& j) { meta(j)["storage_offset"]["as_int"] = INT64_MAX; })),
              HasSubstr("reaches over"));
  EXPECT_THAT(error_of(edited(kWeights, [&](Json& j) { meta(j)["strides"][0]["as_int"] = INT64_MAX / 2; })),
              HasSubstr("reaches over"));
  EXPECT_THAT(error_of(edited(kWeights, [&](Json& j) { meta(j)["sizes"][0]["as_int"] = -1; })),
              HasSubstr("sizes[0].as_int: must not be negative"));
  EXPECT_THAT(error_of(edited(kWeights, [&](Json& j) { meta(j)["dtype"] = 99; })), HasSubstr("dtype"));
  EXPECT_THAT(error_of(edited(kWeights, [&](Json& j) { j["config"]["weight"]["path_name"] = "../x"; })),
              HasSubstr("which is missing"));
  EXPECT_THAT(error_of(edited(kWeights, [&](Json& j) { j["config"].erase("weight"); })),
              HasSubstr("names 'weight', which data/weights/model_weights_config.json does not have"));
  EXPECT_THAT(error_of(edited(kWeights, [&](Json& j) { j["config"]["weight"]["use_pickle"] = true; })),
              HasSubstr("is pickled"));
}

// A parameter that the program uses as something else than what is stored would be read past its end.
TEST_F(OfflineTest, state_that_differs_from_the_graph_is_an_error) {
  const auto wider = [](Json& json) {
    json["graph_module"]["graph"]["tensor_values"]["p_weight"]["sizes"][0]["as_int"] = 1 << 20;
  };
  EXPECT_THAT(error_of(edited(kProgram, wider)), HasSubstr("p_weight"));
  const auto other_type = [](Json& json) {
    json["graph_module"]["graph"]["tensor_values"]["p_weight"]["dtype"] = 8;
  };
  EXPECT_THAT(error_of(edited(kProgram, other_type)), HasSubstr("p_weight"));
}

TEST_F(OfflineTest, other_layouts_and_versions_say_what_to_do) {
  EXPECT_THAT(error_of(edited(kProgram, [](Json& j) { j["schema_version"]["major"] = 7; })),
              AllOf(HasSubstr("schema_version.major"), HasSubstr("export the model again with torch")));
  Contents contents = contents_of(kExample);
  contents.erase("archive_format");
  EXPECT_THAT(error_of(pack("x.pt2", contents)), HasSubstr("archive_format"));
  contents["serialized_exported_program.json"] = "{}";
  EXPECT_THAT(error_of(pack("x.pt2", contents)), HasSubstr("save the program again with torch.export.save"));
  EXPECT_THAT(error_of(path("nothing.pt2")), HasSubstr("No such file"));
}

// ---------------------------------------------------------------- archives that lie
class ZipTest : public OfflineTest {
 protected:
  std::string zip_with(const std::string& name, const std::string& text, bool deflate) const {
    int error = 0;
    zip_t* zip = zip_open(path("crafted.zip").c_str(), ZIP_CREATE | ZIP_TRUNCATE, &error);
    zip_source_t* source = zip_source_buffer(zip, text.data(), text.size(), 0);
    const zip_int64_t index = zip_file_add(zip, name.c_str(), source, 0);
    zip_set_file_compression(zip, zip_uint64_t(index), deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    zip_close(zip);
    return path("crafted.zip");
  }
};

TEST_F(ZipTest, names_that_lead_out_are_refused) {
  for (const char* name : {"../x", "model/../../x", "/etc/passwd", "model/./x", "model\\..\\x"}) {
    EXPECT_THAT(error_of(zip_with(name, "x", false)), HasSubstr("leads out")) << name;
  }
}

TEST_F(ZipTest, compressed_entries_are_refused_before_they_grow) {
  EXPECT_THAT(error_of(zip_with("model/x", std::string(50 << 20, '0'), true)), HasSubstr("is compressed"));
}

TEST_F(ZipTest, offsets_and_sizes_of_the_directory_are_checked) {
  const std::string whole = bytes_of(zip_with("model/x", std::string(64, 'x'), false));
  const size_t directory = whole.rfind("PK\x01\x02");
  ASSERT_NE(directory, std::string::npos);
  for (const size_t field : {20, 24, 42}) {  // compressed size, size, offset of the entry
    std::string lying = whole;
    for (size_t byte = 0; byte < 4; ++byte) lying[directory + field + byte] = '\x7f';
    EXPECT_NE(error_of(write("lying.zip", lying)), "") << field;
  }
}

}  // namespace
}  // namespace tilefuse
