// What reads bytes that somebody else wrote, one function for each kind of them.
//
//   fuzz::find_target("archive").run(bytes)    returns: the bytes were taken, or refused as they should be
//
// A UserError and an Unsupported are refusals. What else escapes (an InternalError, an exception of a
// library, an error of an archive that does not name the file) is a finding, and so is whatever a sanitizer
// stops. What is accepted goes on through the stages behind the parser, up to a size.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace tilefuse::fuzz {

struct Target {
  std::string_view name;
  void (*run)(std::string_view bytes);
};

void run_archive(std::string_view bytes);          // a .pt2 file: state, regions, fusing
void run_program(std::string_view bytes);          // the JSON of an exported or captured program
void run_graph(std::string_view bytes);            // the text form of a graph
void run_tile_graph(std::string_view bytes);       // ["pins: a=1,b=2\n"] tile graph ["\n" schedule]
void run_size_expression(std::string_view bytes);  // sympy's srepr, and our own text
void run_report(std::string_view bytes);           // what a fused file says of itself, and its page
void run_executable(std::string_view bytes);       // the JSON of a region's launches

std::span<const Target> targets();
const Target& find_target(std::string_view name);

}  // namespace tilefuse::fuzz
