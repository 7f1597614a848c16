// The operators that Python calls, all in the namespace `tilefuse`: text goes in and out as JSON, so that the
// library needs no libpython.
//
//   compile(str graph_json, str options_json) -> str
//     graph_json: a captured graph, as capture.py or torch.export writes it. options_json: an object with any
//     of the keys of codegen/compile_options.h; "{}" means defaults. The answer:
//       {
//         "op": "graph_0f3a...",         torch.ops.tilefuse.<op>; null: the captured graph runs with the
//         framework "fallback_reason": null,       a sentence when "op" is null "inputs": ["tensor", "size",
//         ...],           by position "takes_lists": false,          true: the operator takes (Tensor[]
//         tensors, SymInt[] sizes) "held": "graph_0f3a..._held",  see below; null: the graph frees no input
//         before it ends "outputs": ["tensor", "size", "none", ...],  what the graph returns, by position
//         "packs": false,                true: it keeps constants packed; forget_packs() when it goes
//         "report_id": 3,                for report()
//         "regions": ["layer_norm_gelu_91c0...", ...],  torch.ops.tilefuse.<name>, one per distinct region
//         "warnings": ["..."],           for the user, at most one of each text per process
//         "notes": ["..."],              the same, where nothing is wrong
//         "cached": false,               true: the plan came from the cache
//         "milliseconds": 412.0          spent in here
//       }
//   torch.ops.tilefuse.<op>(a0, a1, ...)
//     One argument per input of the captured graph, in its order: a Tensor, or an int for a size. It returns
//     the "tensor" and "size" outputs in order, "none" left out: nothing when there are none, the value
//     itself when there is one, a tuple when there are more. Inputs that the graph mutates are written in
//     place. The cheapest way in is `torch.ops.tilefuse.<op>.default._op`.
//   hold(Tensor[] tensors) -> int; torch.ops.tilefuse.<held>(int held, int[] sizes)
//     The same run on tensors that nobody else needs: each is freed after its last reader.
//   report(int report_id) -> str         what explain shows, schema configs/explain.schema.json
//   explain_only(str graph_json, str options_json) -> str
//     The same report, with nothing compiled, registered or cached.
//   define_op(str schema, str python_name, str backward_schema, str autocast) -> ()
//     An operator of the user's, tilefuse.op in Python; see register_user_op.h. forget_op(str name) -> ()
//     drops what was compiled for it, op_specialisations(str name) -> int counts that.
//   cache_stats(str options_json) -> str  {"directory": "...", "entries": 12, "bytes": 345678}
//   cache_clear(str options_json) -> str  {"removed": 12}
//   calibrate(str options_json) -> str   a hardware profile of this machine, as configs/targets/*.json
//   host_target() -> str                 {"name": "x86-zen4", "known": ["x86-avx2", ...], "threads": 2}
//   imported_operators() -> str          the overloads that the importer expands, one a line
//   decomposes(str op, str overload) -> bool
//     Whether a region may hold "aten::mm", "", if the cost model wants it.
//   pool_stats() -> str                  {"held_bytes": ..., "used_bytes": ..., "bound_bytes": ...}
//   pool_trim() -> int                   bytes given back to the system
//   pack_stats() -> str                  {"packs": ..., "bytes": ...}: constants packed once (packs.h)
//   forget_packs(str op) -> ()           of that graph; of all graphs where it is empty
//   set_options(str options_json) -> ()  process-wide ones: {"pool_bound_mb": 2048}
//
// A UserError arrives in Python as ValueError, an internal error as RuntimeError, an index out of range in a
// kernel as IndexError.
#pragma once
#include <string>

namespace tilefuse {

std::string compile_graph(const std::string& graph_json, const std::string& options_json);
std::string report_of(int64_t report_id);
std::string explain_graph(const std::string& graph_json, const std::string& options_json);

}  // namespace tilefuse
