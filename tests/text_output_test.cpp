// What the library writes and reads beside its IRs: source text, dumps, the environment, suggestions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "core/nearest_name.h"
#include "core/options.h"
#include "core/result.h"
#include "core/source_writer.h"
#include "core/text_cursor.h"
#include "core/trace.h"

namespace tilefuse {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::string user_error(const std::function<void()>& run) {
  try {
    run();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(SourceWriter, indents_blocks_and_closes_their_braces) {
  SourceWriter out;
  out.comment("sums rows");
  {
    auto outer = out.block("for (int $ = 0; $ < $; ++$)", {"i", "i", 4, "i"});
    out.blank();  // none after a brace
    out.line("double sum = $;", {0.5});
    out.blank();
    out.blank();  // one is enough
    auto inner = out.block("if (x[$] > 0)", {std::string("i")}, "};");
    out.line("cost = $$$;", {7});
  }
  EXPECT_EQ(out.text(), R"(// sums rows
for (int i = 0; i < 4; ++i) {
  double sum = 0.5;

  if (x[i] > 0) {
    cost = $7;
  };
}
)");
}

TEST(SourceWriter, checks_the_number_of_arguments) {
  SourceWriter out;
  EXPECT_THROW(out.line("$ + $", {"a"}), InternalError);
  EXPECT_THROW(out.line("$", {"a", "b"}), InternalError);
}

TEST(SourceWriter, wraps_long_comments_at_110_columns) {
  SourceWriter out;
  {
    auto block = out.block("");
    std::string words;
    for (int i = 0; i < 60; ++i) words += "word ";
    out.comment(words + std::string(150, 'x'));
  }
  std::istringstream lines(out.text());
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    ++count;
    EXPECT_TRUE(line.size() <= 110 || line.find("xxx") != std::string::npos) << line;
  }
  EXPECT_EQ(count, 6);
}

TEST(TextCursor, tells_whole_words_and_skips_comments) {
  TextCursor cursor("  // first\n  returned (a, b) \"q\\\"uote\" -12 2.5e-3");
  EXPECT_FALSE(cursor.accept("return"));
  EXPECT_EQ(cursor.identifier(), "returned");
  std::vector<std::string> names;
  cursor.list("(", ")", [&] { names.push_back(cursor.identifier()); });
  EXPECT_THAT(names, ElementsAre("a", "b"));
  EXPECT_EQ(cursor.string_literal(), "q\"uote");
  EXPECT_EQ(cursor.integer(), -12);
  EXPECT_EQ(cursor.number(), 2.5e-3);
  EXPECT_TRUE(cursor.at_end());
}

TEST(TextCursor, takes_an_expression_with_floor_division_as_one_piece) {
  TextCursor cursor("min(a, b) // 2, c]");
  EXPECT_EQ(cursor.until(",]"), "min(a, b) // 2");
}

TEST(TextCursor, reports_errors_once_at_their_place) {
  TextCursor cursor("a\n  b c");
  cursor.expect("a");
  EXPECT_EQ(user_error([&] { cursor.located([&] { cursor.expect("d"); }); }),
            "line 2, column 3: expected 'd', found 'b'");
  EXPECT_EQ(user_error([&] {
              cursor.located([&] {
                cursor.identifier();
                throw UserError("b is wrong");
              });
            }),
            "line 2, column 3: b is wrong");
}

TEST(NearestName, finds_a_typo_but_not_another_word) {
  const std::vector<std::string_view> names = {"graph", "tiles", "schedule"};
  EXPECT_EQ(nearest_name("shedule", names), "schedule");
  EXPECT_EQ(nearest_name("tile", names), "tiles");
  EXPECT_EQ(nearest_name("kernel", names), std::nullopt);
  EXPECT_EQ(nearest_name("", names), std::nullopt);
}

TEST(Options, dump_stages_are_a_list_or_all) {
  EXPECT_THAT(parse_dump_stages("kernel,graph", "X"), ElementsAre(DumpStage::Graph, DumpStage::Kernel));
  EXPECT_EQ(parse_dump_stages("all", "X").size(), dump_stage_names().size());
  EXPECT_TRUE(parse_dump_stages("", "X").empty());
}

TEST(Options, an_unknown_stage_is_named_with_the_nearest) {
  EXPECT_EQ(user_error([] { parse_dump_stages("graph,kernl", "TILEFUSE_DUMP"); }),
            "TILEFUSE_DUMP: there is no stage 'kernl'; did you mean 'kernel'?");
  EXPECT_THAT(
      user_error([] { parse_dump_stages("zzz", "TILEFUSE_DUMP"); }),
      HasSubstr(
          "the stages are all, capture, graph, partition, tiles, constraints, schedule, kernel, source"));
}

TEST(Options, come_from_the_environment) {
  setenv("TILEFUSE_CXX", "clang++-19", 1);
  setenv("TILEFUSE_CACHE_LIMIT_MB", "64", 1);
  setenv("TILEFUSE_DUMP", "source", 1);
  setenv("TILEFUSE_TARGET", "", 1);
  const EnvironmentOptions options = read_environment();
  EXPECT_EQ(options.cxx, "clang++-19");
  EXPECT_EQ(options.cache_limit_mb, 64);
  EXPECT_THAT(options.dump, ElementsAre(DumpStage::Source));
  EXPECT_EQ(options.target, std::nullopt);
  setenv("TILEFUSE_CACHE_LIMIT_MB", "much", 1);
  EXPECT_EQ(user_error([] { read_environment(); }),
            "TILEFUSE_CACHE_LIMIT_MB must be a number of megabytes, got 'much'");
  for (const char* name : {"TILEFUSE_CXX", "TILEFUSE_CACHE_LIMIT_MB", "TILEFUSE_DUMP", "TILEFUSE_TARGET"}) {
    unsetenv(name);
  }
}

class TraceFiles : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(testing::TempDir()) / ("tilefuse_trace_" + std::to_string(::getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string contents(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  fs::path folder_;
};

TEST_F(TraceFiles, are_numbered_by_stage_below_their_prefix) {
  const Trace trace({DumpStage::Graph, DumpStage::Schedule}, folder_.string());
  const Trace region = trace.within("net_0").within("region_3");
  Trace({DumpStage::Capture}, folder_.string()).write(DumpStage::Capture, [] { return "{}"; });
  EXPECT_EQ(contents("00-capture.json"), "{}");
  trace.within("net_0").write(DumpStage::Graph, [] { return "the graph\n"; });
  region.write(DumpStage::Schedule, [] { return "first\n"; });
  region.write(DumpStage::Schedule, [] { return "first\n"; });
  region.write(DumpStage::Schedule, [] { return "second\n"; });
  EXPECT_EQ(contents("net_0/01-graph.txt"), "the graph\n");
  EXPECT_EQ(contents("net_0/region_3/05-schedule.txt"), "first\n");
  EXPECT_EQ(contents("net_0/region_3/05-schedule.2.txt"), "unchanged\n");
  EXPECT_EQ(contents("net_0/region_3/05-schedule.3.txt"), "second\n");
}

TEST_F(TraceFiles, are_not_written_unless_asked_for) {
  const Trace trace({DumpStage::Graph}, folder_.string());
  bool was_called = false;
  const auto text = [&] {
    was_called = true;
    return std::string("text");
  };
  trace.write(DumpStage::Kernel, text);
  Trace().write(DumpStage::Graph, text);
  EXPECT_FALSE(was_called);
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(TraceFiles, that_cannot_be_written_are_named) {
  std::ofstream(folder_) << "a file where the folder should be";
  const Trace trace({DumpStage::Graph}, folder_.string());
  EXPECT_EQ(user_error([&] { trace.write(DumpStage::Graph, [] { return "text"; }); }),
            "cannot write the dump " + (folder_ / "01-graph.txt").string());
}

}  // namespace
}  // namespace tilefuse
