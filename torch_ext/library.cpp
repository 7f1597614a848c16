#include "torch_ext/library.h"

#include <ATen/Parallel.h>
#include <torch/library.h>

#include <nlohmann/json.hpp>

#include "codegen/calibrate.h"
#include "codegen/compile_options.h"
#include "codegen/kernel_cache.h"
#include "core/import/decomposition.h"
#include "core/import/operator_table.h"
#include "fusion/target.h"
#include "torch_ext/held_inputs.h"
#include "torch_ext/load_user_ops.h"
#include "torch_ext/packs.h"
#include "torch_ext/pool.h"
#include "torch_ext/register_ops.h"
#include "torch_ext/register_user_op.h"
#include "torch_ext/translate_errors.h"

namespace tilefuse {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMegabyte = 1 << 20;

std::string compile(const std::string& graph_json, const std::string& options_json) {
  return translated([&] { return compile_graph(graph_json, options_json); });
}
std::string report(int64_t report_id) {
  return translated([&] { return report_of(report_id); });
}
std::string explain_only(const std::string& graph_json, const std::string& options_json) {
  return translated([&] { return explain_graph(graph_json, options_json); });
}

KernelCache open_cache(const std::string& options_json) {
  const CompileOptions options = parse_compile_options(options_json, read_environment());
  return {options.cache_dir.empty() ? default_cache_directory() : options.cache_dir,
          options.cache_limit_mb * kMegabyte};
}

std::string cache_stats(const std::string& options_json) {
  return translated([&] {
    const KernelCache cache = open_cache(options_json);
    const CacheStats stats = cache.stats();
    return Json{{"directory", cache.directory()}, {"entries", stats.entries}, {"bytes", stats.bytes}}.dump();
  });
}

std::string cache_clear(const std::string& options_json) {
  return translated([&] { return Json{{"removed", open_cache(options_json).clear().entries}}.dump(); });
}

std::string measured_profile(const std::string& options_json) {
  return translated([&] {
    const CompileOptions options = parse_compile_options(options_json, read_environment());
    KernelCache cache = open_cache(options_json);
    const auto toolchain = find_toolchain({options.cxx, options.search_path, options.python}, cache);
    if (!toolchain) throw UserError("cannot measure this machine: " + toolchain.unsupported().reason);
    auto profile = calibrate(*toolchain, cache);
    if (!profile) throw UserError("cannot measure this machine: " + profile.unsupported().reason);
    return *std::move(profile);
  });
}

std::string host_target() {
  return translated([] {
    return Json{{"name", host_target_name()}, {"known", target_names()}, {"threads", at::get_num_threads()}}
        .dump();
  });
}

// The overloads that the importer expands, one a line; everything else runs as a Call.
std::string imported_operators() {
  std::string names;
  for (const aten::OperatorFamily& family : aten::operator_families()) {
    for (const aten::OperatorRow& row : family) {
      names += (names.empty() ? "" : "\n") + std::string(row.overload);
    }
  }
  return names;
}

// Whether a region may hold what the framework's library computes: a product, attention.
bool decomposes(const std::string& op, const std::string& overload) {
  Call call;
  call.op = op;
  call.overload = overload;
  return is_decomposable(call);
}

std::string pool_statistics() {
  const PoolStats stats = pool_stats();
  return Json{
      {"held_bytes", stats.held_bytes}, {"used_bytes", stats.used_bytes}, {"bound_bytes", stats.bound_bytes}}
      .dump();
}

std::string pack_statistics() {
  const PackStats stats = pack_stats();
  return Json{{"packs", stats.packs}, {"bytes", stats.bytes}}.dump();
}
void forget_packs(const std::string& op) {
  if (op.empty()) return forget_all_packs();
  if (const auto runner = find_executable(op)) runner->forget_packs();
}

void set_options(const std::string& options_json) {
  translated([&] {
    const Json options = Json::parse(options_json, nullptr, /*allow_exceptions=*/false);
    if (!options.is_object()) throw UserError("the options must be a JSON object");
    for (const auto& [name, value] : options.items()) {
      if (name != "pool_bound_mb") throw UserError("unknown option '" + name + "'; known: pool_bound_mb");
      if (!value.is_number_unsigned())
        throw UserError("option 'pool_bound_mb' wants a number, got " + value.dump());
      set_pool_bound(value.get<int64_t>() * kMegabyte);
    }
  });
}

void define_op(const std::string& schema, const std::string& python_name, const std::string& backward_schema,
               const std::string& autocast) {
  translated([&] { define_user_op(schema, python_name, backward_schema, autocast); });
}
void forget_op(const std::string& name) {
  translated([&] { find_user_op(name).forget(); });
}
int64_t op_specialisations(const std::string& name) {
  return translated([&] { return int64_t(find_user_op(name).specialisations()); });
}
int64_t load_ops(const std::string& path) {
  return translated([&] { return load_user_ops(path); });
}

TORCH_LIBRARY(tilefuse, library) {
  library.def("compile(str graph_json, str options_json) -> str", &compile);
  library.def("hold(Tensor[] tensors) -> int", &hold_inputs);
  library.def("report(int report_id) -> str", &report);
  library.def("explain_only(str graph_json, str options_json) -> str", &explain_only);
  library.def("cache_stats(str options_json) -> str", &cache_stats);
  library.def("cache_clear(str options_json) -> str", &cache_clear);
  library.def("calibrate(str options_json) -> str", &measured_profile);
  library.def("define_op(str schema, str python_name, str backward_schema, str autocast) -> ()", &define_op);
  library.def("forget_op(str name) -> ()", &forget_op);
  library.def("load_ops(str path) -> int", &load_ops);
  library.def("op_specialisations(str name) -> int", &op_specialisations);
  library.def("host_target() -> str", &host_target);
  library.def("imported_operators() -> str", &imported_operators);
  library.def("decomposes(str op, str overload) -> bool", &decomposes);
  library.def("pool_stats() -> str", &pool_statistics);
  library.def("pack_stats() -> str", &pack_statistics);
  library.def("forget_packs(str op) -> ()", &forget_packs);
  library.def("pool_trim() -> int", &trim_pool);
  library.def("set_options(str options_json) -> ()", &set_options);
}

}  // namespace
}  // namespace tilefuse
