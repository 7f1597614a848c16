#include "fusion/processor.h"

#include <algorithm>
#include <array>

#include "core/result.h"
#include "fusion/instruction_sets.h"
#include "fusion/target.h"
#include "fusion/target_profiles.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tilefuse {
namespace {

bool has_all(const Processor& processor, const std::vector<std::string>& sets) {
  return std::all_of(sets.begin(), sets.end(), [&](const std::string& set) {
    return std::find(processor.instructions.begin(), processor.instructions.end(), set) !=
           processor.instructions.end();
  });
}

bool is_one_of(const Processor& processor, const MeasuredOn& measured) {
  return processor.vendor == measured.vendor && processor.family == measured.family &&
         has_all(processor, measured.has);
}

#if defined(__x86_64__)
// "The Intel 64 manual, volume 2, CPUID": leaf 0 spells the vendor, leaf 1 holds the family in two parts.
void read_identity(Processor& processor) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(0, &a, &b, &c, &d) == 0) return;
  for (unsigned part : {b, d, c}) {
    for (int byte = 0; byte < 4; ++byte) processor.vendor += char((part >> (8 * byte)) & 255);
  }
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return;
  const unsigned family = (a >> 8) & 15;
  processor.family = int(family == 15 ? family + ((a >> 20) & 255) : family);
}
#else
void read_identity(Processor&) {}
#endif

}  // namespace

Processor host_processor() {
  Processor processor;
  read_identity(processor);
  for (std::string_view set : instruction_set_names()) {
    if (missing_instructions({std::string(set)}).empty()) processor.instructions.emplace_back(set);
  }
  return processor;
}

std::string target_name_for(const Processor& processor) {
  for (const EmbeddedProfile& profile : embedded_profiles()) {  // the most specific first
    const Target target = parse_target(profile.json, std::string(profile.name));
    if (target.measured_on && !is_one_of(processor, *target.measured_on)) continue;
    if (has_all(processor, target.instructions)) return target.name;
  }
  throw InternalError("host target: the embedded profiles lack one for any processor");
}

}  // namespace tilefuse
