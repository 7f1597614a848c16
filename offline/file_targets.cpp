#include "offline/file_targets.h"

#include <algorithm>
#include <cctype>

#include "codegen/cpu_features.h"
#include "codegen/gpu_module.h"
#include "core/source_writer.h"
#include "core/structural_hash.h"
#include "fusion/instruction_sets.h"

namespace tilefuse {
namespace {

std::string this_processor() { return to_text(hash_bytes(cpu_features())); }

}  // namespace

FileTarget file_target(const Target& target, bool is_for_any) {
  return {target.name, cpu_architecture(), target.instructions, is_for_any ? "" : this_processor()};
}

FileTarget file_target(const GpuTarget& target) { return {target.name, target.architecture, {}, ""}; }

bool is_of_gpu(const FileTarget& target) { return target.architecture.starts_with("sm_"); }

nlohmann::json to_json(const FileTarget& target) {
  nlohmann::json json = {
      {"name", target.name}, {"architecture", target.architecture}, {"instructions", target.instructions}};
  if (!target.processor.empty()) json["processor"] = target.processor;
  return json;
}

FileTarget parse_file_target(const aten::Field& field) {
  FileTarget target{field["name"].text(), field["architecture"].text(), {}, ""};
  const aten::Field list = field["instructions"];
  for (size_t i = 0; i < list.size(); ++i) target.instructions.push_back(list.at(i).text());
  if (const auto processor = field.find("processor")) target.processor = processor->text();
  return target;
}

std::string what_lacks(const FileTarget& target) {
  if (target.architecture != cpu_architecture()) {
    return "is " + cpu_architecture() + ", not " + target.architecture;
  }
  const std::vector<std::string> missing = missing_instructions(target.instructions);
  return missing.empty() ? "" : "lacks " + comma_separated(missing);
}

bool runs_here(const FileTarget& target) {
  return what_lacks(target).empty() && (target.processor.empty() || target.processor == this_processor());
}

std::string what_lacks(const FileTarget& target, const CudaDevice& device) {
  const int wanted = compute_capability(target.architecture), is = compute_capability(device);
  const bool is_for_one = std::isalpha(static_cast<unsigned char>(target.architecture.back())) != 0;
  return is == wanted || (is > wanted && !is_for_one) ? "" : "is sm_" + std::to_string(is);
}

std::string why_none_runs(const std::vector<FileTarget>& targets) {
  std::string text;
  for (const FileTarget& target : targets) {
    if (!text.empty()) text += "; ";
    const std::string lack = what_lacks(target);
    text += lack.empty() ? "the code for " + target.name + " was compiled on another processor"
                         : "for " + target.name + " the processor " + lack;
  }
  return text;
}

}  // namespace tilefuse
