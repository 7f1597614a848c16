// A hardware profile: every number the constraints and the cost model use, with unit and source, read from
// configs/targets/<name>.json (embedded in the library; a path works, too).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fusion/processor.h"

namespace tilefuse {

struct Target {
  std::string name;  // "x86-zen4"
  std::string kind;  // "cpu"
  std::vector<std::string>
      instructions;  // sets that code for it may use: "avx2", "fma"; see instruction_sets.h
  std::optional<MeasuredOn> measured_on;  // the processors that the rates are those of; without: estimates
  int vector_bytes = 32;
  int datapath_bytes = 32;  // of a vector done at a time; narrower vectors take as long
  int vector_registers = 16;
  int cores = 1;
  double clock_ghz = 3.0;
  int64_t l1_bytes = 32 << 10, l2_bytes = 512 << 10, l3_bytes = 16 << 20;  // L1, L2 of a core; L3 shared
  std::map<std::string, double>
      rates;  // "bandwidth.DRAM.copy.1" -> GB/s, "clk_per_vector.exp" -> cycles, ...

  // The rate of that name; UserError if the profile lacks it.
  double rate(const std::string& key) const;
  double rate_or(const std::string& key, double absent) const;  // of what not every processor has
};

Target parse_target(std::string_view json, const std::string& origin);  // UserError names origin and field
Target load_target(const std::string& name_or_path);                    // an embedded name, or a file
// The name, and of a file what it says: plans that were made with one profile are for no other.
std::string target_identity(const std::string& name_or_path);
std::vector<std::string> target_names();  // embedded ones
std::string host_target_name();           // the best embedded match for this processor
// What runs more of: by the width of vectors, then by what there is besides; measured ones before estimates,
// then by name.
bool is_richer(const Target& a, const Target& b);

}  // namespace tilefuse
