#include "offline/check_report.h"

#include <span>

#include "core/import/document.h"
#include "core/import/field.h"

namespace tilefuse {
namespace {

using aten::Field;
using Json = nlohmann::json;

constexpr const char* kTextsOfRegion[] = {"name", "operator", "tile_graph", "schedule", "source"};
constexpr const char* kTextListsOfRegion[] = {"ops", "user_source", "inputs", "outputs"};
constexpr const char* kNumbersOfRegion[] = {"uses", "predicted_us", "apart_us", "bytes", "bytes_saved"};
constexpr const char* kTextsOfNode[] = {"name", "kind", "op", "origin", "source", "type"};
constexpr const char* kTextsOfUnfused[] = {"value", "consumer", "reason", "text"};

template <class Check>
void for_each_in(const Field& list, Check check) {
  for (size_t i = 0; i < list.size(); ++i) check(list.at(i));
}

void check_text(const Field& field) { (void)field.text(); }

// Not one of the words for what JSON has no number for: a report has none, and who shows it reads numbers.
void check_number(const Field& field) {
  (void)field.number();
  if (!field.json().is_number()) field.fail("must be a finite number");
}

void check_texts(const Field& row, std::span<const char* const> names) {
  for (const char* name : names) check_text(row[name]);
}

void check_place(const Field& field, size_t count) {
  const int64_t place = field.integer();
  if (place < 0 || static_cast<uint64_t>(place) >= count) {
    field.fail("must be below " + std::to_string(count) + ", got " + std::to_string(place));
  }
}

void check_tuned(const Field& tuned) {
  (void)tuned["chosen"].integer();
  const Field times = tuned["measured_us"];
  for_each_in(times, [](const Field& time) {
    if (!time.json().is_null()) check_number(time);
  });
  check_place(tuned["chosen"], times.size());
}

void check_region(const Field& region) {
  check_texts(region, kTextsOfRegion);
  for (const char* name : kTextListsOfRegion) for_each_in(region[name], check_text);
  for (const char* name : kNumbersOfRegion) check_number(region[name]);
  for_each_in(region["cost"], [](const Field& term) {
    check_text(term["name"]);
    check_number(term["us"]);
  });
  if (const auto refusal = region.find("refusal")) check_text(*refusal);
  if (const auto tuned = region.find("tuned")) check_tuned(*tuned);
}

void check_node_graph(const Field& graph, size_t regions) {
  const Field launches = graph["launches"], nodes = graph["nodes"];
  for_each_in(launches, [&](const Field& launch) { check_place(launch, regions); });
  for_each_in(nodes, [&](const Field& node) {
    check_texts(node, kTextsOfNode);
    if (const auto launch = node.find("launch")) check_place(*launch, launches.size());
  });
  for_each_in(graph["edges"], [&](const Field& edge) {
    check_text(edge["value"]);
    check_number(edge["bytes"]);
    for (const char* end : {"from", "to"}) check_place(edge[end], nodes.size());
  });
}

void check_graph(const Field& graph) {
  check_text(graph["role"]);
  check_number(graph["milliseconds"]);
  for (const char* name : {"fallback_reason", "name", "target", "executable"}) {
    if (const auto text = graph.find(name)) check_text(*text);
  }
  if (const auto threads = graph.find("threads")) (void)threads->integer();
  if (const auto faults = graph.find("faults")) for_each_in(*faults, check_text);
  if (const auto stages = graph.find("stages")) {
    for_each_in(*stages, [](const Field& stage) {
      check_text(stage["name"]);
      check_number(stage["milliseconds"]);
    });
  }
  for_each_in(graph["regions"], check_region);
  for_each_in(graph["unfused_edges"], [](const Field& edge) { check_texts(edge, kTextsOfUnfused); });
  check_node_graph(graph["graph"], graph["regions"].size());
}

}  // namespace

Json parse_report(std::string_view text, const std::string& place) {
  Json json = parse_document(text, place);
  for_each_in(Field(json).inside(place)["graphs"], check_graph);
  return json;
}

}  // namespace tilefuse
