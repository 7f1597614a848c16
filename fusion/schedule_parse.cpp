#include <algorithm>
#include <cmath>

#include "core/expr_reader.h"
#include "core/result.h"
#include "core/text_cursor.h"
#include "fusion/chain.h"
#include "fusion/launches.h"
#include "fusion/schedule.h"

namespace tilefuse {
namespace {

class ScheduleParser {
 public:
  ScheduleParser(TextCursor cursor, const TileGraph& graph) : cursor_(cursor), graph_(graph) {}
  Schedule parse();
  const TextCursor& cursor() const { return cursor_; }

 private:
  AxisId axis();
  TileValueId value();
  BufferId buffer();
  int64_t positive();
  template <class Item>
  void items(const Item& item) {
    do item();
    while (cursor_.accept(","));
  }
  bool in_dots();
  void lanes();
  void grid();
  void walk();
  void stage();
  void stores();
  double microseconds();
  void cost();
  std::vector<TileGraph> graphs_of_nests() const;
  void nests();

  TextCursor cursor_;
  const TileGraph& graph_;
  Schedule schedule_;
};

AxisId ScheduleParser::axis() {
  const TextCursor start = cursor_;
  const std::string name = cursor_.identifier();
  for (uint32_t a = 0; a < graph_.axes.size(); ++a) {
    if (graph_.axes[a].name == name) return AxisId{a};
  }
  start.fail("the tile graph " + graph_.name + " has no axis " + name);
}

TileValueId ScheduleParser::value() {
  cursor_.expect("%");
  const TextCursor start = cursor_;
  const std::string name = cursor_.identifier();
  for (uint32_t v = 0; v < graph_.values.size(); ++v) {
    if (graph_.values[v].name == name) return TileValueId{v};
  }
  start.fail("the tile graph " + graph_.name + " has no value %" + name);
}

BufferId ScheduleParser::buffer() {
  cursor_.expect("%");
  const TextCursor start = cursor_;
  const std::string name = cursor_.identifier();
  for (uint32_t b = 0; b < graph_.buffers.size(); ++b) {
    if (graph_.buffers[b].name == name) return BufferId{b};
  }
  start.fail("the tile graph " + graph_.name + " has no buffer %" + name);
}

int64_t ScheduleParser::positive() {
  const TextCursor start = cursor_;
  const int64_t number = cursor_.integer();
  if (number < 1) start.fail("expected a positive number, found " + std::to_string(number));
  return number;
}

bool ScheduleParser::in_dots() {
  if (!cursor_.accept("in")) return false;
  if (cursor_.accept("tiles")) cursor_.expect("of");  // which the rows say
  schedule_.dots = cursor_.accept("quads") ? DotKind::Quads : DotKind::Pairs;
  if (schedule_.dots == DotKind::Pairs) cursor_.expect("pairs");
  return true;
}

void ScheduleParser::lanes() {
  cursor_.expect("lanes");
  if (cursor_.accept("1")) return;
  schedule_.lane_axis = axis();
  cursor_.expect("=");
  schedule_.lanes = positive_integer(cursor_);
  (void)in_dots();
  if (!cursor_.accept(",")) return;
  cursor_.expect("unroll");
  schedule_.unroll = positive_integer(cursor_);
}

void ScheduleParser::grid() {
  cursor_.expect("grid");
  if (cursor_.accept("none")) return;
  items([&] {
    const AxisId tiled = axis();
    cursor_.expect("=");
    schedule_.grid.push_back({tiled, cursor_.accept("all") ? 0 : positive()});
  });
}

void ScheduleParser::walk() {
  cursor_.expect("walk");
  const TextCursor start = cursor_;
  const std::string name = cursor_.identifier();
  const auto walks = {Walk::None, Walk::MultiPass, Walk::Resident, Walk::Online};
  const auto* found =
      std::find_if(walks.begin(), walks.end(), [&](Walk walk) { return walk_name(walk) == name; });
  if (found == walks.end()) start.fail("expected none, multi_pass, resident or online, found " + name);
  schedule_.walk = *found;
  while (cursor_.accept(";")) {
    if (cursor_.accept("block")) {
      const AxisId cut = axis();
      cursor_.expect("=");
      schedule_.block = AxisTile{cut, positive()};
    } else if (cursor_.accept("keep")) {
      items([&] { schedule_.keep.push_back(value()); });
    } else {
      for (const char* word : {"accumulate", "in", "scratch"}) cursor_.expect(word);
      schedule_.accumulate_in_scratch = true;
    }
  }
}

void ScheduleParser::stage() {
  cursor_.expect("stage");
  if (cursor_.accept("none")) return;
  if (in_dots()) return;  // of a chain, whose nests stage
  items([&] {
    const TileValueId load = value();
    cursor_.expect("along");
    schedule_.staged.push_back({load, axis()});
    in_dots();
    if (cursor_.accept("packed")) cursor_.expect("once");
  });
}

void ScheduleParser::stores() {
  cursor_.expect("stores");
  if (cursor_.accept("cached")) return;
  if (cursor_.accept("ahead")) {
    schedule_.ahead = stored_outputs(graph_);
    return;
  }
  items([&] {
    const BufferId stored = buffer();
    cursor_.expect(":");
    const bool is_ahead = cursor_.accept("ahead");
    if (!is_ahead) cursor_.expect("streamed");
    (is_ahead ? schedule_.ahead : schedule_.streamed).push_back(stored);
  });
}

double ScheduleParser::microseconds() {
  const TextCursor start = cursor_;
  const double time = cursor_.number();
  if (!std::isfinite(time) || time < 0) start.fail("expected a time");
  cursor_.expect("us");
  return time;
}

void ScheduleParser::cost() {
  cursor_.expect("cost");
  schedule_.cost_us = microseconds();
  if (!cursor_.accept("=")) return;
  double sign = 1;
  while (true) {
    std::string name = cursor_.identifier();
    schedule_.cost.push_back({std::move(name), sign * cursor_.number()});
    if (cursor_.accept("+")) {
      sign = 1;
    } else if (cursor_.accept("-")) {
      sign = -1;
    } else {
      return;
    }
  }
}

// They follow from what has been read.
std::vector<TileGraph> ScheduleParser::graphs_of_nests() const {
  if (takes_launches(graph_)) {
    Result<std::vector<TileGraph>> launches = launches_of(graph_);
    if (!launches) cursor_.fail(launches.unsupported().reason);
    return *std::move(launches);
  }
  const Result<ChainAxes> axes = find_chain_axes(graph_);
  if (!axes) cursor_.fail(axes.unsupported().reason);
  Result<Chain> chain = make_chain(graph_, *axes, schedule_);
  if (!chain) cursor_.fail(chain.unsupported().reason);
  std::vector<TileGraph> graphs;
  for (ChainNest& nest : chain->nests) graphs.push_back(std::move(nest.graph));
  return graphs;
}

void ScheduleParser::nests() {
  for (const TileGraph& graph : graphs_of_nests()) {
    ScheduleParser parser(cursor_, graph);
    schedule_.nests.push_back(parser.parse());
    cursor_ = parser.cursor();
  }
}

Schedule ScheduleParser::parse() {
  cursor_.expect("schedule");
  const TextCursor start = cursor_;
  schedule_.tile_graph = cursor_.identifier();
  if (schedule_.tile_graph != graph_.name)
    start.fail("this schedule is for another tile graph, not " + graph_.name);
  cursor_.expect("for");
  schedule_.target = cursor_.until("{\n");
  cursor_.expect("{");
  lanes();
  grid();
  walk();
  for (const char* derived : {"live", "carries"}) {  // from the tile graph and the lines above
    if (cursor_.accept(derived)) cursor_.until("\n");
  }
  cursor_.expect("rows");
  schedule_.rows = positive_integer(cursor_);
  if (cursor_.accept("x")) schedule_.columns = positive_integer(cursor_);
  cursor_.expect("split");
  schedule_.split = positive();
  stage();
  stores();
  if (cursor_.looking_at("cost")) cost();
  if (cursor_.accept("alone")) schedule_.alone_us = microseconds();
  if (cursor_.looking_at("schedule")) nests();
  cursor_.expect("}");
  return std::move(schedule_);
}

}  // namespace

Schedule parse_schedule(std::string_view text, const TileGraph& graph) {
  ScheduleParser parser(TextCursor(text), graph);
  Schedule schedule = parser.parse();
  if (!parser.cursor().at_end()) parser.cursor().fail("text after the schedule");
  return schedule;
}

}  // namespace tilefuse
