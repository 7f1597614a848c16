// Users' operators for a process without Python: a file that tilefuse.save_ops wrote defines them, with the
// kernels that they had by then. Kernels come from the cache or are compiled, when the file is loaded.
//
//   {"version": 1, "ops": [{"schema": ..., "python_name": ..., "backward_schema": ..., "autocast": ...,
//     "specialisations": [{"name": "mylib::scaled", "graph": "{captured graph}", "options": "{...}",
//       "types": ["Float", ...],                  of every tensor, those in lists too
//       "arguments": [{"tensors": 1}, {"value": 2.0}, {"list": 3}, ...],
//       ...an argument pattern (argument_pattern.h)}]}]}
//
// A call of another kind than these is an error that says so. Where Python has defined the operator already,
// the kernels are added to its own.
#pragma once
#include <cstdint>
#include <string>

namespace tilefuse {

// How many kernels there were. UserError for a file that cannot be read or names what cannot be.
int64_t load_user_ops(const std::string& path);

}  // namespace tilefuse
