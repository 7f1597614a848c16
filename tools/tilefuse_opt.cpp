// tilefuse-opt: runs one stage of the compiler on a text file and prints the result.
//
//   tilefuse-opt --stage graph softmax.txt
//   tilefuse-opt --stage hash < softmax.txt
//
// Exit status: 0, or 2 with the error on standard error.
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>

#include "core/result.h"
#include "tools/stages.h"

namespace {

std::string contents(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream file(path, std::ios::binary);
  if (!file) throw tilefuse::UserError("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string stage_help() {
  std::string text = "Stages:";
  for (const tilefuse::Stage& stage : tilefuse::stages()) {
    text += "\n  " + stage.name + ": " + stage.help;
    for (const tilefuse::StageOption& option : stage.options) text += "; --" + option.name;
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs one stage of the TileFuse compiler on a text file and prints the result.",
               "tilefuse-opt");
  app.footer(stage_help());
  std::string stage;
  std::string path = "-";
  app.add_option("--stage", stage, "what to run")->required();
  app.add_option("file", path, "input; standard input unless given");
  tilefuse::StageOptions values;
  for (const tilefuse::Stage& row : tilefuse::stages()) {
    for (const tilefuse::StageOption& option : row.options) {
      if (app.get_option_no_throw("--" + option.name) != nullptr) continue;
      app.add_option_function<std::string>(
          "--" + option.name,
          [&values, name = option.name](const std::string& value) { values[name] = value; }, option.help);
    }
  }
  try {
    app.parse(argc, argv);
    std::cout << tilefuse::run_stage(stage, values, contents(path));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::cerr << "tilefuse-opt: " << error.what() << "\n";
    return 2;
  }
  return 0;
}
