// tilefuse: fuses exported programs (.pt2) ahead of time, with no Python and no torch.
//
//   tilefuse show model.pt2                      what is in it: state, and the graph as the compiler takes it
//   tilefuse fuse model.pt2 -o fused.pt2         the same program with fused regions, their kernels embedded
//   tilefuse fuse model.pt2 -o fused.pt2 --explain --target x86-zen4 --pin layer_norm:lanes=8
//   tilefuse fuse model.pt2 -o fused.pt2 --target x86-avx2 --target x86-zen4      kernels for either
//   tilefuse fuse model.pt2 -o fused.pt2 --target cuda-sm80 --target cuda-sm90a   of a program on a GPU
//   tilefuse explain model.pt2 --html out.html   what fusing does, and why not more, as a page; also of a
//   fused file
//   tilefuse bundle model.pt2 -o libmodel.so --header model.h    a C library that needs no torch
//
// Exit status: 0, or 2 with the error on standard error.
#include <CLI/CLI.hpp>
#include <cerrno>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

#include "core/result.h"
#include "offline/bundle_file.h"
#include "offline/explain_file.h"
#include "offline/fuse_file.h"
#include "offline/program_file.h"
#include "page/report_page.h"
#include "page/report_text.h"

namespace {

using Json = nlohmann::json;

struct Arguments {
  std::string input, output, numerics = "fast", products = "auto", cxx;
  std::string json, html, source;
  std::string header, weights, name;
  std::vector<std::string> targets, pins, nvrtc;
  int threads = int(std::max(1U, std::thread::hardware_concurrency()));
  bool explain = false, no_embed = false;
};

std::string shape_of(const tilefuse::StateTensor& tensor) {
  std::string text = tilefuse::info(tensor.dtype).name + std::string("[");
  for (size_t d = 0; d < tensor.sizes.size(); ++d)
    text += (d > 0 ? ", " : "") + std::to_string(tensor.sizes[d]);
  return text + "]";
}

void show(const Arguments& arguments) {
  const auto file = tilefuse::ProgramFile::open(arguments.input);
  for (const tilefuse::StateTensor& tensor : file.state()) {
    std::cout << tensor.name << ": " << shape_of(tensor) << " at " << tensor.offset << " of " << tensor.entry
              << "\n";
  }
  const auto graph = tilefuse::import_program(file);
  std::cout << (graph ? to_text(*graph) : "stays with torch: " + graph.unsupported().reason + "\n");
}

// "layer_norm:lanes=8"
void add_pin(Json& pins, const std::string& text) {
  const size_t colon = text.find(':'), equals = text.find('=', colon == std::string::npos ? 0 : colon);
  if (colon == std::string::npos || equals == std::string::npos) {
    throw tilefuse::UserError("--pin: '" + text + "' is not region:decision=value");
  }
  pins[text.substr(0, colon)][text.substr(colon + 1, equals - colon - 1)] = text.substr(equals + 1);
}

tilefuse::CompileOptions compile_options(const Arguments& arguments) {
  Json options = {
      {"threads", arguments.threads}, {"numerics", arguments.numerics}, {"products", arguments.products}};
  if (arguments.targets.size() == 1) options["target"] = arguments.targets[0];
  if (!arguments.cxx.empty()) options["cxx"] = arguments.cxx;
  if (!arguments.nvrtc.empty()) options["nvrtc"] = arguments.nvrtc;
  for (const std::string& pin : arguments.pins) add_pin(options["pins"], pin);
  return tilefuse::parse_compile_options(options.dump(), tilefuse::read_environment());
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (file.flush()) return;
  throw tilefuse::UserError(path + ": cannot be written: " + std::generic_category().message(errno));
}

void explain(const Arguments& arguments) {
  const std::string report = tilefuse::explain_file(arguments.input, compile_options(arguments));
  if (arguments.json == "-")
    std::cout << report << "\n";
  else if (!arguments.json.empty())
    write_file(arguments.json, report + "\n");
  if (!arguments.html.empty()) write_file(arguments.html, tilefuse::report_page(report, arguments.input));
  if (!arguments.source.empty()) std::cout << tilefuse::source_of(Json::parse(report), arguments.source);
  if (arguments.json.empty() && arguments.html.empty() && arguments.source.empty()) {
    std::cout << tilefuse::report_text(Json::parse(report));
  }
}

void fuse(const Arguments& arguments) {
  tilefuse::FuseOptions fusing;
  fusing.compile = compile_options(arguments);
  fusing.targets = arguments.targets;
  fusing.embed = !arguments.no_embed;
  const tilefuse::FuseResult result = tilefuse::fuse_file(arguments.input, arguments.output, fusing);
  for (const std::string& warning : result.warnings) std::cerr << "tilefuse: " << warning << "\n";
  if (!result.refusal.empty()) {
    std::cout << arguments.output << ": copied as it is: " << result.refusal << "\n";
    return;
  }
  if (arguments.explain) {
    std::cout << tilefuse::report_text(Json::parse(tilefuse::report_document(result.report, "")));
  }
  std::cout << arguments.output << ": " << result.launches << " fused regions (" << result.regions
            << " distinct), " << result.calls << " operators stay with torch\n";
}

void bundle(const Arguments& arguments) {
  const tilefuse::BundleResult made = tilefuse::bundle_file(
      arguments.input,
      {arguments.output, arguments.header, arguments.weights, arguments.name, compile_options(arguments)});
  std::cout << arguments.output << ": " << made.launches << " fused regions (" << made.regions
            << " distinct), " << made.weights_bytes << " bytes of weights "
            << (arguments.weights.empty() ? "inside" : "in " + arguments.weights) << "; call " << made.name
            << "_run of " << arguments.header << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Fuses exported PyTorch programs ahead of time.", "tilefuse");
  app.require_subcommand(1);
  Arguments arguments;
  CLI::App* showing = app.add_subcommand("show", "Print the state and the graph of a program.");
  showing->add_option("model", arguments.input, "a .pt2 file of torch.export.save")->required();
  CLI::App* fusing = app.add_subcommand("fuse", "Fuse a program: .pt2 in, .pt2 out.");
  fusing->add_option("model", arguments.input, "a .pt2 file of torch.export.save")->required();
  fusing->add_option("-o,--output", arguments.output, "the fused .pt2 file")->required();
  CLI::App* explaining = app.add_subcommand(
      "explain", "Show what is fused in a program, with which schedules, and why not the rest.");
  explaining->add_option("model", arguments.input, "a .pt2 file, exported or fused")->required();
  explaining->add_option("--html", arguments.html, "write the report as a page, one file");
  explaining->add_option("--json", arguments.json, "write the report as JSON; - for standard output");
  explaining->add_option("--source", arguments.source, "print the generated source of one region");
  CLI::App* bundling =
      app.add_subcommand("bundle", "Make a C library of a program: .pt2 in, .so and .h out.");
  bundling->add_option("model", arguments.input, "a .pt2 file, exported or fused")->required();
  bundling->add_option("-o,--output", arguments.output, "the library, libmodel.so")->required();
  bundling->add_option("--header", arguments.header, "the C header")->required();
  bundling->add_option("--weights", arguments.weights,
                       "a file for the weights; inside of the library unless given");
  bundling->add_option("--name", arguments.name,
                       "what the functions begin with; that of the library unless given");
  fusing->add_option("--target", arguments.targets,
                     "hardware profile to make code for: a name or a file, any number of times; code for "
                     "this processor alone, or this GPU, unless given");
  fusing->add_option("--nvrtc", arguments.nvrtc,
                     "folder of NVIDIA's compiler, for a program on a GPU; searched for unless given");
  for (CLI::App* planning : {explaining, bundling}) {
    planning
        ->add_option("--target", arguments.targets,
                     "hardware profile: a name or a file; this machine's unless given")
        ->expected(1);
  }
  for (CLI::App* planning : {fusing, explaining, bundling}) {
    planning->add_option("--numerics", arguments.numerics, "fast, or eager: round where eager rounds");
    planning->add_option("--pin", arguments.pins, "region:decision=value, any number of times");
    planning->add_option("--threads", arguments.threads,
                         "to plan for; the processors of this machine unless given");
  }
  for (CLI::App* planning : {fusing, explaining}) {
    planning->add_option("--products", arguments.products,
                         "who makes products: auto, whoever is faster; library, torch; own, regions");
  }
  for (CLI::App* compiling : {fusing, bundling}) {
    compiling->add_option("--cxx", arguments.cxx, "the C++ compiler for kernels");
  }
  fusing->add_flag("--explain", arguments.explain, "print the regions, and why the rest is not fused");
  fusing->add_flag("--no-embed", arguments.no_embed,
                   "leave the machine code out: who loads the file compiles");
  try {
    app.parse(argc, argv);
    if (showing->parsed()) show(arguments);
    if (fusing->parsed()) fuse(arguments);
    if (explaining->parsed()) explain(arguments);
    if (bundling->parsed()) bundle(arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::cerr << "tilefuse: " << error.what() << "\n";
    return 2;
  }
  return 0;
}
